# SPDX-License-Identifier: Apache-2.0
"""Addresses and networks of leases with the rights that the user of the lease service needs.

It has no role admin; the services have the lines of ``devstack/local/templates/policies``.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.networking import PHYSICAL, filled, forward, public
from tests.cloud.people import Person, at, environment

pytestmark = pytest.mark.alone

ADDRESS = '203.0.113.40'
SEGMENT = 250


@pytest.fixture
def registered(admin: Person) -> Iterator[None]:
    """Set an address and a VLAN apart; both are looked at in Neutron before."""
    address = admin.client.floatingips.create(public(admin).id, ADDRESS)
    segment = admin.client.networks.create('vlan', SEGMENT, PHYSICAL)
    yield
    admin.client.floatingips.delete(address.id)
    admin.client.networks.delete(segment.id)


def wanted(person: Person) -> list[dict[str, Any]]:
    """Return the reservations of an address and of a network."""
    address = {'resource_type': 'virtual:floatingip', 'network_id': public(person).id}
    network = {'resource_type': 'network', 'network_name': 'net1', 'segment_id': SEGMENT}
    return [{**address, 'required_floatingips': [ADDRESS]}, network]


def test_service_user_is_no_administrator_of_the_cloud(admin: Person) -> None:
    identity = admin.sdk.identity
    user = identity.find_user('climate', ignore_missing=False)
    roles = {each.role['id'] for each in identity.role_assignments(user_id=user.id)}
    names = {each.name for each in identity.roles() if each.id in roles}
    assert names == {'climate', 'service', 'member'}


def test_service_user_sees_resources_of_every_project(member: Person) -> None:
    service = Person(environment('climate'))
    volume = member.sdk.block_storage.create_volume(size=1, name='seen')
    member.sdk.block_storage.wait_for_status(volume, 'available')
    snapshot = member.sdk.block_storage.create_snapshot(volume_id=volume.id)
    member.sdk.block_storage.wait_for_status(snapshot, 'available')
    try:
        assert service.sdk.block_storage.get_volume(volume.id).project_id is not None
        assert service.sdk.block_storage.get_snapshot(snapshot.id).volume_id == volume.id
    finally:
        member.sdk.block_storage.delete_snapshot(snapshot)
        member.sdk.block_storage.wait_for_delete(snapshot)
        member.sdk.block_storage.delete_volume(volume)


@pytest.mark.usefixtures('registered')
def test_lease_starts_and_ends_with_all_that_is_in_its_network(
    admin: Person, member: Person, stranger: Person
) -> None:
    lease = member.leases.create('both', at(hours=1), reservations=wanted(member))
    lease = member.wait_lease(lease.id, 'ACTIVE')
    assert lease.status_reason is None
    address, made = lease.reservations
    sdk = member.sdk.network
    floating, network = sdk.find_ip(ADDRESS), sdk.get_network(made.params['network_id'])
    assert list(floating.tags) == [f'reservation:{address.id}']
    assert list(network.tags) == [f'reservation:{made.id}']
    with filled(member, stranger, network) as check_gone:
        # Not one of those that are there: of one with a floating IP nothing is forwarded.
        forward(member, floating, sdk.create_port(network_id=network.id))
        member.leases.end(lease.id)
        assert member.wait_lease(lease.id, 'TERMINATED').status_reason is None
        check_gone(admin)
    assert sdk.find_ip(ADDRESS) is None
