# SPDX-License-Identifier: Apache-2.0
"""Servers move inside a lease of hosts only, and hosts that die are replaced."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions

from tests.cloud.booking import Booking
from tests.cloud.people import Person, cloud, pid, wait_for
from tests.cloud.pooling import (
    POOL,
    boot,
    enrolled,
    host_of,
    hosts_of,
    lease_hosts,
    servers_on,
)

pytestmark = pytest.mark.usefixtures('pool')

OUTSIDE = 'compute1'


def migrate(admin: Person, server_id: str, host: str | None = None) -> str:
    """Migrate a server that runs; return the status of the migration at its end."""
    compute = admin.sdk.compute
    before = {each.id for each in compute.migrations(instance_uuid=server_id)}
    compute.live_migrate_server(server_id, host=host, block_migration='auto')

    def look() -> str | None:
        ended = [
            str(each.status)
            for each in compute.migrations(instance_uuid=server_id)
            if each.id not in before and each.status in ('completed', 'error', 'failed')
        ]
        idle = compute.get_server(server_id).task_state is None
        return ended[0] if ended and idle else None

    return str(wait_for(look, f'server {server_id} migrated'))


def test_servers_are_migrated_inside_their_lease_only(booking: Booking, admin: Person) -> None:
    lease = lease_hosts(booking, len(POOL))
    inside = boot(booking, reservation=lease.reservations[0].id)
    ordinary = boot(booking)
    before = host_of(admin, ordinary.id)
    first = host_of(admin, inside.id)
    (second,) = {*POOL} - {first}

    assert migrate(admin, inside.id) == 'completed'
    assert host_of(admin, inside.id) == second
    for server, host in ((inside, OUTSIDE), (ordinary, first)):
        with pytest.raises(exceptions.BadRequestException, match='No valid host'):
            migrate(admin, server.id, host)
    assert [host_of(admin, each.id) for each in (inside, ordinary)] == [second, before]


def test_servers_move_out_of_the_pool_at_the_end(booking: Booking, admin: Person) -> None:
    lease = lease_hosts(booking, on_end='migrate')
    running, stopped = (boot(booking, reservation=lease.reservations[0].id) for _ in range(2))
    booking.person.sdk.compute.stop_server(stopped.id)
    booking.wait(stopped.id, 'SHUTOFF')

    booking.person.leases.end(lease.id)
    booking.wait_lease(lease.id, 'TERMINATED')
    for server, status in ((running, 'ACTIVE'), (stopped, 'SHUTOFF')):
        assert booking.wait(server.id, status).id == server.id
        assert host_of(admin, server.id) not in POOL
    assert not [each for host in POOL for each in servers_on(admin, host)]


@pytest.fixture
def killed(booking: Booking, admin: Person) -> Iterator[Any]:
    """Kills nova-compute of hosts; they run again afterwards, and are in use."""
    killed: list[str] = []

    def kill(host: str) -> None:
        killed.append(host)
        os.kill(pid(f'nova-{host}'), signal.SIGKILL)

    yield kill
    for host in killed:
        cloud('restart', f'nova-{host}')
    # A host is not in use before the servers have left that were there when it died.
    booking.clean()
    for host in killed:
        wait_for(lambda host=host: enrolled(admin)[host].reservable, f'{host} in use')


def test_host_that_died_is_replaced_as_soon_as_there_is_another(
    booking: Booking, admin: Person, killed: Any
) -> None:
    lease, other = (lease_hosts(booking) for _ in POOL)
    reservation = lease.reservations[0]
    inside = boot(booking, reservation=reservation.id)
    (host,), (spare,) = hosts_of(lease), hosts_of(other)
    assert host_of(admin, inside.id) == host

    killed(host)
    degraded = wait_for(
        lambda: next((each for each in [look(booking, lease)] if each.degraded), None),
        'the lease says that its host is missing',
    )
    assert degraded.reservations[0].missing_resources
    assert host in degraded.status_reason
    assert hosts_of(degraded) == [host]

    booking.person.leases.end(other.id)
    wait_for(lambda: hosts_of(look(booking, lease)) == [spare], 'another host')
    booking.wait_lease(lease.id, 'ACTIVE')
    again = wait_for(lambda: begin_inside(booking, reservation.id), 'the other host is open')
    booking.wait(again, 'ACTIVE')
    assert host_of(admin, again) == spare
    wait_for(lambda: evacuated(admin, inside.id), 'Nova takes the host for down')
    wait_for(lambda: host_of(admin, inside.id) == spare, 'evacuated to the other host')


def look(booking: Booking, lease: Any) -> Any:
    return booking.person.leases.get(lease.id)


def begin_inside(booking: Booking, reservation_id: str) -> str | None:
    """Boot a server in a reservation; return its id, None while no host is open to it."""
    answer = booking.post({'reservation': reservation_id})
    if answer.status_code == 400 and 'waits for another host' in answer.text:
        return None
    assert answer.status_code == 202, answer.text
    return str(answer.json()['server']['id'])


def evacuated(admin: Person, server_id: str) -> bool:
    """Evacuate a server; tell whether Nova takes the request."""
    try:
        admin.sdk.compute.evacuate_server(server_id)
    except exceptions.BadRequestException:
        return False
    return True
