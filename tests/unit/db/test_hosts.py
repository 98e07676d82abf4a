# SPDX-License-Identifier: Apache-2.0
"""Hosts in each database."""

import dataclasses
import datetime
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.db import registered_units, tables
from climate_core.db.engine import Database
from climate_core.db.registered_units import Viewer, list_allocations
from climate_hosts.db import hosts as db
from climate_hosts.nodes import Node
from climate_hosts.watch.refresh import write_node
from tests.support import hosts
from tests.support.world import World

LONG_AGO = datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)
KNOWN = Node(
    hypervisor_hostname='cn1',
    service_name='cn1',
    capacity={'vcpus': 64},
    details={'vcpus': 16, 'traits': ['CUSTOM_SSD']},
)


def add(database: Database, name: str = 'cn1', pool: str = 'default', **extra: object) -> int:
    known = dataclasses.replace(KNOWN, hypervisor_hostname=name)
    return database.write(db.insert, pool, str(uuid.uuid4()), ('a', 'b'), known, extra)


def unit(database: Database, host_id: int) -> dict[str, Any]:
    with database.reader() as session:
        query = sa.select(tables.UNITS).where(tables.UNITS.c.id == host_id)
        return dict(session.execute(query).mappings().one())


def test_host_is_read_as_it_was_written(any_world: World) -> None:
    host_id = add(any_world.database, gpus='8')
    host = any_world.database.read(db.HOSTS.get, host_id)
    assert (host.id, host.pool, host.available, host.extra) == (
        host_id,
        'default',
        True,
        {'gpus': '8'},
    )
    assert (host.lane_ids, host.knows(KNOWN)) == (('a', 'b'), True)
    assert any_world.database.read(db.find, 'cn1') == host
    found = unit(any_world.database, host_id)
    assert (found['lanes'], found['generation']) == (2, 0)
    assert found['properties'] == {
        'gpus': 8,
        'hypervisor_hostname': 'cn1',
        'service_name': 'cn1',
        'vcpus': 16,
        'traits': ['CUSTOM_SSD'],
    }


def test_host_is_there_once(any_world: World) -> None:
    add(any_world.database)
    with pytest.raises(db_exc.DBDuplicateEntry):
        add(any_world.database)
    with any_world.database.reader() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(tables.UNITS)) == 1


def test_change_counts_the_generation_and_is_later(any_world: World) -> None:
    database = any_world.database
    host_id = add(database)
    with database.writer() as session:
        session.execute(tables.UNITS.update().values(changed_at=LONG_AGO))
    before = unit(database, host_id)
    database.write(write_node, host_id, KNOWN)
    assert unit(database, host_id) == before
    known = dataclasses.replace(KNOWN, capacity={'vcpus': 128}, details={'vcpus': 32})
    database.write(write_node, host_id, known)
    after = unit(database, host_id)
    assert (after['capacity'], after['generation']) == ({'vcpus': 128}, 1)
    assert after['properties'] == known.properties({})
    assert after['changed_at'] > LONG_AGO
    assert database.read(db.HOSTS.get, host_id).knows(known)


def test_id_of_a_host_that_is_gone_is_not_given_again(any_world: World) -> None:
    database = any_world.database
    first = add(database)
    database.write(db.HOSTS.delete, first)
    assert not database.read(db.HOSTS.has_any)
    assert add(database) > first
    with pytest.raises(exceptions.HostNotFound):
        database.read(db.HOSTS.get, first)
    with pytest.raises(exceptions.HostNotFound):
        database.write(db.HOSTS.update, first, {}, {})


def test_listing_of_hosts_has_pages_and_filters(any_world: World) -> None:
    database = any_world.database
    ids = [add(database, name, pool) for name, pool in (('a', 'x'), ('b', 'y'), ('c', 'x'))]
    for query, found, more in (
        (({},), ids, False),
        (({}, 0, 2), ids[:2], True),
        (({}, ids[1], 2), ids[2:], False),
        (({'pool': 'x'},), [ids[0], ids[2]], False),
        (({'hypervisor_hostname': 'b'},), ids[1:2], False),
        (({'service_name': 'cn1', 'available': True},), ids, False),
        (({'available': False},), [], False),
    ):
        page, is_more = database.read(db.HOSTS.page, *query)
        assert ([each.id for each in page], is_more) == (found, more)


def test_promises_of_a_host_are_found(any_world: World) -> None:
    database = any_world.database
    host_id, other = add(database), add(database, 'cn2')
    assert database.read(registered_units.find_last_allocation, host_id) is None
    lease = hosts.promise(database, host_id)
    assert database.read(registered_units.find_last_allocation, host_id) == (1, lease.end_date)
    assert database.read(registered_units.find_last_allocation, other) is None
    (found,) = database.read(list_allocations, [host_id, other])
    assert (found.unit_id, found.lease_id, found.end_date) == (host_id, lease.id, lease.end_date)
    over = tables.RESERVATIONS.update().values(status='deleted')
    with database.writer() as session:
        session.execute(over)
    assert database.read(list_allocations, [host_id]) == []
    assert database.read(registered_units.find_last_allocation, host_id) is None
    database.write(db.HOSTS.delete, host_id)


def test_properties_of_hosts_that_are_alike_are_read_once(any_world: World) -> None:
    database = any_world.database
    for number in range(6):
        add(database, f'cn{number}', **({'rack': number % 2} if number < 4 else {}))
    accesses = []

    class Everybody(Viewer):
        def sees(self, access: Mapping[str, Any] | None) -> bool:
            accesses.append(access)
            return True

    viewer = Everybody(None, None)
    assert database.read(db.HOSTS.list_property_values, viewer) == {'rack': [0, 1]}
    assert accesses == [None, None]


def test_properties_have_all_values_and_can_be_private(any_world: World) -> None:
    database = any_world.database
    add(database, 'cn1', rack='7', gpu=True)
    add(database, 'cn2', rack=8)
    assert database.read(db.HOSTS.list_property_values) == {'gpu': [True], 'rack': ['7', 8]}
    stored = db.HOSTS
    for private in (True, True, False):
        database.write(stored.set_private, 'rack', private)
        assert database.read(stored.list_private_properties) == ({'rack'} if private else set())
    with pytest.raises(exceptions.HostPropertyNotFound):
        database.write(db.HOSTS.set_private, 'colour', True)
