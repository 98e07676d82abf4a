# SPDX-License-Identifier: Apache-2.0
"""Hosts of the local cloud's pool, and servers on them."""

import concurrent.futures
import json
import uuid
from typing import Any

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for

#: The hosts that the cloud has enrolled; others are left for ordinary servers.
POOL = ('compute4', 'compute5')


def enrol(admin: Person, host: str) -> None:
    """Enrol a host with Blazar's command, unless it is."""
    # A server that was deleted or evacuated may still have its allocation for a moment.
    command = ('openstack', 'reservation', 'host', 'create', host)
    wait_for(
        lambda: host in enrolled(admin) or admin.cli(*command).returncode == 0, f'{host} enrolled'
    )


def withdraw(admin: Person, host: str) -> None:
    """Take a host out of the pool, once it is empty."""
    wait_for(lambda: not servers_on(admin, host), f'{host} empty')
    removed = admin.cli('openstack', 'reservation', 'host', 'delete', host)
    assert removed.returncode == 0, removed.stderr


def servers_on(admin: Person, host: str) -> list[Any]:
    return list(admin.sdk.compute.servers(all_projects=True, host=host))


def host_of(admin: Person, server_id: str) -> str:
    """Return the host that a server is on."""
    return str(admin.sdk.compute.get_server(server_id).hypervisor_hostname)


def hosts_of(lease: Any) -> list[str]:
    """Return the hosts that are promised to a lease with one reservation."""
    (reservation,) = lease.reservations
    return list(reservation.params['hosts'])


def boot(booking: Booking, **hints: str) -> Any:
    """Boot a server that is no reservation; return it when it is ACTIVE or in ERROR."""
    return booking.wait(booking.begin(hints), 'ACTIVE', 'ERROR')


def boot_at_once(booking: Booking, number: int, hints: dict[str, Any], **server: Any) -> list[str]:
    """Boot so many servers, every other one as a reservation; return their statuses."""
    params = {'name': f'later-{uuid.uuid4().hex[:8]}', 'start': at(hours=1), 'end': at(hours=2)}
    later = {**hints, 'reserved': 'True', 'lease_params': json.dumps(params)}
    with concurrent.futures.ThreadPoolExecutor(number) as threads:
        wanted = [hints, later] * (number // 2)
        booted = [*threads.map(lambda each: booking.begin(each, **server), wanted)]
    return [booking.wait(each, 'ACTIVE', 'RESERVED', 'ERROR').status for each in booted]


def lease_hosts(booking: Booking, number: int = 1, **wanted: Any) -> Any:
    """Make a lease of so many hosts that begins now; return it when it is ACTIVE."""
    wanted = {'resource_type': 'physical:host', 'min': number, **wanted}
    return booking.wait_lease(make_lease(booking, wanted).id, 'ACTIVE')


def make_lease(booking: Booking, wanted: dict[str, Any], **terms: Any) -> Any:
    """Make a lease with one reservation, of an hour from now unless the terms differ."""
    name = f'hosts-{uuid.uuid4().hex[:8]}'
    terms = {'start': 'now', 'end': at(hours=1), **terms}
    made = booking.person.leases.create(name, reservations=[wanted], **terms)
    booking.leases.add(made.id)
    return made


def order_lease(booking: Booking, *options: str) -> Any:
    """Make a lease of an hour with the command line."""
    name = f'hosts-{uuid.uuid4().hex[:8]}'
    command = ('openstack', 'lease', 'create', name, '--for', '1h', *options, '-f', 'json')
    made = booking.person.cli(*command)
    assert made.returncode == 0, made.stderr
    lease_id = json.loads(made.stdout)['id']
    booking.leases.add(lease_id)
    return booking.person.leases.get(lease_id)


def enrolled(admin: Person) -> dict[str, Any]:
    """Return the hosts of the pools by name."""
    return {each.hypervisor_hostname: each for each in admin.client.hosts.list()}
