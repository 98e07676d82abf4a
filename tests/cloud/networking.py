# SPDX-License-Identifier: Apache-2.0
"""Networks and addresses on the local cloud, and what their users put into them."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cloud.people import STATE, Person

PHYSICAL = 'physnet1'


def public(person: Person) -> Any:
    """Return the external network."""
    return person.sdk.network.find_network('public', ignore_missing=False)


def has_policy_lines() -> bool:
    """Tell whether Neutron's policy has the lines for leases: CLIMATE_CLOUD_POLICIES."""
    return bool(json.loads((STATE / 'settings.json').read_text())['policies'])


def trunk(person: Person, parent: Any, subport: Any) -> Any:
    """Make a trunk with one subport."""
    inside = {'port_id': subport.id, 'segmentation_type': 'vlan', 'segmentation_id': 5}
    return person.sdk.network.create_trunk(port_id=parent.id, sub_ports=[inside])


def forward(person: Person, floating: Any, port: Any) -> None:
    """Forward a port of a floating IP to a port of a network."""
    forwarding = {
        'protocol': 'tcp',
        'internal_ip_address': port.fixed_ips[0]['ip_address'],
        'internal_port_id': port.id,
        'internal_port': 80,
        'external_port': 8080,
    }
    path = f'/floatingips/{floating.id}/port_forwardings'
    answer = person.sdk.network.post(path, json={'port_forwarding': forwarding})
    assert answer.status_code == 201, answer.text


@contextlib.contextmanager
def filled(member: Person, stranger: Person, network: Any) -> Iterator[Callable[[Person], None]]:
    """Put into a member's network all that keeps Neutron from deleting it.

    That is a router with a route, a port of another project, a floating IP, and trunks.

    :returns: checks as an administrator that all of it is torn down, and nothing else
    """
    sdk, outer = member.sdk.network, public(member)
    subnet = sdk.create_subnet(network_id=network.id, ip_version=4, cidr='10.9.0.0/24')
    router = sdk.create_router(name='r', external_gateway_info={'network_id': outer.id})
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
    floating = sdk.create_ip(floating_network_id=outer.id, port_id=port.id)
    outside = sdk.create_network(name='outside')
    other = sdk.create_port(network_id=outside.id)
    gone, left = trunk(member, parent, subport), trunk(member, other, inner)

    def check(admin: Person) -> None:
        assert admin.sdk.network.find_network(network.id) is None
        assert admin.sdk.network.find_port(theirs.id) is None
        assert sdk.get_router(router.id).routes == []
        assert sdk.get_ip(floating.id).port_id is None
        assert [(each.id, each.sub_ports) for each in sdk.trunks()] == [(left.id, [])]
        assert not [each for each in (parent, subport, inner) if sdk.find_port(each.id)]

    try:
        yield check
    finally:
        for each in (left, gone):
            sdk.delete_trunk(each)
        sdk.delete_port(other)
        sdk.delete_network(outside)
        sdk.delete_ip(floating)
        sdk.delete_router(router)
