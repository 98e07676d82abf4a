# SPDX-License-Identifier: Apache-2.0
"""Addresses and networks of leases while the user of the lease service has the role service alone.

Neutron's policy has the lines of the documents: ``devstack/local/templates/neutron-policy.yaml``.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.networking import PHYSICAL, filled, forward, public
from tests.cloud.people import CONF, Person, at, cloud, configured, manage

pytestmark = pytest.mark.alone

ADDRESS = '203.0.113.40'
SEGMENT = 250
SERVICES = ('climate-manager', 'climate-api')


@pytest.fixture(scope='module', autouse=True)
def role_service_alone(admin: Person) -> Iterator[None]:
    """Take the role admin from the service user, and give it back afterwards.

    oslo.limit needs to see the whole system, see ``doc/source/operation/limits.rst``.
    """
    identity, text = admin.sdk.identity, CONF.read_text()
    user = identity.find_user('climate', ignore_missing=False)
    project = identity.find_project('service', ignore_missing=False)
    role, reader = (identity.find_role(each, ignore_missing=False) for each in ('admin', 'reader'))
    identity.unassign_project_role_from_user(project, user, role)
    identity.assign_system_role_to_user(user, reader, 'all')
    names = ('auth_type', 'auth_url', 'username', 'password', 'user_domain_name')
    lines = [f'{name} = {configured("cloud", name)}' for name in names]
    try:
        CONF.write_text('\n'.join([text, '[oslo_limit]', *lines, 'system_scope = all\n']))
        cloud('restart', *SERVICES)
        roles = {each.role['id'] for each in identity.role_assignments(user_id=user.id)}
        assert roles == {identity.find_role('service').id, reader.id}
        yield
    finally:
        CONF.write_text(text)
        identity.unassign_system_role_from_user(user, reader, 'all')
        identity.assign_project_role_to_user(project, user, role)
        cloud('restart', *SERVICES)


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
