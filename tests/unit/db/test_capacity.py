# SPDX-License-Identifier: Apache-2.0
"""What units have and what is promised of them, and bars, in each database."""

import datetime
import json
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common import dates
from climate_core import exceptions
from climate_core.db import sql, tables, timeline
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_hosts.db import hosts
from climate_hosts.nodes import Node
from tests.support.hosts import START, promise
from tests.support.plans import plans
from tests.support.world import World

HOUR = datetime.timedelta(hours=1)
SPAN = START - HOUR, START + 8 * HOUR


def add(database: Database, name: str = 'cn1', pool: str = 'default') -> int:
    known = Node(hypervisor_hostname=name, service_name=name, capacity={'vcpus': 64}, details={})
    return database.write(hosts.insert, pool, str(uuid.uuid4()), ('a', 'b'), known, {})


def ask(project_id: str = 'other', limit: int = 100, **more: Any) -> timeline.CapacityQuery:
    return timeline.CapacityQuery(
        since=SPAN[0], until=SPAN[1], project_id=project_id, limit=limit, **more
    )


def read(world: World, *args: Any, **more: Any) -> Any:
    return world.database.read(timeline.read_capacity, ask(*args, **more))


def test_equal_units_and_promises_are_put_together(any_world: World) -> None:
    world = any_world
    ids = [add(world.database, f'cn{number}') for number in range(3)]
    add(world.database, 'cn9', pool='gpu')
    lease, *_ = [promise(world.database, host_id) for host_id in ids]
    promise(world.database, ids[0], START + 9 * HOUR, 5)
    units, promises = read(world)
    assert sorted((each.kind, each.pool, each.number) for each in units) == [
        ('host', 'default', 3),
        ('host', 'gpu', 1),
    ]
    assert {(each.available, each.access, each.capacity['vcpus']) for each in units} == {
        (True, None, 64)
    }
    times = (
        dates.to_microseconds(lease.start_date),
        dates.to_microseconds(lease.end_date),
    )
    (found,) = promises
    assert found.units.number == found.pieces == 3
    assert (found.start, found.end) == times
    assert (found.unit_id, found.piece, found.own) == (None, None, False)
    (own,) = read(world, lease.project_id)[1]
    assert own.own
    assert read(world, limit=2) is None
    assert read(world, limit=3) is not None


def test_shares_are_told_apart_by_their_unit(any_world: World) -> None:
    ids = [add(any_world.database, f'cn{number}') for number in range(2)]
    for host_id in ids:
        for lane in range(2):
            promise(any_world.database, host_id, lane=lane)
    with any_world.database.writer() as session:
        sql.change(session, sa.update(tables.ALLOCATIONS).values(piece={'vcpus': 4}, pieces=3))
    _, promises = read(any_world)
    assert sorted((each.unit_id, each.pieces) for each in promises) == [(ids[0], 6), (ids[1], 6)]
    assert {each.piece['vcpus'] for each in promises} == {4}


def test_units_are_told_apart_by_properties_that_users_may_see(any_world: World) -> None:
    world = any_world
    values = ['a100', 'A100', True, 1, 1.5, None, 'with "quotes" and \\']
    for number, value in enumerate(values):
        host_id = add(world.database, f'cn{number}')
        extra = {} if value is None else {'gpu.model': value}
        properties = {'hypervisor_hostname': f'cn{number}', **extra}
        with world.database.writer() as session:
            mine = sa.update(tables.UNITS).where(tables.UNITS.c.id == host_id)
            sql.change(session, mine.values(properties=properties))
        promise(world.database, host_id, lane=number)
    for found in read(world, properties=['gpu.model', 'nothing']):
        pairs = [getattr(each, 'units', each).properties for each in found]
        told = [text and json.loads(text) for text, _ in pairs]
        assert sorted(map(repr, told)) == sorted(map(repr, values))
        assert {text for _, text in pairs} == {None}
    with world.database.writer() as session:
        sql.insert(session, hosts.HOSTS.properties, [{'name': 'gpu.model', 'private': True}])
    (unit,), _ = read(world, properties=['gpu.model'])
    assert (unit.properties, unit.number) == ((None,), len(values))
    assert len(read(world, properties=['gpu.model'], private=True)[0]) == len(values)


