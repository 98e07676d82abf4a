# SPDX-License-Identifier: Apache-2.0
"""Leases that are written at once are written in one transaction; each has its own outcome."""

import dataclasses
import datetime
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.concurrency import ItemResult
from climate_core.db import events, listing, sql, store
from climate_core.db import leases as db_leases
from climate_core.db.events import DueEvent
from climate_core.engine.claims import ClaimLost
from climate_core.lease import states
from climate_core.lease.history import Cause
from climate_core.lease.model import START, Lease
from climate_core.lease.transitions import Change
from tests.support.world import World, executed

NEVER = '2099-01-01 00:00'
THEN = datetime.datetime(2026, 10, 1, 12)
Function = Callable[[orm.Session, Lease | None], Any]


class Group:
    """Writes for several leases."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sql: list[str] = []
        self.commits = 0

    def write(self, *writes: tuple[str, Function]) -> list[Any]:
        """Return the results, or what was raised.

        :param writes: the id of a lease, and what is done with it
        """
        outcomes: list[ItemResult[Any]] = []

        def write() -> None:
            executor = self.world.executor
            executor.writes_of = dict(writes)
            due = [DueEvent(each, each, START, 0, 2, THEN) for each, _ in writes]
            outcomes.extend(executor.run_batch([executor.create_job(each) for each in due]))

        self.commits = 0
        sa.event.listen(self.world.database.engine, 'commit', self._count)
        try:
            self.sql = [statement for statement, _ in executed(self.world.database, write)]
        finally:
            sa.event.remove(self.world.database.engine, 'commit', self._count)
        return [error or result for result, error in outcomes]

    def _count(self, connection: sa.Connection) -> None:
        self.commits += bool(connection.get_execution_options().get('climate_writes'))

    def names(self, lease_ids: Sequence[str]) -> list[str]:
        return [self.world.lease(each).name for each in lease_ids]

    def renamings(self, lease_id: str) -> int:
        """Count the renamings of a lease in its history."""
        page = self.world.database.read(listing.read_history_page, lease_id)[0]
        return sum(entry.action == 'lease.update' for _, entry in page)


@pytest.fixture
def group(any_world: World) -> Group:
    return Group(any_world)


def rename(session: orm.Session, lease: Lease | None) -> int:
    """Rename a lease; return the generation that it had."""
    assert lease is not None
    change = Change(dataclasses.replace(lease, name=f'{lease.name}*'), {'lease.update': None})
    store.save(session, lease, change, THEN, Cause('lease.update'))
    return lease.generation


def give_way(_session: orm.Session, _lease: Lease | None) -> None:
    raise ClaimLost


def fail(session: orm.Session, lease: Lease | None) -> None:
    rename(session, lease)
    raise ValueError('a mistake')


def test_leases_that_come_at_once_are_read_and_written_together(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'abcd']
    results = group.write(*((each, rename) for each in leases))
    assert results == [0] * 4
    assert group.names(leases) == ['lease1*'] * 4
    assert [group.renamings(each) for each in leases] == [1] * 4
    # Their leases, reservations and events; then all of them, and what is told of all.
    kinds = [statement.partition(' ')[0] for statement in group.sql]
    assert [kinds.count(each) for each in ('SELECT', 'UPDATE', 'INSERT')] == [3, 1, 2]
    assert group.commits == 1
    assert group.world.told().count('lease.update') == 4


def test_event_that_was_superseded_keeps_no_other_lease_from_being_written(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'abc']
    results = group.write(*zip(leases, (rename, give_way, rename), strict=True))
    assert (results[0], type(results[1]), results[2]) == (0, ClaimLost, 0)
    assert group.names(leases) == ['lease1*', 'lease1', 'lease1*']
    assert group.commits == 1


def test_lease_that_cannot_be_written_keeps_no_other_from_being_written(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'abc']
    results = group.write(*zip(leases, (rename, fail, rename), strict=True))
    assert (results[0], str(results[1]), results[2]) == (0, 'a mistake', 0)
    assert group.names(leases) == ['lease1*', 'lease1', 'lease1*']
    assert [group.renamings(each) for each in leases] == [1, 0, 1]


def test_lease_that_is_gone_is_none(group: Group) -> None:
    lease = group.world.create('a', end=NEVER)
    results = group.write((lease, rename), ('gone', lambda _, found: found))
    assert results == [0, None]


def test_connection_that_is_lost_is_told_to_all(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'ab']
    write = group.world.database.write

    def refuse(function: Callable[..., Any], *args: Any) -> Any:
        write(function, *args)
        raise db_exc.DBConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(group.world.database, 'write', refuse)
        results = group.write(*((each, rename) for each in leases))
    assert [type(each) for each in results] == [db_exc.DBConnectionError] * 2
    # It was committed all the same, so it is not written again by each alone.
    assert [group.renamings(each) for each in leases] == [1, 1]


def test_row_that_the_database_refuses_keeps_no_other_lease_from_being_written(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'ab']
    insert, refused = sql.insert, leases[1]

    def refuse(session: orm.Session, table: sa.Table, new: Sequence[Any]) -> None:
        if any(each.get('lease_id') == refused for each in new):
            raise db_exc.DBDataError
        insert(session, table, new)

    monkeypatch.setattr(sql, 'insert', refuse)
    results = group.write(*((each, rename) for each in leases))
    assert (results[0], type(results[1])) == (0, db_exc.DBDataError)
    assert group.names(leases) == ['lease1*', 'lease1']


def test_rows_with_values_of_their_own_are_told_apart(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'abc']

    def name(session: orm.Session, lease: Lease | None) -> None:
        assert lease is not None
        own = Change(dataclasses.replace(lease, name=lease.id[:8]), {'lease.update': None})
        store.save(session, lease, own, THEN, Cause('lease.update'))

    assert group.write(*((each, name) for each in leases)) == [None] * 3
    assert group.names(leases) == [each[:8] for each in leases]


def test_event_that_is_claimed_without_its_lease_is_not_claimed_by_a_group(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'abc']
    starts = {each: group.world.lease(each).events_of(START)[0] for each in leases}
    taken = starts[leases[1]]

    def claim(session: orm.Session, lease: Lease | None) -> bool:
        assert lease is not None
        event = starts[lease.id]
        return events.claim(session, event.id, event.generation, 60.0)

    assert group.world.database.write(events.claim, taken.id, taken.generation, 60.0)
    results = group.write(*((each, claim) for each in leases))
    assert results == [True, False, True]
    generations = [group.world.lease(each).events_of(START)[0].generation for each in leases]
    assert generations == [1, 1, 1]


def test_what_is_read_in_a_group_is_written_before(group: Group) -> None:
    leases = [group.world.create(each, end=NEVER) for each in 'ab']

    def read(session: orm.Session, lease: Lease | None) -> str:
        rename(session, lease)
        assert lease is not None
        return db_leases.get(session, lease.id).name

    assert group.write(*((each, read) for each in leases)) == ['lease1*'] * 2


def test_event_is_claimed_before_what_it_becomes_is_written(group: Group) -> None:
    """The second change has the generation of the claim; alike ones come first in the group."""
    leases = [group.world.create(each, end=NEVER) for each in 'ab']

    def skip(is_claimed: bool, session: orm.Session, lease: Lease | None) -> None:
        assert lease is not None
        (start,) = lease.events_of(START)
        if is_claimed:
            assert events.claim(session, start.id, start.generation, 60)
            start = dataclasses.replace(
                start, status=states.EventStatus.IN_PROGRESS, generation=start.generation + 1
            )
        done = dataclasses.replace(start, status=states.EventStatus.DONE, next_at=None)
        assert store.update_event(session, start, done)

    skips = (functools.partial(skip, is_claimed) for is_claimed in (False, True))
    assert group.write(*zip(leases, skips, strict=True)) == [None, None]
    assert group.commits == 1
    found = [group.world.lease(each).events_of(START)[0] for each in leases]
    assert [(each.status, each.generation) for each in found] == [('DONE', 0), ('DONE', 1)]
