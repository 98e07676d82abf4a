# SPDX-License-Identifier: Apache-2.0
"""Leases that a project creates at once share a transaction; each is granted or refused alone."""

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, listing, store, tables
from climate_core.db import trusts as db_trusts
from tests.support.quotas import limit
from tests.support.world import World, executed, user

PATIENCE = 60
START, END = '2098-01-01 00:00', '2099-01-01 00:00'
IDS = [f'6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a1{n}' for n in range(8)]
Create = Callable[[], str]


class Rush:
    """Has creates come while the commit of another one takes its time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pool = futures.ThreadPoolExecutor(10)
        self.sql: list[str] = []
        self.commits = 0
        self._inside, self._release = threading.Event(), threading.Event()

    def create(self, *things: str, **values: Any) -> str:
        values['context'] = values.get('context') or user(own_token=True)
        return self.world.create(*things, **{'start': START, 'end': END, **values})

    def later(self, *things: str, **values: Any) -> Create:
        return functools.partial(self.create, *things, **values)

    def __call__(self, *creates: Create, waiting: int | None = None) -> list[Any]:
        """Return the ids of the leases, or why there is none.

        :param waiting: how many of them wait for the one that takes its time; None: all
        """
        groups = self.world.operations.creator
        engine = self.world.database.engine
        sa.event.listen(engine, 'commit', self._commit)
        try:
            first = self.pool.submit(self.create, 'first')
            assert self._inside.wait(PATIENCE)
            begun = [self.pool.submit(each) for each in creates]
            count = len(creates) if waiting is None else waiting
            assert groups.await_waiting(count, PATIENCE)
            self.sql = [sql for sql, _ in executed(self.world.database, self._go_on(first, begun))]
        finally:
            self._release.set()
            sa.event.remove(engine, 'commit', self._commit)
        assert first.exception() is None
        return [each.exception() or each.result() for each in begun]

    def _go_on(self, *begun: Any) -> Callable[[], Any]:
        first, others = begun

        def go_on() -> None:
            self._release.set()
            futures.wait([first, *others], PATIENCE)

        return go_on

    def _commit(self, connection: sa.Connection) -> None:
        if not connection.get_execution_options().get('climate_writes'):
            return
        if self._release.is_set():
            self.commits += 1
        elif not self._inside.is_set():
            self._inside.set()
            assert self._release.wait(PATIENCE)


@pytest.fixture
def rush(any_world: World) -> Iterator[Rush]:
    """Return a rush on each database; the owner has a trust that all leases share."""
    limit(any_world, leases=100)
    made = Rush(any_world)
    with made.pool:
        made.create('before')
        yield made


def written(world: World) -> set[str]:
    with world.database.reader() as session:
        return set(session.scalars(sa.select(tables.LEASES.c.id)))


def check_whole(world: World, lease_id: str, things: int) -> None:
    """Check that a lease has all that belongs to it."""
    lease = world.lease(lease_id)
    assert len(lease.reservations) == things
    assert {each.event_type for each in lease.events} >= {'start_lease', 'end_lease'}
    (entry,) = world.database.read(listing.read_history_page, lease_id)[0]
    assert entry[1].action == 'lease.create'
    world.told()
    told = [body['id'] for kind, body in world.sent if kind == 'lease.create']
    assert told.count(lease_id) == 1


def test_creates_at_once_share_a_transaction_and_its_statements(rush: Rush) -> None:
    made = rush(*(rush.later(f'{n}a', f'{n}b', id=IDS[n]) for n in range(6)))
    assert (sorted(made), rush.commits) == (IDS[:6], 1)
    # The limits: lock and count; the trust; the leases, their reservations and events; history
    # and notifications.
    assert len(rush.sql) == 8
    for lease_id in made:
        check_whole(rush.world, lease_id, 2)
    assert len({rush.world.lease(each).trust_id for each in made}) == 1


def test_create_over_the_limit_is_refused_and_the_others_are_written(any_world: World) -> None:
    limit(any_world, leases=5)
    rush = Rush(any_world)
    with rush.pool:
        made = rush(*(rush.later(f't{n}') for n in range(6)))
    refused = [each for each in made if isinstance(each, exceptions.LimitExceeded)]
    granted = [each for each in made if isinstance(each, str)]
    assert (len(refused), len(granted), len(written(any_world))) == (2, 4, 5)
    assert 'leases: 1 more would exceed the limit of 5, 5 in use' in str(refused[0])
    for lease_id in granted:
        check_whole(any_world, lease_id, 1)


def test_create_of_a_resource_that_is_taken_is_refused_and_the_others_are_written(
    rush: Rush,
) -> None:
    made = rush(rush.later('a'), rush.later('same', name='x'), rush.later('same', name='y'))
    kinds = sorted(type(each).__name__ for each in made)
    assert kinds == ['ResourceReserved', 'str', 'str']
    for lease_id in (each for each in made if isinstance(each, str)):
        check_whole(rush.world, lease_id, 1)
    assert len(written(rush.world)) == 4


def test_equal_creates_at_once_give_one_lease(rush: Rush) -> None:
    made = rush(rush.later('a', id=IDS[0]), rush.later('a', id=IDS[0]), rush.later('b'))
    assert made[:2] == [IDS[0], IDS[0]]
    for lease_id in set(made):
        check_whole(rush.world, lease_id, 1)


def test_create_whose_trust_was_retired_takes_another_and_the_others_keep_theirs(
    rush: Rush, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = user(name='user2', own_token=True)
    kept, gone = (rush.world.lease(rush.create(context=c)).trust_id for c in (None, theirs))
    live = db_trusts.lock_live

    def retire_first(session: orm.Session, ids: Collection[str]) -> set[str]:
        assert {kept, gone} == set(ids)
        db_trusts.retire(session, [str(gone)])
        return live(session, ids)

    monkeypatch.setattr(db_trusts, 'lock_live', retire_first)
    made = rush(rush.later('a'), rush.later('b', context=theirs), rush.later('c'))
    for lease_id in made:
        check_whole(rush.world, lease_id, 1)
    trusts = [rush.world.lease(each).trust_id for each in made]
    assert (trusts[0], trusts[2]) == (kept, kept)
    assert trusts[1] not in (kept, gone)


# In SQLite one transaction writes at a time.
@pytest.mark.parametrize('database_url', ['mariadb', 'postgresql'], indirect=True)
def test_other_project_does_not_wait(rush: Rush) -> None:
    done = threading.Event()

    def other() -> str:
        lease_id = rush.create('theirs', context=user('project2'))
        done.set()
        return lease_id

    def own() -> str:
        # It comes when that of the other project is written.
        assert done.wait(PATIENCE)
        return rush.create('ours')

    theirs, ours = rush(other, own, waiting=1)
    assert rush.world.lease(theirs).project_id == 'project2'
    check_whole(rush.world, ours, 1)


def test_mistake_in_one_does_not_hurt_the_others(
    rush: Rush, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, create_all = store.create, store.create_all

    def one(session: Any, lease: Any, *args: Any) -> None:
        if lease.name == 'wrong':
            raise ValueError('a mistake')
        create(session, lease, *args)

    def several(session: Any, new: Any) -> None:
        create_all(session, new)
        if any(each.lease.name == 'wrong' for each in new):
            raise ValueError('a mistake')

    monkeypatch.setattr(store, 'create', one)
    monkeypatch.setattr(store, 'create_all', several)
    made = rush(rush.later('a'), rush.later('b', name='wrong'), rush.later('c'))
    assert isinstance(made[1], ValueError)
    for lease_id in (made[0], made[2]):
        check_whole(rush.world, lease_id, 1)
    assert len(written(rush.world)) == 4


@pytest.mark.parametrize('is_committed', [True, False])
def test_lost_answer_of_a_commit_leaves_each_lease_once_or_not_at_all(
    rush: Rush, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    write = rush.world.database.write

    def lost(function: Any, *args: Any, **kw: Any) -> Any:
        if getattr(function, '__name__', '') != '_write_all':
            return write(function, *args, **kw)
        if is_committed:
            write(function, *args, **kw)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(rush.world.database, 'write', lost)
    made = rush(*(rush.later(f't{n}', id=IDS[n]) for n in range(3)))
    present = rush.world.database.read
    if is_committed:
        assert made == IDS[:3]
        for lease_id in made:
            check_whole(rush.world, lease_id, 1)
    else:
        assert [type(each) for each in made] == [db_exc.DBConnectionError] * 3
        assert [present(leases.find, each) for each in IDS[:3]] == [None] * 3
