# SPDX-License-Identifier: Apache-2.0
"""Preemptible leases give way to others on the real cloud, and begin again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at
from tests.cloud.pooling import boot, host_of, hosts_of, order_lease

pytestmark = pytest.mark.usefixtures('pool')


@pytest.fixture
def others(stranger: Person) -> Iterator[Booking]:
    """Make what those need who are preferred; delete it before the pool is looked at again."""
    made = Booking(stranger)
    yield made
    made.clean()


def reason(booking: Booking, lease: Any) -> str:
    return str(booking.person.leases.get(lease.id).status_reason)


def test_preemptible_lease_gives_way_and_begins_again(
    booking: Booking, others: Booking, admin: Person, pool: tuple[str, ...]
) -> None:
    filler = order_lease(booking, '--hosts', f'min={len(pool)}', '--preemptible')
    filler = booking.wait_lease(filler.id, 'ACTIVE')
    (reservation,) = filler.reservations
    inside = boot(booking, reservation=reservation.id)
    needed = order_lease(others, '--hosts', f'min={len(pool)}')
    assert needed.status == 'PENDING'
    assert needed.start_date > needed.created_at
    assert 'Another lease needs' in reason(booking, filler)
    others.wait_lease(needed.id, 'ACTIVE')
    booking.wait_lease(filler.id, 'WAITING')
    assert booking.wait(inside.id, 'SHELVED_OFFLOADED').id == inside.id

    others.person.leases.end(needed.id)
    booking.wait_lease(filler.id, 'ACTIVE')
    assert booking.wait(inside.id, 'ACTIVE').id == inside.id
    assert host_of(admin, inside.id) in pool


def test_one_that_has_not_begun_waits_at_once_and_has_its_hosts_again(
    booking: Booking, others: Booking, pool: tuple[str, ...]
) -> None:
    hosts = '--start', at(hours=1), '--hosts', f'min={len(pool)}'
    filler = order_lease(booking, *hosts, '--preemptible')
    assert (filler.status, {*hosts_of(filler)}) == ('PENDING', {*pool})
    asked = others.person.cli(
        *('openstack', 'lease', 'create', 'asked', '--for', '1h', *hosts, '--dry-run'),
        *('-f', 'json'),
    )
    assert json.loads(asked.stdout)['granted'] is True
    needed = order_lease(others, *hosts)
    assert (needed.status, {*hosts_of(needed)}) == ('PENDING', {*pool})
    waiting = booking.person.leases.get(filler.id)
    assert (waiting.status, hosts_of(waiting), waiting.retries_left) == ('WAITING', [], None)
    listed = booking.person.cli(
        *('openstack', 'lease', 'list', '--status', 'WAITING', '-f', 'json')
    )
    assert filler.id in listed.stdout
    others.person.leases.end(needed.id)
    granted = booking.wait_lease(filler.id, 'PENDING')
    assert {*hosts_of(granted)} == {*pool}


def test_capacity_gives_way_to_hosts_and_its_server_goes_when_it_is_ended_meanwhile(
    booking: Booking, others: Booking, pool: tuple[str, ...]
) -> None:
    room = '--capacity', f'flavor=m1.tiny,amount={len(pool)},affinity=false', '--preemptible'
    filler = booking.wait_lease(order_lease(booking, *room).id, 'ACTIVE')
    inside = boot(booking, reservation=filler.reservations[0].id)
    assert inside.status == 'ACTIVE'
    needed = order_lease(others, '--hosts', f'min={len(pool)}')
    booking.wait_lease(filler.id, 'WAITING')
    booking.wait(inside.id, 'SHELVED_OFFLOADED')
    others.wait_lease(needed.id, 'ACTIVE')
    hours = booking.person.leases.get(filler.id).reservations
    assert [each.status for each in hours] == ['pending', 'deleted']
    booking.person.leases.end(filler.id)
    booking.wait_lease(filler.id, 'TERMINATED')
    booking.wait_gone(inside.id)
