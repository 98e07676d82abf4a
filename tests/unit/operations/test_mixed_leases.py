# SPDX-License-Identifier: Apache-2.0
"""A lease of all that can be reserved is granted as a whole, and has an order."""

import datetime

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.db import registered_units, tables
from climate_core.operations import allocation
from climate_hosts.db.hosts import HOSTS
from climate_networks.db import FLOATING_IPS, SEGMENTS
from tests.support.mixed import Mixed, a_network, some_addresses, some_hosts, thing
from tests.support.world import World, user

ALL = [thing('instance'), thing('volume'), some_hosts(), a_network(), some_addresses()]
ORDER = ['virtual:floatingip', 'network', 'physical:host', 'virtual:volume', 'virtual:instance']
NOW, LATER, END = 'now', '2082-12-01 13:00', '2082-12-01 14:00'


@pytest.fixture
def mixed(world: World) -> Mixed:
    made = Mixed(world)
    made.add_hosts(1)
    made.add_addresses('203.0.113.20')
    made.add_segments(100)
    return made


def test_start_is_by_rank_and_the_end_backwards(mixed: Mixed) -> None:
    lease = mixed.lease(NOW, END, ALL)
    assert lease.kind == 'immediate'
    mixed.world.run_until_idle()
    assert (mixed.done('wake'), mixed.world.lease(lease.id).status) == (ORDER, 'ACTIVE')
    mixed.world.run_until_idle(hours=3)
    assert (mixed.done('end'), mixed.world.lease(lease.id).status) == (
        ORDER[::-1],
        'TERMINATED',
    )


@pytest.mark.parametrize(
    ('taken', 'field', 'told'),
    [
        (some_hosts(), 'reservations[2].min', 'hosts'),
        (a_network(), 'reservations[3].resource_type', 'network segments'),
        (some_addresses(), 'reservations[4].amount', 'floating IPs'),
    ],
)
@pytest.mark.parametrize('raced', [False, True])
def test_part_that_is_not_free_refuses_the_whole_and_is_named(
    mixed: Mixed,
    taken: dict[str, object],
    field: str,
    told: str,
    raced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = mixed.lease(LATER, END, [taken])
    if raced:
        # As if the other lease had come after the check: the transaction that writes judges.
        monkeypatch.setattr(allocation, 'check_capacity', lambda *_: None)
    with pytest.raises(exceptions.NotEnough, match=told) as caught:
        mixed.lease(NOW, END, ALL)
    assert caught.value.field == field
    with mixed.world.database.reader() as session:
        leases = session.execute(sa.select(tables.LEASES.c.id)).scalars().all()
        promised = session.execute(sa.select(tables.ALLOCATIONS.c.reservation_id)).scalars().all()
    assert leases == [other.id]
    assert promised == [each.id for each in other.reservations]
    assert mixed.lease(NOW, LATER, ALL)


def test_all_that_the_calendar_promises_is_written_in_one_transaction(mixed: Mixed) -> None:
    written = []
    write = mixed.world.database.write

    def count(function, *args, **kwargs):  # type: ignore[no-untyped-def]
        written.append(function)
        return write(function, *args, **kwargs)

    mixed.world.database.write = count  # type: ignore[method-assign]
    mixed.lease(LATER, END, [some_hosts(), a_network(), some_addresses()])
    assert len(written) == 1


@pytest.mark.parametrize(
    ('added', 'field'), [(some_addresses(2), 'amount'), (a_network(), 'resource_type')]
)
def test_addition_that_is_not_free_leaves_the_lease_as_it_was(
    mixed: Mixed, added: dict[str, object], field: str
) -> None:
    mixed.lease(LATER, END, [a_network()])
    lease = mixed.lease(LATER, END, [some_hosts()])
    with pytest.raises(exceptions.NotEnough) as caught:
        mixed.world.operations.creator.add_reservation(user(), lease.id, added)
    assert caught.value.field == field
    assert mixed.world.lease(lease.id) == lease


@pytest.mark.parametrize('verb', ['delete_lease', 'end_lease'])
def test_units_of_a_lease_cancelled_before_its_start_can_be_removed_at_once(
    mixed: Mixed, verb: str
) -> None:
    """Heat removes a host right after the lease that has it, and before the engine ends that."""
    lease = mixed.lease(LATER, END, [some_hosts(), some_addresses(), a_network()])
    database = mixed.world.database
    units = {a.unit_id for r in lease.reservations for a in r.allocations}
    assert len(units) == 3
    for unit_id in units:
        assert database.read(registered_units.find_last_allocation, unit_id)
    getattr(mixed.world.operations, verb)(user(), lease.id)
    for unit_id in units:
        assert database.read(registered_units.find_last_allocation, unit_id) is None
        for table in (HOSTS, FLOATING_IPS, SEGMENTS):
            database.write(table.delete, unit_id)
    mixed.world.run_until_idle()
    assert mixed.world.lease(lease.id).status == 'TERMINATED'


def test_units_of_a_lease_that_has_started_cannot_be_removed_before_its_end(mixed: Mixed) -> None:
    lease = mixed.lease(NOW, END, [some_hosts(), some_addresses(), a_network()])
    mixed.world.run_until_idle()
    mixed.world.operations.delete_lease(user(), lease.id)
    for reservation in lease.reservations:
        for allocated in reservation.allocations:
            found = mixed.world.database.read(
                registered_units.find_last_allocation, allocated.unit_id
            )
            assert found is not None


def test_unit_that_is_allocated_later_than_its_lease_starts_is_not_removed(mixed: Mixed) -> None:
    """Its plugin may create the address shortly before the allocation starts."""
    lease = mixed.lease(NOW, END, [some_addresses(), thing('volume')])
    world = mixed.world
    allocations = tables.ALLOCATIONS
    later = sa.update(allocations).values(start=world.time.now + datetime.timedelta(seconds=1))
    world.database.write(lambda session: session.execute(later))
    world.operations.delete_lease(user(), lease.id)
    (allocated,) = next(r for r in lease.reservations if r.allocations).allocations
    found = world.database.read(registered_units.find_last_allocation, allocated.unit_id)
    assert found == (1, lease.end_date)
