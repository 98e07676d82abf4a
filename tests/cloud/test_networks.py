# SPDX-License-Identifier: Apache-2.0
"""Networks of leases on the real Neutron, with ordinary members and its policy."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.people import Person, at

#: Behind the range that Neutron chooses from.
FIRST, SECOND = 210, 211
PHYSICAL = 'physnet1'


@pytest.fixture(autouse=True)
def registered(admin: Person) -> Iterator[None]:
    """Two VLANs that are set apart."""
    client = admin.client.networks
    made = client.create_range('vlan', FIRST, SECOND, PHYSICAL, extra={'switch': 'tor1'})
    yield
    for each in made:
        client.delete(each.id)


def wanted(**values: Any) -> list[dict[str, Any]]:
    both = {'resource_type': 'network', 'network_name': 'net1', 'physical_network': PHYSICAL}
    return [{**both, 'segment_id': FIRST, **values}]


def trunk(person: Person, parent: Any, subport: Any) -> Any:
    """Make a trunk with one subport."""
    inside = {'port_id': subport.id, 'segmentation_type': 'vlan', 'segmentation_id': 5}
    return person.sdk.network.create_trunk(port_id=parent.id, sub_ports=[inside])


def test_only_operators_set_segments_apart_and_choose_them(member: Person) -> None:
    with pytest.raises(exceptions.Forbidden):
        member.client.networks.create('vlan', 250, PHYSICAL)
    assert [each.segment_id for each in member.client.networks.list()] == [FIRST, SECOND]
    provider = {'network_type': 'vlan', 'physical_network': PHYSICAL, 'segmentation_id': FIRST}
    with pytest.raises(Exception, match='403'):
        member.sdk.network.create_network(
            name='taken', **{f'provider_{name}': value for name, value in provider.items()}
        )


def test_segment_that_neutron_does_not_know_is_not_set_apart(admin: Person) -> None:
    for kind, physical, field in (('vlan', 'physnet9', 'physical'), ('gre', None, 'network_type')):
        with pytest.raises(exceptions.BadRequest, match=field):
            admin.client.networks.create(kind, 250, physical)
    assert admin.sdk.network.find_network('none') is None


def test_network_from_its_promise_to_the_next_lease(
    admin: Person, member: Person, stranger: Person
) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=7)
    times = {'start': later, 'end': later + datetime.timedelta(hours=1)}
    promised = stranger.leases.create('week', reservations=wanted(), **times)
    assert promised.reservations[0].params['segment_id'] == FIRST
    with pytest.raises(exceptions.Conflict, match='network segments'):
        member.leases.create('same time', reservations=wanted(), **times)

    option = f'name=net1,physical_network={PHYSICAL},segment={FIRST},switch==tor1'
    span = ('--from', times['start'].isoformat(), '--for', '30m', '--limit', '1')
    asked = ('lease', 'availability', *span, '--network', option, '-f', 'json')
    (free,) = json.loads(member.cli('openstack', *asked).stdout)
    assert datetime.datetime.fromisoformat(free['Start']) >= times['end'].replace(microsecond=0)
    create = ('lease', 'create', 'now', '--for', '1h', '--network', option, '-f', 'json')
    lease_id = json.loads(member.cli('openstack', *create).stdout)['id']
    lease = member.wait_lease(lease_id, 'ACTIVE')
    sdk = member.sdk.network
    network = sdk.get_network(lease.reservations[0].params['network_id'])
    assert (network.name, network.project_id) == ('net1', member.sdk.current_project_id)
    assert list(network.tags) == [f'reservation:{lease.reservations[0].id}']

    public = sdk.find_network('public', ignore_missing=False)
    subnet = sdk.create_subnet(network_id=network.id, ip_version=4, cidr='10.9.0.0/24')
    router = sdk.create_router(name='r', external_gateway_info={'network_id': public.id})
    sdk.add_interface_to_router(router, subnet_id=subnet.id)
    routes = [{'destination': '10.77.0.0/16', 'nexthop': '10.9.0.7'}]
    sdk.update_router(router, routes=routes)
    sdk.create_rbac_policy(
        object_type='network',
        object_id=network.id,
        action='access_as_shared',
        target_project_id=stranger.sdk.current_project_id,
    )
    theirs = stranger.sdk.network.create_port(network_id=network.id)
    port, parent, subport, inner = (sdk.create_port(network_id=network.id) for _ in range(4))
    floating = sdk.create_ip(floating_network_id=public.id, port_id=port.id)
    outside = sdk.create_network(name='outside')
    other = sdk.create_port(network_id=outside.id)
    gone, left = trunk(member, parent, subport), trunk(member, other, inner)
    try:
        stranger.leases.delete(promised.id)
        stranger.wait_lease_gone(promised.id)
        assert sdk.get_network(network.id)
        member.leases.end(lease.id)
        assert member.wait_lease(lease.id, 'TERMINATED').status_reason is None
        assert admin.sdk.network.find_network(network.id) is None
        assert admin.sdk.network.find_port(theirs.id) is None
        assert sdk.get_router(router.id).routes == []
        assert sdk.get_ip(floating.id).port_id is None
        assert [(each.id, each.sub_ports) for each in sdk.trunks()] == [(left.id, [])]
        assert not [each for each in (parent, subport, inner) if sdk.find_port(each.id)]
    finally:
        for each in (left, gone):
            sdk.delete_trunk(each)
        sdk.delete_port(other)
        sdk.delete_network(outside)
        sdk.delete_ip(floating)
        sdk.delete_router(router)
    following = stranger.leases.create('next', at(hours=1), reservations=wanted())
    stranger.wait_lease(following.id, 'ACTIVE')
    stranger.leases.end(following.id)
    stranger.wait_lease(following.id, 'TERMINATED')


def test_port_that_says_it_is_of_a_router_keeps_no_network(admin: Person, member: Person) -> None:
    lease = member.leases.create('full', at(hours=1), reservations=wanted())
    lease = member.wait_lease(lease.id, 'ACTIVE')
    network_id = lease.reservations[0].params['network_id']
    # With a port of such an owner Neutron refuses to delete the network.
    port = admin.sdk.network.create_port(
        network_id=network_id, device_owner='network:router_ha_interface'
    )
    member.leases.end(lease.id)
    member.wait_lease(lease.id, 'TERMINATED')
    assert admin.sdk.network.find_network(network_id) is None
    assert admin.sdk.network.find_port(port.id) is None
