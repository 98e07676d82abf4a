# SPDX-License-Identifier: Apache-2.0
"""Addresses and networks of leases with the rights that the user of the lease service needs.

It has no role admin; the services have the lines of ``devstack/local/templates/policies``.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.networking import PHYSICAL, filled, forward, public
from tests.cloud.people import Person, at, environment, manage

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
    assert names == {'climate', 'service', 'member', 'reader'}


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


def test_what_neutron_gives_to_others_is_not_set_apart(admin: Person) -> None:
    for number, physical, told in ((150, PHYSICAL, '100-199'), (250, 'physnet9', 'physnet9')):
        with pytest.raises(exceptions.BadRequest, match=told):
            admin.client.networks.create('vlan', number, physical)
    with pytest.raises(exceptions.BadRequest, match='allocation pool'):
        admin.client.floatingips.create(public(admin).id, '203.0.113.205')


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


@pytest.mark.usefixtures('registered')
def test_what_a_lease_left_behind_is_found_and_repaired(admin: Person, member: Person) -> None:
    lease = member.leases.create('left', at(hours=1), reservations=wanted(member))
    address, network = member.wait_lease(lease.id, 'ACTIVE').reservations
    member.leases.end(lease.id)
    member.wait_lease(lease.id, 'TERMINATED')
    sdk, project = admin.sdk.network, member.sdk.current_project_id
    mark = 'climate:{}'.format
    left = [
        sdk.create_network(name='left', project_id=project, description=mark(network.id)).id,
        sdk.create_ip(
            floating_network_id=public(admin).id,
            floating_ip_address=ADDRESS,
            project_id=project,
            description=mark(address.id),
        ).id,
    ]
    _, found = manage('orphans')
    assert all(each in json.dumps(found) for each in left)
    manage('repair', '--safe', '0', '--yes')
    assert sdk.find_network(left[0]) is None
    assert sdk.find_ip(ADDRESS) is None
