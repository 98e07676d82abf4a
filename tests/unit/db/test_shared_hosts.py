# SPDX-License-Identifier: Apache-2.0
"""Which shared hosts serve ordinary servers, and which are to do so again, in each database."""

import datetime
import uuid
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_core.db import leases, sql, store, tables
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.hosts import State
from climate_hosts.nodes import Node
from climate_hosts.operations.shared_hosts import SharedHostReturner
from tests.support.hosts import START, promise
from tests.support.world import World


def add(world: World, name: str, unit: Any = (), **columns: Any) -> int:
    known = Node(hypervisor_hostname=name, service_name=name, capacity={}, details={})
    host_id = world.database.write(db.insert, 'default', str(uuid.uuid4()), ('a',), known, {})
    world.database.write(
        db.HOSTS.update, host_id, dict(unit), {'open_to_unreserved': False, **columns}
    )
    return host_id


def out(world: World, name: str, **columns: Any) -> int:
    return add(world, name, {'available': False}, **columns)


def emptied_for(world: World, name: str, lease_id: str) -> int:
    return out(world, name, state=State.EMPTYING, emptied_for=lease_id)


def test_hosts_that_no_lease_needs_are_found(any_world: World) -> None:
    world = any_world
    ids = {}
    for status in ('IN_PROGRESS', 'TIMEDOUT'):
        lease_id = ids[status] = world.create(end='2099-01-01 00:00', name=status)
        with world.database.writer() as session:
            mine = sa.update(tables.LEASES).where(tables.LEASES.c.id == lease_id)
            sql.change(session, mine.values(status=status))
    emptied = emptied_for(world, 'emptied', ids['IN_PROGRESS'])
    timed_out = emptied_for(world, 'timed out', ids['TIMEDOUT'])
    wanted = {
        add(world, 'free'),
        out(world, 'disabled', disabled_reason='broken'),
        out(world, 'returning', state=State.RETURNING),
        timed_out,
        emptied_for(world, 'of nobody', 'x'),
    }
    shared = add(world, 'shared', {'available': False}, open_to_unreserved=True)
    out(world, 'shared and disabled', disabled_reason='broken', open_to_unreserved=True)
    out(world, 'leaving', state=State.LEAVING)
    out(world, 'failed', state=State.FAILED, disabled_reason='down')
    leased = add(world, 'leased')
    promise(world.database, leased)
    found = world.database.read(host_reservations.list_unneeded)
    assert {each.id for each in found} == wanted
    assert {each.seconds for each in found} == {0.0}
    assert [each.id for each in world.database.read(host_reservations.list_unneeded, leased)] == []
    assert [each.id for each in world.database.read(host_reservations.list_available)] == [shared]
    (mine,) = world.database.read(host_reservations.list_evacuating, ids['IN_PROGRESS'])
    assert (mine.id, mine.name, mine.emptied_for) == (emptied, 'emptied', ids['IN_PROGRESS'])
    assert {each.id for each in world.database.read(host_reservations.list_evacuating)} > {
        emptied,
        timed_out,
    }


def test_host_is_kept_while_it_is_cleaned(any_world: World) -> None:
    host_id = add(any_world, 'cleaned')
    lease = promise(any_world.database, host_id)
    with any_world.database.writer() as session:
        mine = sa.update(tables.RESERVATIONS).where(tables.RESERVATIONS.c.lease_id == lease.id)
        sql.change(session, mine.values(status='deleted'))
    (found,) = any_world.database.read(host_reservations.list_unneeded)
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=found.seconds)
    assert until == pytest.approx(START + datetime.timedelta(hours=2), abs=HOUR)


HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize('count', [1, 30])
def test_look_costs_two_statements_however_many_hosts_leases_have(
    world: World, count: int
) -> None:
    lease_id = world.create(end='2099-01-01 00:00')
    with world.database.writer() as session:
        lease = leases.get(session, lease_id)
        store.update_lease(session, lease, status='IN_PROGRESS')
    for number in range(count):
        promise(world.database, add(world, f'leased{number}'))
        emptied_for(world, f'emptied{number}', lease_id)
    worker = SharedHostReturner(world.database, mock.Mock())
    # The clock of a test costs none.
    assert len(world.statements(worker.poll)) == 1
    assert worker.poll() is None
