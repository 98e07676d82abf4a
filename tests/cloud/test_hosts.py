# SPDX-License-Identifier: Apache-2.0
"""Whole hosts: enrolled by an operator, promised by the calendar, entered only with the lease."""

import datetime
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.booking import Booking
from tests.cloud.people import Person, at
from tests.cloud.pooling import (
    POOL,
    boot,
    boot_at_once,
    host_of,
    hosts_of,
    make_lease,
    order_lease,
    servers_on,
)
from tests.support.kinds import kind_cell

pytestmark = pytest.mark.usefixtures('pool')

ANYWHERE = 4
#: Servers that are booted at once for fewer slots.
BOOTS, SLOTS = 50, 3


def test_only_the_project_with_the_lease_lands_on_its_host(
    booking: Booking, stranger: Person, admin: Person
) -> None:
    terms = '--start', at(hours=1), '--hosts', 'min=1,max=1,vcpus>=1,trait=COMPUTE_NODE'
    lease = order_lease(booking, *terms)
    (reservation,) = lease.reservations
    (host,) = hosts_of(lease)
    assert host in POOL
    early = booking.post({'reservation': reservation.id})
    assert early.status_code == 400, early.text
    assert 'no host accepts servers for the reservation' in early.text

    booking.person.leases.update(lease.id, start='now')
    booking.wait_lease(lease.id, 'ACTIVE')
    ordinary = [boot(booking) for _ in range(ANYWHERE)]
    assert {each.status for each in ordinary} == {'ACTIVE'}
    assert not {host_of(admin, each.id) for each in ordinary} & {*POOL}
    inside = boot(booking, reservation=reservation.id)
    assert (inside.status, host_of(admin, inside.id)) == ('ACTIVE', host)
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


@kind_cell('Hosts', 'scheduled')
def test_last_host_is_promised_once(booking: Booking, pool: tuple[str, ...]) -> None:
    person = booking.person
    start, end = at(days=1), at(days=1, hours=1)
    wanted = {'resource_type': 'physical:host', 'min': len(pool)}
    first = make_lease(booking, wanted, start=start, end=end)
    command = ('openstack', 'lease', 'create', 'one more', '--start', start, '--end', end)
    refused = person.cli(*command, '--hosts', 'min=1')
    assert refused.returncode == 1
    assert '409' in refused.stderr
    asked = ('--from', start, '--to', at(days=2), '--for', '1h', '--hosts', 'min=1', '-f', 'json')
    free = person.cli('openstack', 'lease', 'availability', *asked)
    assert free.returncode == 0, free.stderr
    start_of_next = json.loads(free.stdout)[0]['Start']
    assert datetime.datetime.fromisoformat(start_of_next) == first.end_date
    person.leases.delete(first.id)
    person.wait_lease_gone(first.id)
    granted = make_lease(booking, {**wanted, 'min': 1}, start=start, end=end)
    assert len(hosts_of(granted)) == 1


@kind_cell('Hosts', 'immediate')
@kind_cell('Hosts', 'retry')
def test_lease_waits_until_another_gives_its_hosts_back(
    booking: Booking, pool: tuple[str, ...], allocations: Callable[[str], dict[str, Any]]
) -> None:
    wanted = {'resource_type': 'physical:host', 'min': len(pool)}
    first = booking.wait_lease(make_lease(booking, wanted, kind='immediate').id, 'ACTIVE')
    with pytest.raises(exceptions.Conflict):
        make_lease(booking, {**wanted, 'min': 1}, kind='immediate')
    earlier = boot(booking, reservation=first.reservations[0].id)
    waiting = order_lease(booking, '--hosts', f'min={len(pool)}', '--kind', 'retry')
    assert (waiting.status, hosts_of(waiting)) == ('WAITING', [])
    assert waiting.next_retry_at is not None
    booking.person.leases.end(first.id)
    granted = booking.wait_lease(waiting.id, 'ACTIVE')
    # It does not begin before the hosts are empty.
    assert allocations(earlier.id) == {}
    assert {*hosts_of(granted)} == {*pool}
    assert granted.end_date - granted.start_date == waiting.end_date - waiting.start_date
    (reservation,) = granted.reservations
    assert boot(booking, reservation=reservation.id).status == 'ACTIVE'


