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
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.cloud import errors, services
from climate_core.cloud.services import check_project

if TYPE_CHECKING:
    import requests
    from keystoneauth1.identity import BaseIdentityPlugin

    from climate_core.cloud import connections

NEUTRON: Final = services.Service('Neutron', 'network', '2')


class QuotaFull(errors.Busy):
    """The project has as many of them as its quota in Neutron allows."""


class Taken(errors.Busy):
    """The address, or the segment, is in use in Neutron."""


#: So many ids are in one URL: all are read by a web server that takes 8 KiB.
_IDS_PER_REQUEST: Final = 100
#: What Neutron calls what it refuses with 409.
_CONFLICTS: Final[dict[str, type[Exception]]] = {
    'OverQuota': QuotaFull,
    'IpAddressAlreadyAllocated': Taken,
    'VlanIdInUse': Taken,
    'TunnelIdInUse': Taken,
}


def create(conn: 'connections.Connection', noun: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Create something in a project.

    :param noun: ``floatingip`` or ``network``
    :param values: with a description; tags come later
    :raises QuotaFull: the project may have no more
    :raises Taken: something has the address or the segment
    """
    response = NEUTRON.send(conn, 'POST', f'/{noun}s', {noun: values})
    if response.status_code == 409:
        errors.check_response(response, NEUTRON.name, _CONFLICTS.get(_error_type(response)))
    made: dict[str, Any] = errors.read_response(response, NEUTRON.name, noun)
    return made


def _error_type(response: 'requests.Response') -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(response.json()['NeutronError']['type'])
    return ''


def update(conn: 'connections.Connection', noun: str, one: str, values: Mapping[str, Any]) -> None:
    """Change something by its id."""
    NEUTRON.request(conn, 'PUT', f'/{noun}s/{one}', {noun: values})


def set_tags(conn: 'connections.Connection', noun: str, one: str, tags: Collection[str]) -> None:
    """Set the tags of something by its id; it takes none when it is created."""
    NEUTRON.request(conn, 'PUT', f'/{noun}s/{one}/tags', {'tags': sorted(tags)})


def list_tagged(conn: 'connections.Connection', noun: str) -> Iterator[dict[str, Any]]:
    """Yield the marks of all that there are, one call for each page.

    There are none where the cloud has no Neutron, or one without them.
    """
    query = {'fields': ['id', 'description', 'tags']}
    with contextlib.suppress(errors.Gone):
        if NEUTRON.is_offered(conn):
            yield from NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)


def find_existing(conn: 'connections.Connection', noun: str, ids: Collection[str]) -> set[str]:
    """Return those of some ids that are there, one call for a hundred of them."""
    listed, found = sorted({*ids}), set()
    for first in range(0, len(listed), _IDS_PER_REQUEST):
        query = {'id': listed[first : first + _IDS_PER_REQUEST], 'fields': 'id'}
        found |= {each['id'] for each in NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)}
    return found


def read_changed_at(
    conn: 'connections.Connection', noun: str, one: str
) -> datetime.datetime | None:
    """Return when something changed last; None if it is gone, or does not say."""
    try:
        stamp = NEUTRON.read(conn, f'/{noun}s/{one}', noun).get('updated_at')
    except errors.Gone:
        return None
    return datetime.datetime.fromisoformat(stamp) if stamp else None


def check_all_visible(conn: 'connections.Connection', plural: str) -> None:
    """Raise Refused if these rights do not see what every project has.

    A listing does not tell: Neutron gives those of one project to users who may not see all. It
    has nothing else that a service may ask for either, so the roles are looked at.

    :param plural: what is looked for, for people
    """
    with errors.translated('Keystone'):
        access = cast('BaseIdentityPlugin', conn.session.auth).get_access(conn.session)
    roles: list[str] = access.role_names  # type: ignore[assignment]
    if not {'admin', 'service'} & {*roles}:
        raise errors.Refused(f'Climate does not see the {plural} of every project.')


def check_network(
    conn: 'connections.Connection', network_id: str, allows_external: bool = False
) -> None:
    """Check that servers of the project of these rights may be on a network.

    :param allows_external: Nova lets the users of a project attach servers to external networks
    :raises climate_core.cloud.errors.Gone: the project may use no such network
    :raises climate_core.exceptions.Permanent: it is external and not shared with the project
    """
    found = NEUTRON.read(conn, f'/networks/{network_id}', 'network')
    if found.get('router:external'):
        _check_external(found, allows_external)
    elif not found.get('shared'):
        check_project(conn, found.get('project_id'), f'network {network_id}')


def _check_external(network: Mapping[str, Any], allows_external: bool) -> None:
    if not (network.get('shared') or allows_external):
        raise exceptions.Permanent(
            f'Network {network["id"]} is external and not shared with this project, so Nova '
            'attaches no servers to it: use another network and a floating IP.'
        )


def check_default_network(conn: 'connections.Connection') -> None:
    """Raise Permanent if Nova cannot choose the network of a server.

    Nova counts as here (nova/network/neutron.py ``_get_available_networks``).
    """
    own = {'project_id': conn.current_project_id or '', 'shared': False}
    found = {
        network['id']
        for query in (own, {'shared': True})
        for network in NEUTRON.read(
            conn, '/networks', 'networks', {**query, 'fields': 'id', 'limit': 2}
        )
    }
    if len(found) > 1:
        raise exceptions.Permanent(
            'networks: must list the uuid of a network: this project has more than one network.'
        )


def check_port(
    conn: 'connections.Connection', port_id: str, allows_external: bool = False
) -> None:
    """Check that a server of the project of these rights may have a port; see `check_network`.

    A port that is in use may be free later, but not one of a router, of DHCP and the like.
    """
    found = NEUTRON.read(conn, f'/ports/{port_id}', 'port')
    check_project(conn, found.get('project_id'), f'port {port_id}')
    owner = str(found.get('device_owner') or '')
    if owner.startswith(NETWORK_PORT_PREFIX):
        raise exceptions.Permanent(
            f'Port {port_id} belongs to {owner}: use a port that a server may have.'
        )
    with contextlib.suppress(errors.Gone):
        # Nova does not miss a network that the user does not see.
        network = NEUTRON.read(conn, f'/networks/{found["network_id"]}', 'network')
        if network.get('router:external'):
            _check_external(network, allows_external)


def check_port_unused(conn: 'connections.Connection', port_id: str) -> None:
    """Raise Permanent if a port is in use now."""
    device_id = NEUTRON.read(conn, f'/ports/{port_id}', 'port').get('device_id')
    if device_id:
        raise exceptions.Permanent(
            f'Port {port_id} is in use by {device_id}: use a port that is free.'
        )


def check_security_group(conn: 'connections.Connection', wanted: str) -> None:
    """Check that the project of these rights has one security group of this name or id.

    :raises climate_core.cloud.errors.Gone: it has none
    :raises climate_core.exceptions.Permanent: it has several of this name, which Nova rejects
    """
    found = 0
    for key in ('name', 'id'):
        query = {key: wanted, 'project_id': conn.current_project_id or ''}
        listed = NEUTRON.read(conn, '/security-groups', 'security_groups', query)
        if len(listed) == 1:
            return
        found += len(listed)
    if found:
        raise exceptions.Permanent(
            f'This project has {found} security groups {wanted}: give the id of one.'
        )
    raise errors.Gone(f'There is no security group {wanted} in this project.')


#: What the owners of ports begin with that are parts of networks; the others are in use by
#: servers and the like.
NETWORK_PORT_PREFIX: Final = 'network:'
#: The ports by which routers have a subnet (neutron_lib/constants.py: ROUTER_INTERFACE_OWNERS).
ROUTER_INTERFACES: Final = frozenset(
    {
        'network:router_interface',
        'network:router_interface_distributed',
        'network:ha_router_replicated_interface',
    }
)
#: The ports that Neutron deletes with their network (neutron/common/_constants.py:85).
DELETED_WITH_NETWORK: Final = frozenset(
    {'network:dhcp', 'network:distributed', 'network:floatingip_agent_gateway'}
)

_UUID: Final = re.compile(r'\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b')


def list_ports(conn: 'connections.Connection', network_id: str) -> list[dict[str, Any]]:
    """Return the ports of a network, those of other projects, too."""
    return list(NEUTRON.pages(conn, '/ports', 'ports', {'network_id': network_id}))


def delete_port(conn: 'connections.Connection', port: Mapping[str, Any]) -> None:
    """Delete a port; floating IPs and port forwardings lose it, and trunks."""
    path = f'/ports/{port["id"]}'
    with contextlib.suppress(errors.Gone):
        try:
            NEUTRON.request(conn, 'DELETE', path)
        except errors.Busy as exc:
            _remove_from_trunk(conn, port['id'], str(exc))
            NEUTRON.request(conn, 'DELETE', path)


def force_delete_port(conn: 'connections.Connection', port: Mapping[str, Any]) -> None:
    """Delete a port, also if it says that it is of a router which does not have it.

    (neutron/db/l3_db.py:prevent_l3_port_deletion)
    """
    with contextlib.suppress(errors.Gone):
        if port['device_owner'].startswith(NETWORK_PORT_PREFIX):
            update(conn, 'port', port['id'], {'device_owner': '', 'device_id': ''})
        delete_port(conn, port)


def _remove_from_trunk(conn: 'connections.Connection', port_id: str, refused: str) -> None:
    """Delete the trunk of which a port is the parent, or take its subport out of its trunk.

    (neutron/services/trunk/rules.py:enforce_port_deletion_rules)

    :param refused: why Neutron does not delete the port, which names the trunk
        (neutron/services/trunk/exceptions.py: PortInUseAsSubPort, PortInUseAsTrunkParent)
    """
    # A port does not tell reliably which trunk it is a subport of, and trunks cannot be listed by
    # their subports: where the trunk is not named, all are looked through.
    named = sorted({*_UUID.findall(refused)} - {port_id})
    query = {'id': named} if named else {}
    with contextlib.suppress(errors.Gone):
        for trunk in [*NEUTRON.pages(conn, '/trunks', 'trunks', query)]:
            path = f'/trunks/{trunk["id"]}'
            if trunk['port_id'] == port_id:
                _delete_trunk(conn, path, port_id)
            elif any(each['port_id'] == port_id for each in trunk['sub_ports']):
                body = {'sub_ports': [{'port_id': port_id}]}
                NEUTRON.request(conn, 'PUT', f'{path}/remove_subports', body)


def _delete_trunk(conn: 'connections.Connection', path: str, port_id: str) -> None:
    try:
        NEUTRON.request(conn, 'DELETE', path)
    except errors.Busy:
        # A trunk stays while its parent is bound to a host.
        update(conn, 'port', port_id, {'binding:host_id': ''})
        NEUTRON.request(conn, 'DELETE', path)


def remove_interface(conn: 'connections.Connection', port: Mapping[str, Any]) -> None:
    """Remove the interface of a router, and its routes that lead through it; the router stays.

    A trunk whose parent port it is goes, too; as a subport it leaves its trunk.
    The owner of a network may let a port say that it is of something that is no router.
    """
    if not uuidutils.is_uuid_like(port['device_id']):
        return
    path = f'/routers/{port["device_id"]}'

    def remove() -> None:
        NEUTRON.request(conn, 'PUT', f'{path}/remove_router_interface', {'port_id': port['id']})

    # Neutron looks for routes first, and for a trunk when it deletes the port.
    ways: tuple[Callable[[str], None], ...] = (
        lambda _: _remove_routes(conn, path, port),
        lambda refused: _remove_from_trunk(conn, port['id'], refused),
    )
    with contextlib.suppress(errors.Gone):
        for make_way in ways:
            try:
                remove()
            except errors.Busy as exc:
                make_way(str(exc))
            else:
                return
        remove()


def _remove_routes(conn: 'connections.Connection', path: str, port: Mapping[str, Any]) -> None:
    """Remove the extra routes of a router that lead into the subnets of a port."""
    ids = [each['subnet_id'] for each in port['fixed_ips']]
    subnets = NEUTRON.pages(conn, '/subnets', 'subnets', {'id': ids})
    inside = [ipaddress.ip_network(each['cidr']) for each in subnets]
    routes = [
        route
        for route in NEUTRON.read(conn, path, 'router').get('routes', ())
        if any(ipaddress.ip_address(route['nexthop']) in each for each in inside)
    ]
    if routes:
        body = {'router': {'routes': routes}}
        NEUTRON.request(conn, 'PUT', f'{path}/remove_extraroutes', body)


def delete_network(conn: 'connections.Connection', network_id: str) -> None:
    """Delete a network that nothing uses; its subnets and its ports for DHCP go with it.

    (neutron/db/db_base_plugin_v2.py:584)
    """
    with contextlib.suppress(errors.Gone):
        NEUTRON.request(conn, 'DELETE', f'/networks/{network_id}')