def test_promises_of_a_time_are_found_by_their_index(any_world: World) -> None:
    """Those that are over are many more, and are not looked at."""
    world = any_world
    host_ids = [add(world.database, f'cn{number}') for number in range(20)]
    lease = promise(world.database, host_ids[0])
    over = [
        {
            'unit_id': host_ids[number % 20],
            'unit_generation': number + 2,
            'reservation_id': lease.reservations[0].id,
            'start': START - (number + 4) * HOUR,
            'end': START - (number + 2) * HOUR,
            'pieces': 1,
            'piece': None,
            'lane': 0,
        }
        for number in range(4000)
    ]
    with world.database.writer() as session:
        session.connection().execute(sa.insert(tables.ALLOCATIONS), over)
    with world.database.engine.begin() as connection:
        is_mysql = world.database.engine.dialect.name == 'mysql'
        connection.exec_driver_sql('ANALYZE TABLE allocations' if is_mysql else 'ANALYZE')
    assert len(read(world)[1]) == 1
    (shown,) = plans(world.database, timeline.read_capacity, ask(), settings=())
    assert 'allocations_time_idx' in shown
    # MariaDB names what it could have used, too.
    assert '"key": "allocations_time_idx"' in shown or not is_mysql


@pytest.mark.parametrize('group_by', timeline.ORDERS)
def test_pages_of_bars_are_together_what_one_page_is(any_world: World, group_by: str) -> None:
    world = any_world
    host_id = add(world.database)
    for number in range(5):
        promise(world.database, host_id, START + number % 2 * HOUR, number)
    usual = {'since': SPAN[0], 'until': SPAN[1], 'project_id': None, 'group_by': group_by}
    whole, more = world.database.read(timeline.read_timeline, timeline.TimelineQuery(**usual))
    assert (len(whole), more) == (5, False)
    found: list[timeline.TimelineRow] = []
    more = True
    while more:
        marker = found[-1].reservation_id if found else None
        query = timeline.TimelineQuery(**usual, marker=marker, limit=2)
        page, more = world.database.read(timeline.read_timeline, query)
        found += page
    assert found == whole
    with pytest.raises(exceptions.BadRequest, match='marker'):
        world.database.read(timeline.read_timeline, timeline.TimelineQuery(**usual, marker='x'))
    others = timeline.TimelineQuery(**{**usual, 'project_id': 'nobody'})
    assert world.database.read(timeline.read_timeline, others) == ([], False)


def test_bar_ends_when_its_reservation_leaves_the_lease(any_world: World) -> None:
    world = any_world
    lease = promise(world.database, add(world.database))
    early = START + HOUR / 2
    with world.database.writer() as session:
        event = sa.update(tables.EVENTS).where(tables.EVENTS.c.event_type == model.START)
        values = {'event_type': model.END_RESERVATION, 'time': early}
        sql.change(session, event.values(**values, reservation_id=lease.reservations[0].id))
    assert [bar.end for bar in page(world)] == [early]
    assert page(world, since=early) == []
    with world.database.writer() as session:
        sql.change(session, sa.update(tables.RESERVATIONS).values(freed_at=START + HOUR / 4))
    assert [bar.end for bar in page(world)] == [START + HOUR / 4]
    with world.database.writer() as session:
        sql.change(session, sa.update(tables.RESERVATIONS).values(freed_at=START - HOUR / 4))
    assert page(world) == []


def page(world: World, since: datetime.datetime = SPAN[0]) -> list[timeline.TimelineRow]:
    query = timeline.TimelineQuery(since=since, until=SPAN[1], project_id=None)
    return world.database.read(timeline.read_timeline, query)[0]


def test_hosts_have_their_bars_in_order(any_world: World) -> None:
    world = any_world
    first, free = add(world.database), add(world.database, 'cn2')
    late = promise(world.database, first, START + 3 * HOUR, 1)
    soon = promise(world.database, first)
    found, more = world.database.read(hosts.read_timeline, *SPAN, 0, 10)
    shown = {each.id: [bar.lease_id for bar in each.bars] for each in found}
    assert (shown, more) == ({first: [soon.id, late.id], free: []}, False)
    assert (found[0].bars[0].start, found[0].bars[0].end) == (soon.start_date, soon.end_date)
    page, more = world.database.read(hosts.read_timeline, *SPAN, 0, 1)
    assert ([each.id for each in page], more) == ([first], True)
    assert world.database.read(hosts.read_timeline, *SPAN, free, 1) == ([], False)
