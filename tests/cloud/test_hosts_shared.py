# SPDX-License-Identifier: Apache-2.0
"""Hosts with ordinary servers, which are emptied for a lease, or for their pool."""

from collections.abc import Iterator

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import Person, wait_for
from tests.cloud.pooling import boot, enrolled, host_of, hosts_of, order_lease
from tests.support.kinds import kind_cell

# Servers of other tests would come to the host, RESERVED ones, which cannot be moved.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]

#: A host for ordinary servers, and for a while for leases.
SHARED = 'compute3'
HOST = ('openstack', 'lease', 'host')
WANTED = ('--hosts', f'min=1,hypervisor_hostname=={SHARED}', '--kind', 'best_effort')


@pytest.fixture
def ordinary(admin: Person) -> Iterator[Booking]:
    """Servers of the administrator, who may name a host; no pool has the host afterwards."""
    ordinary = Booking(admin)
    yield ordinary
    ordinary.clean()
    admin.cli(*HOST, 'delete', SHARED)


@pytest.fixture
def leasing(admin: Person, ordinary: Booking) -> Iterator[Booking]:
    """Leases of the administrator on the host, which is shared; they go before its servers."""
    assert admin.cli(*HOST, 'create', SHARED, '--shared').returncode == 0
    leasing = Booking(ordinary.person)
    yield leasing
    leasing.clean()


def boot_there(booking: Booking) -> str:
    """Boot a server that must land on the host; return its id."""
    server = booking.wait(booking.begin({}, host=SHARED), 'ACTIVE', 'ERROR')
    assert (server.status, host_of(booking.person, server.id)) == ('ACTIVE', SHARED)
    return str(server.id)


def check_moved(admin: Person, server_id: str) -> None:
    """Check that a server runs, and on another host."""
    assert admin.sdk.compute.get_server(server_id).status == 'ACTIVE'
    assert host_of(admin, server_id) != SHARED


def wait_given_back(admin: Person) -> None:
    wait_for(lambda: not enrolled(admin)[SHARED].reservable, f'{SHARED} given back')


@kind_cell('Hosts', 'best_effort')
def test_shared_host_is_emptied_for_a_lease(
    admin: Person, ordinary: Booking, leasing: Booking
) -> None:
    server_id = boot_there(ordinary)
    lease = order_lease(leasing, *WANTED)
    assert (lease.status, hosts_of(lease)) == ('IN_PROGRESS', [])
    lease = leasing.wait_lease(lease.id, 'ACTIVE')
    assert hosts_of(lease) == [SHARED]
    check_moved(admin, server_id)
    (reservation,) = lease.reservations
    inside = boot(leasing, reservation=reservation.id)
    assert (inside.status, host_of(admin, inside.id)) == ('ACTIVE', SHARED)
    leasing.person.leases.end(lease.id)
    leasing.wait_lease(lease.id, 'TERMINATED')
    wait_given_back(admin)
    boot_there(ordinary)


def test_shared_host_that_is_not_empty_in_time_is_given_back(
    admin: Person, ordinary: Booking, leasing: Booking
) -> None:
    """A second is less than it takes until a host can be given, however fast its server moves."""
    server_id = boot_there(ordinary)
    ordered = order_lease(leasing, *WANTED, '--best-effort-timeout', '1')
    lease = leasing.wait_lease(ordered.id, 'TIMEDOUT', 'ACTIVE')
    assert (lease.status, hosts_of(lease)) == ('TIMEDOUT', [])
    ordinary.wait(server_id, 'ACTIVE')
    wait_given_back(admin)
    boot_there(ordinary)


def test_host_with_a_server_is_emptied_for_its_pool(admin: Person, ordinary: Booking) -> None:
    server_id = boot_there(ordinary)
    refused = admin.cli(*HOST, 'create', SHARED)
    assert 'The host has servers' in refused.stderr
    assert admin.cli(*HOST, 'create', SHARED, '--empty').returncode == 0
    wait_for(lambda: enrolled(admin)[SHARED].reservable, f'{SHARED} empty')
    check_moved(admin, server_id)
