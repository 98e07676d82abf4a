# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron.

They create, change and tag what Climate has in Neutron, check what a user may connect a server to,
and delete a network with the ports, trunks and router interfaces that Neutron rejects its deletion
for. Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
import datetime
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.cloud import errors, services
from climate_core.cloud.connections import Connection
from climate_core.cloud.services import check_project

if TYPE_CHECKING:
    import requests
    from keystoneauth1.identity import BaseIdentityPlugin


NEUTRON: Final = services.Service('Neutron', 'network', '2')


class QuotaFull(errors.Busy):
    """The quota of the project in Neutron is exhausted."""


class Taken(errors.Busy):
    """The address, or the segment, is in use in Neutron."""


#: Number of ids in one URL: a web server accepts 8 KiB.
_IDS_PER_REQUEST: Final = 100
#: Types of the errors 409 of Neutron -> exceptions.
_CONFLICTS: Final[dict[str, type[Exception]]] = {
    'OverQuota': QuotaFull,
    'IpAddressAlreadyAllocated': Taken,
    'VlanIdInUse': Taken,
    'TunnelIdInUse': Taken,
}


def create(conn: Connection, noun: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Create a resource in a project.

    :param noun: ``floatingip`` or ``network``
    :param values: with a description; :func:`set_tags` sets the tags later
    :raises QuotaFull: the quota of the project is exhausted
    :raises Taken: the address or the segment is in use
    """
    response = NEUTRON.send(conn, 'POST', f'/{noun}s', {noun: values})
    if response.status_code == 409:
        errors.check_response(response, NEUTRON.name, _CONFLICTS.get(_error_type(response)))
    resource: dict[str, Any] = errors.read_response(response, NEUTRON.name, noun)
    return resource


def _error_type(response: 'requests.Response') -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(response.json()['NeutronError']['type'])
    return ''


def update(conn: Connection, noun: str, resource_id: str, values: Mapping[str, Any]) -> None:
    """Update a resource."""
    NEUTRON.request(conn, 'PUT', f'/{noun}s/{resource_id}', {noun: values})


def set_tags(conn: Connection, noun: str, resource_id: str, tags: Collection[str]) -> None:
    """Set the tags of a resource; Neutron accepts none when it creates the resource."""
    NEUTRON.request(conn, 'PUT', f'/{noun}s/{resource_id}/tags', {'tags': sorted(tags)})


def list_tagged(conn: Connection, noun: str) -> Iterator[dict[str, Any]]:
    """Yield id, description and tags of all resources, one call for each page.

    Nothing is yielded where the cloud has no Neutron, or its Neutron has no such resources.
    """
    query = {'fields': ['id', 'description', 'tags']}
    with contextlib.suppress(errors.Gone):
        if NEUTRON.is_offered(conn):
            yield from NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)


def find_existing(conn: Connection, noun: str, ids: Collection[str]) -> set[str]:
    """Return which of some ids exist, one call for each hundred."""
    listed, existing = sorted({*ids}), set()
    for first in range(0, len(listed), _IDS_PER_REQUEST):
        query = {'id': listed[first : first + _IDS_PER_REQUEST], 'fields': 'id'}
        existing |= {row['id'] for row in NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)}
    return existing


def read_changed_at(conn: Connection, noun: str, resource_id: str) -> datetime.datetime | None:
    """Return when a resource last changed; None if it does not exist or does not show that."""
    try:
        stamp = NEUTRON.read(conn, f'/{noun}s/{resource_id}', noun).get('updated_at')
    except errors.Gone:
        return None
    return datetime.datetime.fromisoformat(stamp) if stamp else None


def check_all_visible(conn: Connection, plural: str) -> None:
    """Raise Forbidden if these rights do not see the resources of every project.

    A list of resources does not show that: Neutron reduces it to the own project for other users.
    No other request of a service shows it either, so this checks the roles.

    :param plural: the resources, for the message
    """
    with errors.translated('Keystone'):
        access = cast('BaseIdentityPlugin', conn.session.auth).get_access(conn.session)
    roles: list[str] = access.role_names  # type: ignore[assignment]
    if not {'admin', 'service'} & {*roles}:
        raise errors.Forbidden(f'Climate does not see the {plural} of every project.')


def check_network(conn: Connection, network_id: str, allows_external: bool = False) -> None:
    """Check that servers of the project of these rights may be on a network.

    :param allows_external: the policy of Nova allows servers on external networks
    :raises climate_core.cloud.errors.Gone: the project may use no such network
    :raises climate_core.exceptions.Permanent: it is external and not shared with the project
    """
    network = NEUTRON.read(conn, f'/networks/{network_id}', 'network')
    if network.get('router:external'):
        _check_external(network, allows_external)
    elif not network.get('shared'):
        check_project(conn, network.get('project_id'), f'network {network_id}')


def _check_external(network: Mapping[str, Any], allows_external: bool) -> None:
    if not (network.get('shared') or allows_external):
        raise exceptions.Permanent(
            f'Network {network["id"]} is external and not shared with this project, so Nova '
            'attaches no servers to it: use another network and a floating IP.'
        )


def check_default_network(conn: Connection) -> None:
    """Raise Permanent if Nova cannot choose the network of a server.

    Nova counts as here (nova/network/neutron.py ``_get_available_networks``).
    """
    own = {'project_id': conn.current_project_id or '', 'shared': False}
    usable = {
        network['id']
        for query in (own, {'shared': True})
        for network in NEUTRON.read(
            conn, '/networks', 'networks', {**query, 'fields': 'id', 'limit': 2}
        )
    }
    if len(usable) > 1:
        raise exceptions.Permanent(
            'networks: must list the uuid of a network: this project has more than one network.'
        )


def check_port(conn: Connection, port_id: str, allows_external: bool = False) -> None:
    """Check that a server of the project of these rights may have a port; see `check_network`.

    A port that is in use may be free later, unless it belongs to a router, DHCP and the like.
    """
    port = NEUTRON.read(conn, f'/ports/{port_id}', 'port')
    check_project(conn, port.get('project_id'), f'port {port_id}')
    owner = str(port.get('device_owner') or '')
    if owner.startswith(NETWORK_PORT_PREFIX):
        raise exceptions.Permanent(
            f'Port {port_id} belongs to {owner}: use a port that a server may have.'
        )
    with contextlib.suppress(errors.Gone):
        # Nova accepts a port in a network that the user does not see.
        network = NEUTRON.read(conn, f'/networks/{port["network_id"]}', 'network')
        if network.get('router:external'):
            _check_external(network, allows_external)


def check_port_unused(conn: Connection, port_id: str) -> None:
    """Raise Permanent if a port is in use."""
    device_id = NEUTRON.read(conn, f'/ports/{port_id}', 'port').get('device_id')
    if device_id:
        raise exceptions.Permanent(
            f'Port {port_id} is in use by {device_id}: use a port that is free.'
        )


def check_security_group(conn: Connection, group: str) -> None:
    """Check that the project of these rights has one security group of this name or id.

    :raises climate_core.cloud.errors.Gone: there is no such group
    :raises climate_core.exceptions.Permanent: several groups have this name: Nova rejects that
    """
    total = 0
    for key in ('name', 'id'):
        query = {key: group, 'project_id': conn.current_project_id or ''}
        groups = NEUTRON.read(conn, '/security-groups', 'security_groups', query)
        if len(groups) == 1:
            return
        total += len(groups)
    if total:
        raise exceptions.Permanent(
            f'This project has {total} security groups {group}: give the id of one.'
        )
    raise errors.Gone(f'There is no security group {group} in this project.')


#: The prefix of ``device_owner`` of ports that are parts of networks; servers and the like own the
#: other ports.
NETWORK_PORT_PREFIX: Final = 'network:'
#: The owners of ports of routers (neutron_lib/constants.py: ROUTER_INTERFACE_OWNERS).
ROUTER_INTERFACES: Final = frozenset(
    {
        'network:router_interface',
        'network:router_interface_distributed',
        'network:ha_router_replicated_interface',
    }
)
#: The owners of ports that Neutron deletes with their network (neutron/common/_constants.py:85).
DELETED_WITH_NETWORK: Final = frozenset(
    {'network:dhcp', 'network:distributed', 'network:floatingip_agent_gateway'}
)

_UUID: Final = re.compile(r'\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b')


def list_ports(conn: Connection, network_id: str) -> list[dict[str, Any]]:
    """Return the ports of a network, including those of other projects."""
    return list(NEUTRON.pages(conn, '/ports', 'ports', {'network_id': network_id}))


def delete_port(conn: Connection, port: Mapping[str, Any]) -> None:
    """Delete a port. That removes it from floating IPs, port forwardings and trunks."""
    path = f'/ports/{port["id"]}'
    with contextlib.suppress(errors.Gone):
        try:
            NEUTRON.request(conn, 'DELETE', path)
        except errors.Busy as exc:
            _remove_from_trunk(conn, port['id'], str(exc))
            NEUTRON.request(conn, 'DELETE', path)


def force_delete_port(conn: Connection, port: Mapping[str, Any]) -> None:
    """Delete a port, even if its owner is a router that does not have the port.

    (neutron/db/l3_db.py:prevent_l3_port_deletion)
    """
    with contextlib.suppress(errors.Gone):
        if port['device_owner'].startswith(NETWORK_PORT_PREFIX):
            update(conn, 'port', port['id'], {'device_owner': '', 'device_id': ''})
        delete_port(conn, port)


def _remove_from_trunk(conn: Connection, port_id: str, refused: str) -> None:
    """Delete the trunk of which a port is the parent, or remove the port from its trunk.

    (neutron/services/trunk/rules.py:enforce_port_deletion_rules)

    :param refused: the error of Neutron for the deletion of the port, which names the trunk
        (neutron/services/trunk/exceptions.py: PortInUseAsSubPort, PortInUseAsTrunkParent)
    """
    # A port does not reliably show its trunk, and Neutron does not list trunks by their subports:
    # if the error names no trunk, all are searched.
    named = sorted({*_UUID.findall(refused)} - {port_id})
    query = {'id': named} if named else {}
    with contextlib.suppress(errors.Gone):
        for trunk in [*NEUTRON.pages(conn, '/trunks', 'trunks', query)]:
            path = f'/trunks/{trunk["id"]}'
            if trunk['port_id'] == port_id:
                _delete_trunk(conn, path, port_id)
            elif any(subport['port_id'] == port_id for subport in trunk['sub_ports']):
                body = {'sub_ports': [{'port_id': port_id}]}
                NEUTRON.request(conn, 'PUT', f'{path}/remove_subports', body)


def _delete_trunk(conn: Connection, path: str, port_id: str) -> None:
    try:
        NEUTRON.request(conn, 'DELETE', path)
    except errors.Busy:
        # Neutron keeps a trunk while its parent is bound to a host.
        update(conn, 'port', port_id, {'binding:host_id': ''})
        NEUTRON.request(conn, 'DELETE', path)


def remove_interface(conn: Connection, port: Mapping[str, Any]) -> None:
    """Remove the interface of a router, and its routes through the interface; the router stays.

    A trunk with this parent port is deleted; a subport is removed from its trunk. The owner of a
    network may set a ``device_id`` that is no router.
    """
    if not uuidutils.is_uuid_like(port['device_id']):
        return
    path = f'/routers/{port["device_id"]}'

    def remove() -> None:
        NEUTRON.request(conn, 'PUT', f'{path}/remove_router_interface', {'port_id': port['id']})

    with contextlib.suppress(errors.Gone):
        try:
            remove()
        except errors.Busy:
            # Neutron checks for routes first, and for a trunk when it deletes the port.
            _remove_routes(conn, path, port)
            try:
                remove()
            except errors.Busy as exc:
                _remove_from_trunk(conn, port['id'], str(exc))
                remove()


def _remove_routes(conn: Connection, path: str, port: Mapping[str, Any]) -> None:
    """Remove the extra routes of a router into the subnets of a port."""
    ids = [address['subnet_id'] for address in port['fixed_ips']]
    subnets = NEUTRON.pages(conn, '/subnets', 'subnets', {'id': ids})
    ranges = [ipaddress.ip_network(subnet['cidr']) for subnet in subnets]
    routes = [
        route
        for route in NEUTRON.read(conn, path, 'router').get('routes', ())
        if any(ipaddress.ip_address(route['nexthop']) in cidr for cidr in ranges)
    ]
    if routes:
        body = {'router': {'routes': routes}}
        NEUTRON.request(conn, 'PUT', f'{path}/remove_extraroutes', body)


def delete_network(conn: Connection, network_id: str) -> None:
    """Delete an unused network with its subnets and its ports for DHCP.

    (neutron/db/db_base_plugin_v2.py:584)
    """
    with contextlib.suppress(errors.Gone):
        NEUTRON.request(conn, 'DELETE', f'/networks/{network_id}')
