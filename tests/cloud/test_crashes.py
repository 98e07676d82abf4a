# SPDX-License-Identifier: Apache-2.0
"""Processes of the cloud are stopped and killed; reservations survive."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, cloud, pid, wait_for

pytestmark = pytest.mark.alone


@pytest.fixture
def manager() -> Iterator[None]:
    """Whatever a test does to climate-manager, it runs afterwards."""
    yield
    cloud('restart', 'climate-manager')


@pytest.mark.usefixtures('manager')
def test_killed_manager_is_resumed_and_wakes_once(booking: Booking) -> None:
    server = booking.reserve(start=at(seconds=4))
    lease = booking.lease_of(server.id)
    os.kill(pid('climate-manager'), signal.SIGKILL)
    wait_for(lambda: at() > lease.start_date.isoformat(timespec='seconds'), 'the start is over')
    cloud('restart', 'climate-manager')
    booking.wait(server.id, 'ACTIVE')
    booking.wait_lease(lease.id, 'ACTIVE')
    assert booking.wake_ups(server.id) == 1


def test_nova_compute_restart_leaves_a_reservation_alone(
    booking: Booking, admin: Person, allocations
) -> None:
    server = booking.reserve(start=at(hours=1))
    host = admin.sdk.compute.get_server(server.id).compute_host
    cloud('restart', f'nova-{host}')
    assert booking.person.sdk.compute.get_server(server.id).status == 'RESERVED'
    assert allocations(server.id)
    lease = booking.lease_of(server.id)
    booking.person.leases.update(lease.id, start=at(seconds=2))
    booking.wait(server.id, 'ACTIVE')


def up_again(admin: Person, service: Any) -> bool:
    """Tell whether Nova lets a host be used again."""
    try:
        admin.sdk.compute.update_service_forced_down(service, forced=False)
    except exceptions.BadRequestException:
        return False
    return True


def test_evacuation_is_noted_in_the_lease(booking: Booking, admin: Person) -> None:
    server = booking.reserve(start='now')
    lease = booking.lease_of(server.id)
    booking.wait_lease(lease.id, 'ACTIVE')
    compute = admin.sdk.compute
    host = compute.get_server(server.id).compute_host
    [service] = compute.services(binary='nova-compute', host=host)
    compute.update_service_forced_down(service, forced=True)
    try:
        compute.evacuate_server(server.id)
        wait_for(lambda: compute.get_server(server.id).compute_host != host, 'another host')
        noted = wait_for(
            lambda: next(
                (r for r in booking.person.leases.get(lease.id).reservations if r.status_reason),
                None,
            ),
            'a reason in the reservation',
        )
    finally:
        # Nova takes a host back after its nova-compute has seen what was evacuated from it.
        cloud('restart', f'nova-{host}')
        wait_for(lambda: up_again(admin, service), f'{host} is taken back')
    assert noted.resources_changed
    assert 'evacuated' in noted.status_reason
    # Nova leaves it stopped since microversion 2.95.
    booking.wait(server.id, 'SHUTOFF')
