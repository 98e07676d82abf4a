# SPDX-License-Identifier: Apache-2.0
"""A list shows of each lease what is shown of it alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_common.event_types import END_RESERVATION, RETRY
from climate_core.db import leases, listing, sql, tables
from climate_core.lease import views
from tests.support.mixed import Mixed, a_network, some_addresses, some_hosts, thing
from tests.support.world import World, at

NOON, ONE, TWO = (f'2082-12-01 {hour}:00' for hour in (12, 13, 14))
Query = listing.LeaseQuery


def check(world: World, *settings: str, **query: Any) -> list[dict[str, Any]]:
    """Compare a list with its leases, and return it.

    :param settings: of the session that reads the list
    """

    def read(session: orm.Session) -> Any:
        for each in settings:
            session.execute(sa.text(f'SET SESSION {each}'))
        return listing.read_summaries(session, Query(**query))

    found, more = world.database.read(read)
    assert not more
    shown = [views.lease_view(each) for each in found]
    parts = query.get('parts', leases.PARTS)
    alone = [world.database.read(leases.get, each.id, parts=parts) for each in found]
    assert shown == [views.lease_view(each) for each in alone]
    assert json.dumps(shown)
    return shown


@pytest.fixture
def mixed(any_world: World) -> Mixed:
    """Return a world that has a lease of each thing that the calendar promises."""
    made = Mixed(any_world)
    made.add_hosts(2)
    made.add_addresses('203.0.113.20', '203.0.113.21')
    made.add_segments(101)
    things = [some_hosts(2), some_addresses(), a_network(), thing('instance')]
    made.lease(ONE, TWO, things)
    made.lease(ONE, TWO, [thing('instance')])
    return made


def test_what_the_calendar_promises_is_shown(mixed: Mixed) -> None:
    shown = check(mixed.world)
    assert [len(each['reservations']) for each in shown] == [4, 1]
    assert {len(each.get('hosts', '..')) for each in shown[0]['reservations']} == {2}


def test_what_ends_before_its_lease_has_a_date_of_its_own(mixed: Mixed) -> None:
    lease, _ = mixed.world.database.read(listing.read_page, Query())[0]
    address = lease.reservations[1]
    values = {'event_type': END_RESERVATION, 'reservation_id': address.id}
    with mixed.world.database.writer() as session:
        event = tables.EVENTS.c
        ended = sa.and_(event.lease_id == lease.id, event.event_type == 'before_end_lease')
        changed = sa.update(tables.EVENTS).where(ended).values(values)
        assert session.connection().execute(changed).rowcount
    shown = check(mixed.world)[0]
    assert [each['id'] for each in shown['reservations'] if 'end_date' in each] == [address.id]


def test_lease_that_waits_has_the_time_of_its_next_try(any_world: World) -> None:
    lease_id = any_world.create('a')
    with any_world.database.writer() as session:
        session.execute(sa.update(tables.LEASES).values(status='WAITING', kind='retry'))
        session.execute(sa.update(tables.EVENTS).values(event_type=RETRY, time=at(ONE)))
    (shown,) = check(any_world)
    assert shown['id'] == lease_id
    assert shown['next_retry_at'] == '2082-12-01T13:00:00.000000'


def test_parts_that_are_not_asked_for_are_empty(mixed: Mixed) -> None:
    for parts in (set(), {'events'}, {'reservations'}):
        for each in check(mixed.world, parts=parts):
            assert {name for name in leases.PARTS if each[name]} == parts


@pytest.mark.parametrize('setting', ['group_concat_max_len = 400', 'group_concat_max_len = 4'])
def test_lease_that_is_too_long_for_one_text_is_shown_all_the_same(
    mixed: Mixed, setting: str
) -> None:
    """MariaDB cuts texts that it makes of many rows, with no more than a warning."""
    is_cut = mixed.world.database.engine.dialect.driver == 'pymysql'
    assert len(check(mixed.world, *([setting] if is_cut else []))) == 2


@pytest.mark.parametrize('text', [None, '[[],1,[],0,[]]', '[[],0,[],2,[[]]]', '[[],1,[["a"', ']'])
def test_text_that_was_cut_is_not_read(text: str | None) -> None:
    assert listing._decode_lease(text) is None


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return ids that exist when a page is chosen, and are deleted before it is read."""
    ids: list[Any] = []
    choose = sql.read_page_ids

    def page_ids(*args: Any) -> tuple[list[Any], bool]:
        chosen, more = choose(*args)
        return [*ids, *chosen][: len(chosen)], more

    monkeypatch.setattr(sql, 'read_page_ids', page_ids)
    return ids


def test_page_whose_lease_is_deleted_meanwhile_leads_to_the_next_one(
    new_database: Callable[[str], str], deleted: list[Any]
) -> None:
    """The isolation level of MariaDB may be READ COMMITTED."""
    world = World(new_database('mariadb'))
    lease_ids = {world.create(name) for name in 'abc'}
    deleted.append('gone')
    found, more = world.database.read(listing.read_summaries, Query(limit=2))
    world.database.dispose()
    assert {each.id for each in found} < lease_ids
    assert more


def test_page_of_a_history_that_is_purged_meanwhile_has_no_link(
    world: World, deleted: list[Any]
) -> None:
    lease_id = world.create('a')
    world.update(lease_id, name='b')
    deleted.append(0)
    assert world.database.read(listing.read_history_page, lease_id, limit=1) == ([], False)
