# SPDX-License-Identifier: Apache-2.0
"""One lease of a host, a server, a volume, an address and a network: granted as a whole or not."""

from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.booking import Booking
from tests.cloud.networking import PHYSICAL, public
from tests.cloud.people import Person, at
from tests.cloud.pooling import POOL, boot, host_of
from tests.cloud.reserving import Reserving
from tests.support.kinds import kind_cell

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]

ADDRESS = '203.0.113.41'
SEGMENT = 251
HOST = {'resource_type': 'physical:host', 'min': 1}
NETWORK = {'resource_type': 'network', 'network_name': 'net1', 'segment_id': SEGMENT}


@pytest.fixture
def address(admin: Person) -> Iterator[dict[str, Any]]:
    """Set an address and a segment apart; return the reservation of the address."""
    network_id = public(admin).id
    made = admin.client.floatingips.create(network_id, ADDRESS)
    segment = admin.client.networks.create('vlan', SEGMENT, PHYSICAL)
    wanted = {'resource_type': 'virtual:floatingip', 'network_id': network_id}
    yield {**wanted, 'required_floatingips': [ADDRESS]}
    admin.client.floatingips.delete(made.id)
    admin.client.networks.delete(segment.id)


@kind_cell('Existing servers, volumes or stacks, with hosts or capacity', 'immediate')
def test_lease_of_everything_begins_and_ends_together(
    address: dict[str, Any],
    booking: Booking,
    volumes: Reserving,
    stranger: Person,
    admin: Person,
) -> None:
    member, times = booking.person, {'start': at(hours=1), 'end': at(hours=2)}
    lease = member.leases.create('all', reservations=[HOST, address, NETWORK], **times)
    booking.leases.add(lease.id)
    with pytest.raises(
        exceptions.Conflict, match=f'{ADDRESS} is allocated to another reservation'
    ) as caught:
        stranger.leases.create('part', reservations=[HOST, address], **times)
    assert caught.value.field.startswith('reservations[1].')
    assert [*stranger.leases.list(name='part')] == []
    assert stranger.held()['reserved_hosts'] == 0

    hints = {'reserved': 'True', 'lease_id': lease.id}
    volume, server_id = volumes.reserve(hints), booking.begin(hints)
    booking.wait(server_id, 'RESERVED')
    member.leases.update(lease.id, start='now')
    lease = booking.wait_lease(lease.id, 'ACTIVE')
    assert lease.status_reason is None
    found = {each.resource_type: each for each in lease.reservations}
    assert {each.status for each in found.values()} == {'active'}
    booking.wait(server_id, 'ACTIVE')
    volumes.wait(volume.id, 'available')
    network_id = found['network'].params['network_id']
    assert member.sdk.network.get_network(network_id).name == 'net1'
    assert member.sdk.network.find_ip(ADDRESS)
    inside = boot(booking, reservation=found['physical:host'].id)
    assert (inside.status, host_of(admin, inside.id) in POOL) == ('ACTIVE', True)

    member.leases.end(lease.id)
    assert booking.wait_lease(lease.id, 'TERMINATED').status_reason is None
    for each in (server_id, inside.id):
        booking.wait_gone(each)
    volumes.wait_gone(volume.id)
    assert member.sdk.network.find_network(network_id) is None
    assert member.sdk.network.find_ip(ADDRESS) is None