@kind_cell('Capacity', 'retry')
def test_capacity_waits_until_another_lease_gives_its_room_back(
    booking: Booking, admin: Person, pool: tuple[str, ...]
) -> None:
    full = order_lease(booking, '--hosts', f'min={len(pool)}')
    full = booking.wait_lease(full.id, 'ACTIVE')
    room = '--capacity', f'flavor=m1.tiny,amount={len(pool)},affinity=false'
    waiting = order_lease(booking, *room, '--kind', 'retry')
    assert waiting.status == 'WAITING', waiting.status_reason
    assert waiting.next_retry_at is not None
    booking.person.leases.end(full.id)
    granted = booking.wait_lease(waiting.id, 'ACTIVE')
    assert granted.end_date - granted.start_date == waiting.end_date - waiting.start_date
    (reservation,) = granted.reservations
    inside = [boot(booking, reservation=reservation.id) for _ in pool]
    assert {host_of(admin, each.id) for each in inside} == {*pool}


@kind_cell('Capacity', 'immediate')
@kind_cell('Capacity', 'scheduled')
@pytest.mark.parametrize('kind', ['immediate', 'scheduled'])
def test_room_for_so_many_servers_of_a_flavor(
    booking: Booking, admin: Person, pool: tuple[str, ...], kind: str
) -> None:
    room = '--capacity', 'flavor=m1.tiny,amount=2,affinity=false'
    ordered = order_lease(booking, *room, '--kind', kind)
    lease = booking.wait_lease(ordered.id, 'ACTIVE')
    (reservation,) = lease.reservations
    inside = [boot(booking, reservation=reservation.id) for _ in range(2)]
    assert {host_of(admin, each.id) for each in inside} == {*pool}
    one_more = boot(booking, reservation=reservation.id)
    assert one_more.status == 'ERROR'
    assert 'No valid host' in one_more.fault['message']
    booking.person.leases.delete(lease.id)
    for each in inside:
        booking.wait_gone(each.id)


def test_boots_at_once_get_as_many_slots_as_there_are(booking: Booking) -> None:
    wanted = {'resource_type': 'flavor:instance', 'flavor_id': booking.flavor.id, 'amount': SLOTS}
    lease = booking.wait_lease(make_lease(booking, wanted).id, 'ACTIVE')
    hint = {'reservation': lease.reservations[0].id}
    assert BOOTS - boot_at_once(booking, BOOTS, hint).count('ERROR') == SLOTS


def test_room_by_sizes_has_a_flavor_of_its_own(
    booking: Booking, stranger: Person, admin: Person, pool: tuple[str, ...]
) -> None:
    """Blazar's ``virtual:instance``, by its command: boot with the flavor, and nothing else."""
    name = f'sizes-{uuid.uuid4().hex[:8]}'
    sizes = 'vcpus=1,memory_mb=512,disk_gb=1,amount=1,affinity=None'
    end = at(hours=1)[:16].replace('T', ' ')
    made = booking.person.cli(
        *('openstack', 'reservation', 'lease', 'create', '--end-date', end),
        *('--reservation', f'resource_type=virtual:instance,{sizes}', name),
    )
    assert made.returncode == 0, made.stderr
    (found,) = booking.person.leases.list(name=name)
    booking.leases.add(found.id)
    lease = booking.wait_lease(found.id, 'ACTIVE')
    flavor_id = lease.reservations[0].id
    inside, more = (booking.begin({}, flavorRef=flavor_id) for _ in range(2))
    ended = [booking.wait(each, 'ACTIVE', 'ERROR') for each in (inside, more)]
    assert sorted(each.status for each in ended) == ['ACTIVE', 'ERROR']
    (landed,) = [each for each in ended if each.status == 'ACTIVE']
    assert host_of(admin, landed.id) in pool
    assert stranger.sdk.compute.find_flavor(flavor_id) is None

    booking.person.leases.end(lease.id)
    booking.wait_lease(lease.id, 'TERMINATED')
    booking.wait_gone(landed.id)
    assert admin.sdk.compute.find_flavor(flavor_id) is None
