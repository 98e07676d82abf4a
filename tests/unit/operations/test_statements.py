# SPDX-License-Identifier: Apache-2.0
"""How many SQL statements things cost. More is a mistake, less deserves a new number here."""

import functools
from typing import cast

import pytest

from climate_core.cloud import Cloud
from climate_core.db import leases, listing, sql, tables
from climate_hosts.plugins.host import HostPlugin
from tests.bench.calendar import make_unit
from tests.support.world import NOON, Time, World, user


def test_create_takes_five_statements(world: World) -> None:
    assert len(world.statements(lambda: world.create('a'))) == 5
    assert len(world.statements(lambda: world.create(*(f't{n}' for n in range(50))))) == 5


def test_create_with_an_id(world: World) -> None:
    assert len(world.statements(lambda: world.create('a', id='some-id'))) == 6


def test_create_with_a_key(world: World) -> None:
    assert len(world.statements(lambda: world.create('a', idempotency_key='k'))) == 6
    # Only the lease and what is in it.
    assert len(world.statements(lambda: world.create('a', idempotency_key='k'))) == 1


@pytest.mark.parametrize('hosts', [10, 1000])
def test_create_of_hosts_takes_the_same_statements_for_any_number(
    world: World, hosts: int
) -> None:
    """Five write the lease, one writes what is promised and one guards it.

    The other one reads what changed when it is written; before the trust is made memory will do,
    and of its own creates a manager reads nothing.
    """
    kind = HostPlugin.resource_type
    world.conf.register_opts(HostPlugin.options, group=kind)
    world.plugins[kind] = HostPlugin(world.conf, cast(Cloud, None))
    units = [make_unit(number, 0, NOON) for number in range(hosts)]
    world.database.write(sql.insert, tables.UNITS, units)
    wanted = {'resource_type': kind, 'min': 1}
    body = {'name': 'lease', 'start_date': '2082-12-02 13:00', 'end_date': '2082-12-02 14:00'}
    counts = []
    for least in (1, 1, 5):
        values = {**body, 'reservations': [{**wanted, 'min': least}]}
        create = functools.partial(world.operations.creator.create_lease, user(), values)
        counts.append(len(world.statements(create)))
    # Until the first one nothing is in memory.
    assert counts[1:] == [8, 8]


@pytest.mark.parametrize('many', [1, 30])
def test_reads_take_one_statement_and_pages_three(world: World, many: int) -> None:
    ids = [world.create(f'a{n}', f'b{n}') for n in range(many)]
    assert len(world.statements(lambda: world.database.read(leases.get, ids[0]))) == 1
    for project_id in (None, 'project1'):
        query = listing.LeaseQuery(project_id)
        assert (
            len(world.statements(lambda q=query: world.database.read(listing.read_page, q))) == 3
        )


def test_changes_take_few_statements(world: World) -> None:
    lease_id = world.create('a')
    assert len(world.statements(lambda: world.update(lease_id, name='b'))) == 5
    end = '2082-12-01 18:00'
    assert len(world.statements(lambda: world.update(lease_id, end_date=end))) == 7


#: world.paint and world.remove read the lease to find the reservation.
FIND = 1


@pytest.mark.parametrize('things', [2, 20])
def test_change_takes_the_same_statements_for_any_number(
    world: World, time: Time, things: int
) -> None:
    """Two to lock and read; then the lease, what is in it, the history and the outbox."""
    names = [f't{n}' for n in range(things)]
    lease_id = world.create(*names, start='2082-12-01 13:00', start_policy='manual')
    assert len(world.statements(lambda: world.paint(lease_id, 't0', colour='red'))) - FIND == 6
    time.forward(seconds=1)
    listed = [{'id': r.id, 'colour': 'green'} for r in world.lease(lease_id).reservations]
    assert len(world.statements(lambda: world.update(lease_id, reservations=listed))) == 6
    note = [{'event_type': 'note', 'time': '2082-12-01 13:30'}]
    assert len(world.statements(lambda: world.update(lease_id, events=note))) == 6
    assert len(world.statements(lambda: world.update(lease_id, events=[]))) == 6
    assert len(world.statements(lambda: world.remove(lease_id, 't0'))) - FIND == 7
    (due,) = world.due()
    assert len(world.statements(lambda: world.executor.run(due))) == 10
    time.forward(hours=1)
    world.run_until_idle()
    assert len(world.statements(lambda: world.start(lease_id))) == 6
    assert len(world.statements(lambda: world.end(lease_id))) == 7


def test_delete_takes_seven_statements(world: World) -> None:
    lease_id = world.create('a')
    assert len(world.statements(lambda: world.delete(lease_id))) == 7


def test_join_takes_seven_statements(world: World) -> None:
    lease_id = world.create('a', start='2082-12-01 13:00')
    # One to find it, two to lock it, four to write.
    assert len(world.statements(lambda: world.join(lease_id, 'b'))) == 7


@pytest.mark.parametrize('things', [1, 20])
def test_start_and_end_take_the_same_statements_for_any_number(
    world: World, time: Time, things: int
) -> None:
    world.create(*(f'a{n}' for n in range(things)), before_end_date='2082-12-01 13:00')
    (start,) = world.due()
    # One is for the history: that the lease is STARTING, and TERMINATING below.
    assert len(world.statements(lambda: world.executor.run(start))) == 12
    time.forward(hours=1)
    (before_end,) = world.due()
    assert len(world.statements(lambda: world.executor.run(before_end))) == 8
    time.forward(hours=1)
    (end,) = world.due()
    assert len(world.statements(lambda: world.executor.run(end))) == 13


def test_looking_for_what_is_due(world: World) -> None:
    for n in range(30):
        world.create(f'a{n}')
    assert len(world.statements(world.due)) == 1


def test_notifications_are_sent_in_three_statements(world: World) -> None:
    for n in range(30):
        world.create(f'a{n}')
    # All thirty at once: find, claim, delete.
    assert len(world.statements(world.publisher.publish)) == 3
