# SPDX-License-Identifier: Apache-2.0
"""A lease is read in one statement as it is in three, on each database."""

import datetime
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from climate_core.db import leases, tables
from climate_core.db.engine import Database
from tests.support.world import World, configure

START = '2098-01-01 10:00'


@pytest.mark.parametrize('things', [[], ['a'], [f't{n}' for n in range(20)]])
def test_whole_lease_is_what_its_parts_are(any_world: World, things: list[str]) -> None:
    any_world.create('another')
    note = {'event_type': 'note', 'time': '2098-01-01 09:30'}
    hook = {'url': 'https://example.org/hook', 'secret': 'x' * 16}
    lease_id = any_world.create(
        *things,
        start=START,
        end='2099-01-01 10:00',
        events=[note],
        before_start=[60],
        webhook=hook,
    )
    whole = any_world.database.read(leases.get, lease_id)
    with any_world.database.writer() as session:
        assert whole == leases.get(session, lease_id, lock=True)
    assert [each.resource_id for each in whole.reservations] == things
    assert len(whole.events) > 1


def test_lease_without_events_is_found(any_world: World) -> None:
    lease_id = any_world.create(start=START, end='2099-01-01 10:00')
    with any_world.database.writer() as session:
        session.execute(sa.delete(tables.EVENTS))
    found = any_world.database.read(leases.find, lease_id)
    assert found is not None
    assert (found.id, found.reservations, found.events) == (lease_id, (), ())


def test_lease_that_is_not_there_is_not_found(any_world: World) -> None:
    any_world.create('a')
    assert any_world.database.read(leases.find, 'none') is None


def test_times_of_mariadb_are_read_to_the_microsecond(new_database: Callable[[str], str]) -> None:
    database = Database(configure(new_database('mariadb')))
    exact = datetime.datetime(2082, 12, 1, 10, 0, 0, 7)
    whole = exact.replace(microsecond=0)
    with database.reader() as session:
        query = sa.text(f"SELECT TIMESTAMP'{exact}', TIMESTAMP'{whole}', NULL")
        assert tuple(session.execute(query).one()) == (exact, whole, None)
    database.dispose()
