# SPDX-License-Identifier: Apache-2.0
"""Whole hosts: enrolled by an operator, promised by the calendar, entered only with the lease."""

import concurrent.futures
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for

#: Hosts that hold servers of other tests cannot be enrolled.
pytestmark = pytest.mark.alone

POOL = ('compute2', 'compute3')
ANYWHERE = 4
#: Servers that are booted at once for fewer slots.
BOOTS, SLOTS = 12, 2


@pytest.fixture(scope='module')
def pool(admin: Person) -> Iterator[tuple[str, ...]]:
    """Enrol hosts with Blazar's command; take them out of the pool afterwards."""
    for host in POOL:
        # A server that was deleted or evacuated may still have its allocation for a moment.
        command = ('openstack', 'reservation', 'host', 'create', host)
        wait_for(lambda command=command: admin.cli(*command).returncode == 0, f'{host} enrolled')
    yield POOL
    for host in POOL:
        wait_for(lambda host=host: not servers_on(admin, host), f'{host} empty')
        removed = admin.cli('openstack', 'reservation', 'host', 'delete', host)
        assert removed.returncode == 0, removed.stderr


def servers_on(admin: Person, host: str) -> list[Any]:
    return list(admin.sdk.compute.servers(all_projects=True, host=host))


@pytest.fixture
def host_of(admin: Person) -> Callable[[str], str]:
    """Tell on which host a server is."""
    return lambda server_id: str(admin.sdk.compute.get_server(server_id).hypervisor_hostname)


@pytest.fixture
def lease(booking: Booking, pool: tuple[str, ...]) -> Iterator[Any]:
    """A lease of one host that begins in a moment, made with the command line."""
    made = booking.person.cli(
        *('openstack', 'lease', 'create', f'hosts-{uuid.uuid4().hex[:8]}', '--for', '1h'),
        *('--start', at(seconds=15), '--hosts', 'min=1,max=1,vcpus>=1', '-f', 'json'),
    )
    assert made.returncode == 0, made.stderr
    lease = booking.person.leases.get(json.loads(made.stdout)['id'])
    yield lease
    booking.person.leases.delete(lease.id, ignore_missing=True)
    booking.person.wait_lease_gone(lease.id)


def boot(booking: Booking, **hints: str) -> Any:
    """Boot a server that is no reservation; return it when it is ACTIVE or in ERROR."""
    return booking.wait(booking.begin(hints), 'ACTIVE', 'ERROR')


def test_only_the_project_with_the_lease_lands_on_its_host(
    lease: Any,
    booking: Booking,
    stranger: Person,
    admin: Person,
    host_of: Callable[[str], str],
) -> None:
    (reservation,) = lease.reservations
    (host,) = reservation.params['hosts']
    assert host in POOL
    early = boot(booking, reservation=reservation.id)
    assert early.status == 'ERROR'
    assert 'No valid host' in early.fault['message']

    booking.wait_lease(lease.id, 'ACTIVE')
    ordinary = [boot(booking) for _ in range(ANYWHERE)]
    assert {each.status for each in ordinary} == {'ACTIVE'}
    assert not {host_of(each.id) for each in ordinary} & {*POOL}
    inside = boot(booking, reservation=reservation.id)
    assert (inside.status, host_of(inside.id)) == ('ACTIVE', host)
    others = Booking(stranger)
    assert boot(others, reservation=reservation.id).status == 'ERROR'
    others.clean()
    forced = Booking(admin)
    assert boot_in_zone(forced, f'nova:{host}').status == 'ERROR'
    forced.clean()

    booking.person.leases.end(lease.id)
    booking.wait_lease(lease.id, 'TERMINATED')
    booking.wait_gone(inside.id)
    assert servers_on(admin, host) == []


def boot_in_zone(booking: Booking, zone: str) -> Any:
    server_id = booking.begin({}, availability_zone=zone)
    return booking.wait(server_id, 'ACTIVE', 'ERROR')


def test_last_host_is_promised_once(booking: Booking, pool: tuple[str, ...]) -> None:
    person = booking.person
    start, end = at(days=1), at(days=1, hours=1)
    wanted = {'resource_type': 'physical:host', 'min': len(pool)}
    first = person.leases.create('all hosts', end, start, reservations=[wanted])
    command = ('openstack', 'lease', 'create', 'one more', '--start', start, '--end', end)
    refused = person.cli(*command, '--hosts', 'min=1')
    assert refused.returncode == 1
    assert '409' in refused.stderr
    person.leases.delete(first.id)
    person.wait_lease_gone(first.id)
    granted = person.leases.create('one more', end, start, reservations=[{**wanted, 'min': 1}])
    person.leases.delete(granted.id)
    person.wait_lease_gone(granted.id)


def test_room_for_so_many_servers_of_a_flavor(
    booking: Booking, pool: tuple[str, ...], host_of: Callable[[str], str]
) -> None:
    person = booking.person
    made = person.cli(
        *('openstack', 'lease', 'create', 'room', '--for', '1h', '-f', 'json'),
        *('--capacity', 'flavor=m1.tiny,amount=2,affinity=false'),
    )
    assert made.returncode == 0, made.stderr
    lease = booking.wait_lease(json.loads(made.stdout)['id'], 'ACTIVE')
    (reservation,) = lease.reservations
    inside = [boot(booking, reservation=reservation.id) for _ in range(2)]
    assert {host_of(each.id) for each in inside} == {*pool}
    assert boot(booking, reservation=reservation.id).status == 'ERROR'
    person.leases.delete(lease.id)
    person.wait_lease_gone(lease.id)
    for each in inside:
        booking.wait_gone(each.id)


def test_boots_at_once_get_as_many_slots_as_there_are(
    booking: Booking, pool: tuple[str, ...]
) -> None:
    person = booking.person
    wanted = {'resource_type': 'flavor:instance', 'flavor_id': booking.flavor.id, 'amount': SLOTS}
    made = person.leases.create('slots', at(hours=1), 'now', reservations=[wanted])
    lease = booking.wait_lease(made.id, 'ACTIVE')
    hints = {'reservation': lease.reservations[0].id}
    with concurrent.futures.ThreadPoolExecutor(BOOTS) as threads:
        booted = [*threads.map(lambda _: booking.begin(hints), range(BOOTS))]
    statuses = [booking.wait(each, 'ACTIVE', 'ERROR').status for each in booted]
    assert statuses.count('ACTIVE') == SLOTS
    person.leases.delete(lease.id)
    person.wait_lease_gone(lease.id)
