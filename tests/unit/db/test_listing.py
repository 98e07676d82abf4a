# SPDX-License-Identifier: Apache-2.0
"""Pages of leases on each database."""

import dataclasses
import datetime
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.db import leases, listing, tables
from climate_core.db.engine import Database
from climate_core.lease import model
from tests.support.plans import plans
from tests.support.world import TYPE, World

#: Later than the clocks of the databases, which are the real ones.
NOON = datetime.datetime(2098, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
Query = listing.LeaseQuery


def row(number: int, **values: Any) -> dict[str, Any]:
    """Return a lease of which many are equal in everything but the id."""
    return {
        # In an order that has nothing to do with the number.
        'id': str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        'name': 'abc'[number % 3],
        'project_id': 'ours',
        'user_id': 'user',
        'start_date': NOON + HOUR * (number % 2),
        'end_date': NOON + HOUR * 2,
        'status': ('ACTIVE', 'PENDING')[number // 2 % 2],
        'degraded': False,
        'before_start': [],
        'generation': 0,
        'created_at': NOON + HOUR * (number // 3),
        'updated_at': NOON + HOUR * 2 if number % 4 == 0 else None,
        **values,
    }


def write(database: Database, *rows: dict[str, Any]) -> None:
    complete = [{'deleted_at': None, **each} for each in rows]
    with database.writer() as session:
        session.connection().execute(sa.insert(tables.LEASES), complete)


def ids(database: Database, query: Query) -> list[str]:
    return [lease.id for lease in database.read(listing.read_page, query)[0]]


def walk(database: Database, query: Query) -> Iterator[list[model.Lease]]:
    """Return every page, from the first to the last."""
    while True:
        found, more = database.read(listing.read_page, query)
        yield found
        if not more:
            return
        query = dataclasses.replace(query, marker=found[-1].id)


def rank(sort: Sequence[listing.Sort]) -> Callable[[model.Lease], Any]:
    """Return a key for Python's sort; only for values that can be turned round."""

    def key(lease: model.Lease) -> list[Any]:
        found = []
        for name, descends in [*sort, ('id', sort[-1][1])]:
            value = getattr(lease, name) or lease.created_at
            number = (
                value.timestamp()
                if isinstance(value, datetime.datetime)
                else int.from_bytes(value.encode().ljust(40, b'\0'), 'big')
            )
            found.append(-number if descends else number)
        return found

    return key


SORTS = [
    *([(key, descends)] for key in listing.SORT_KEYS for descends in (False, True)),
    [('status', False), ('name', True)],
    [('name', True), ('start_date', False), ('updated_at', True)],
    [('id', True), ('name', False)],
]


def test_pages_are_the_list_in_pieces(any_world: World) -> None:
    database = any_world.database
    write(database, *(row(number) for number in range(13)))
    write(database, row(99, project_id='theirs'), row(98, deleted_at=NOON))
    for sort, limit in itertools.product(SORTS, (1, 4, 13)):
        query = Query('ours', sort=sort, limit=limit)
        pages = list(walk(database, query))
        found = list(itertools.chain(*pages))
        assert found == sorted(found, key=rank(sort)), sort
        assert len({lease.id for lease in found}) == len(found) == 13
        assert all(len(page) == limit for page in pages[:-1])


def test_listing_without_leases_is_empty(world: World) -> None:
    assert world.database.read(listing.read_page, Query()) == ([], False)


def test_the_order_if_nothing_is_said(world: World) -> None:
    write(world.database, row(1, created_at=NOON + HOUR), row(2, created_at=NOON))
    assert ids(world.database, Query()) == [row(2)['id'], row(1)['id']]


@pytest.mark.parametrize('project_id', ['ours', None])
def test_a_marker_that_is_not_there(any_world: World, project_id: str | None) -> None:
    write(any_world.database, row(1))
    query = Query(project_id, marker=row(2)['id'])
    with pytest.raises(exceptions.BadRequest, match='marker') as caught:
        any_world.database.read(listing.read_page, query)
    assert caught.value.field == 'marker'


def test_a_marker_of_another_project(world: World) -> None:
    write(world.database, row(1), row(2, project_id='theirs'))
    marker = row(2)['id']
    with pytest.raises(exceptions.BadRequest, match='marker'):
        world.database.read(listing.read_page, Query('ours', marker=marker))
    assert ids(world.database, Query(marker=marker, sort=[('project_id', True)])) == [row(1)['id']]


def test_a_marker_that_was_deleted_or_changed_meanwhile_keeps_its_place(world: World) -> None:
    write(world.database, *(row(n, created_at=NOON + n * HOUR) for n in range(3)))
    gone = tables.LEASES.update().where(tables.LEASES.c.id == row(0)['id'])
    with world.database.writer() as session:
        session.connection().execute(gone.values(deleted_at=NOON, status='TERMINATED'))
    rest = [row(1)['id'], row(2)['id']]
    assert ids(world.database, Query('ours', marker=row(0)['id'])) == rest


def test_the_last_page_may_be_empty(world: World) -> None:
    write(world.database, row(1))
    query = Query('ours', marker=row(1)['id'])
    assert world.database.read(listing.read_page, query) == ([], False)


DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ('query', 'numbers'),
    [
        (Query('p'), [1, 2, 3]),
        (Query('q'), [4]),
        (Query(), [1, 2, 3, 4]),
        (Query('p', deleted=True), [5]),
        (Query(deleted=True), [5, 6]),
        (Query('p', statuses=['ERROR']), [2]),
        (Query('p', statuses=['ERROR', 'ACTIVE']), [1, 2]),
        (Query('p', statuses=['DELETING']), []),
        (Query('p', name='Name'), [1]),
        (Query(name='name'), [3, 4]),
        (Query(name='name '), []),
        (Query('p', since=NOON + DAY), [3]),
        (Query('p', since=NOON + DAY - HOUR), [1, 3]),
        (Query('p', until=NOON), []),
        (Query('p', until=NOON + DAY), [1, 2]),
        (Query('p', since=NOON + 2 * HOUR, until=NOON + DAY), [1]),
        (Query('p', since=datetime.timedelta()), [1, 2, 3]),
        (Query('p', until=datetime.timedelta()), []),
    ],
)
def test_filters_find_the_leases_that_match(
    any_world: World, query: Query, numbers: list[int]
) -> None:
    values: dict[int, dict[str, Any]] = {
        1: {'status': 'ACTIVE', 'name': 'Name', 'end_date': NOON + DAY},
        2: {'status': 'ERROR', 'name': 'näme', 'end_date': NOON + HOUR},
        3: {'start_date': NOON + DAY, 'end_date': NOON + 2 * DAY, 'name': 'name'},
        4: {'project_id': 'q', 'name': 'name'},
        5: {'deleted_at': NOON, 'name': 'Name'},
        6: {'deleted_at': NOON, 'project_id': 'q'},
    }
    rows = [
        row(
            n,
            **{
                'project_id': 'p',
                'status': 'PENDING',
                'name': 'x',
                'start_date': NOON,
                'created_at': NOON + n * HOUR,
                **more,
            },
        )
        for n, more in values.items()
    ]
    write(any_world.database, *rows)
    assert ids(any_world.database, query) == [row(n)['id'] for n in numbers]


@pytest.mark.parametrize(
    ('values', 'numbers'),
    [
        ({'resource_id': 'a'}, [0]),
        ({'resource_type': TYPE}, [0, 1]),
        ({'resource_type': TYPE, 'resource_id': 'b'}, [1]),
        ({'resource_type': 'other', 'resource_id': 'b'}, []),
        ({'resource_type': 'other'}, []),
        ({'resource_id': 'c'}, []),
    ],
)
def test_resource_filter_finds_the_leases_that_hold_it(
    any_world: World, values: dict[str, str], numbers: list[int]
) -> None:
    world = any_world
    far = '2099-01-01 00:00'
    made = [world.create(thing, end=far, name=thing) for thing in 'ab']
    world.create(end=far, name='empty')
    assert ids(world.database, Query('project1', **values)) == [made[n] for n in numbers]


def test_a_resource_that_was_freed_is_found_too(world: World) -> None:
    lease_id = world.create('a', 'b')
    world.delete(lease_id)
    world.run_until_idle()
    assert ids(world.database, Query(resource_id='a', deleted=True)) == [lease_id]


@pytest.mark.parametrize(
    ('values', 'statements'),
    [
        ({}, 3),
        ({'limit': 2}, 3),
        ({'limit': 2, 'marker': row(0)['id']}, 4),
        ({'parts': ('events',)}, 2),
        ({'parts': ()}, 1),
        ({'name': 'nobody'}, 1),
        ({'name': 'nobody', 'marker': row(0)['id']}, 2),
    ],
)
def test_page_costs_the_statements_of_its_parts(
    world: World, values: dict[str, Any], statements: int
) -> None:
    write(world.database, *(row(number) for number in range(9)))
    query = Query('ours', **values)
    seen = world.statements(lambda: world.database.read(listing.read_page, query))
    assert len(seen) == statements


def test_parts_that_are_not_read_are_empty(world: World) -> None:
    lease_id = world.create('a')
    for part in leases.PARTS:
        ((lease,), _) = world.database.read(listing.read_page, Query(parts=[part]))
        assert lease.id == lease_id
        assert {name for name in leases.PARTS if getattr(lease, name)} == {part}


#: What a plan says when rows are sorted instead of read in order.
BAD = {
    'sqlite': ('TEMP B-TREE', 'SCAN'),
    'postgresql': ('Sort', 'Seq Scan'),
    'mysql': ('filesort', '"access_type": "ALL"'),
}
ANALYZE = {'mysql': 'ANALYZE TABLE leases'}
MIDDLE = row(2000)['id']


def test_a_page_is_read_in_order_from_an_index(any_world: World) -> None:
    database = any_world.database
    many = [
        row(
            n, project_id='theirs' if n % 2 else 'ours', status='ERROR' if n % 4 == 0 else 'ACTIVE'
        )
        for n in range(4000)
    ]
    write(database, *many)
    dialect = database.engine.dialect.name
    with database.engine.begin() as connection:
        connection.exec_driver_sql(ANALYZE.get(dialect, 'ANALYZE'))
    scopes: list[dict[str, Any]] = [{'project_id': 'ours'}, {}, {'statuses': ['ERROR']}]
    orders: list[dict[str, Any]] = [{}, {'sort': [('created_at', True)]}]
    markers: list[dict[str, Any]] = [{}, {'marker': MIDDLE}]
    for scope, order, marker in itertools.product(scopes, orders, markers):
        query = Query(**scope, **order, **marker, limit=100, parts=())
        found, more = database.read(listing.read_page, query)
        assert (len(found), more) == (query.limit, True)
        # The last one is that of the page; one before it is for the marker.
        shown = plans(database, listing.read_page, query)[-1]
        assert not [word for word in BAD[dialect] if word in shown], f'{query}\n{shown}'
