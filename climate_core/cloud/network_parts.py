# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that delete a network with all that keeps it from being deleted.

Neutron refuses that first, and what is in the way is looked for only then. What is gone is fine.
Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_utils import uuidutils

from climate_core.cloud import errors, neutron
from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from climate_core.cloud import connection

#: What the owners of ports begin with that are parts of networks; the others are in use by
#: servers and the like.
OWN: Final = 'network:'
#: The ports by which routers have a subnet (neutron_lib/constants.py: ROUTER_INTERFACE_OWNERS).
INTERFACES: Final = frozenset(
    {
        'network:router_interface',
        'network:router_interface_distributed',
        'network:ha_router_replicated_interface',
    }
)
#: The ports that Neutron deletes with their network (neutron/common/_constants.py:85).
GO_ALONG: Final = frozenset(
    {'network:dhcp', 'network:distributed', 'network:floatingip_agent_gateway'}
)

_UUID: Final = re.compile(r'\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b')


def list_ports(conn: 'connection.Connection', network_id: str) -> list[dict[str, Any]]:
    """Return the ports of a network, those of other projects, too."""
    return list(NEUTRON.pages(conn, '/ports', 'ports', {'network_id': network_id}))


def delete_port(conn: 'connection.Connection', port: Mapping[str, Any]) -> None:
    """Delete a port; floating IPs and port forwardings lose it, and trunks."""
    path = f'/ports/{port["id"]}'
    with contextlib.suppress(errors.Gone):
        try:
            NEUTRON.ask(conn, 'DELETE', path)
        except errors.Busy as exc:
            _take_out_of_trunk(conn, port['id'], str(exc))
            NEUTRON.ask(conn, 'DELETE', path)


def force_delete_port(conn: 'connection.Connection', port: Mapping[str, Any]) -> None:
    """Delete a port, also if it says that it is of a router which does not have it.

    (neutron/db/l3_db.py:prevent_l3_port_deletion)
    """
    with contextlib.suppress(errors.Gone):
        if port['device_owner'].startswith(OWN):
            neutron.update(conn, 'port', port['id'], {'device_owner': '', 'device_id': ''})
        delete_port(conn, port)


def _take_out_of_trunk(conn: 'connection.Connection', port_id: str, refused: str) -> None:
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
                NEUTRON.ask(conn, 'PUT', f'{path}/remove_subports', body)


def _delete_trunk(conn: 'connection.Connection', path: str, port_id: str) -> None:
    try:
        NEUTRON.ask(conn, 'DELETE', path)
    except errors.Busy:
        # A trunk stays while its parent is bound to a host.
        neutron.update(conn, 'port', port_id, {'binding:host_id': ''})
        NEUTRON.ask(conn, 'DELETE', path)


def remove_interface(conn: 'connection.Connection', port: Mapping[str, Any]) -> None:
    """Remove the interface of a router, and its routes that lead through it; the router stays.

    A trunk whose parent port it is goes, too; as a subport it leaves its trunk.
    The owner of a network may let a port say that it is of something that is no router.
    """
    if not uuidutils.is_uuid_like(port['device_id']):
        return
    path = f'/routers/{port["device_id"]}'

    def remove() -> None:
        NEUTRON.ask(conn, 'PUT', f'{path}/remove_router_interface', {'port_id': port['id']})

    # Neutron looks for routes first, and for a trunk when it deletes the port.
    ways: tuple[Callable[[str], None], ...] = (
        lambda _: _remove_routes(conn, path, port),
        lambda refused: _take_out_of_trunk(conn, port['id'], refused),
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


def _remove_routes(conn: 'connection.Connection', path: str, port: Mapping[str, Any]) -> None:
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
        NEUTRON.ask(conn, 'PUT', f'{path}/remove_extraroutes', body)


def delete_network(conn: 'connection.Connection', network_id: str) -> None:
    """Delete a network that nothing uses; its subnets and its ports for DHCP go with it.

    (neutron/db/db_base_plugin_v2.py:584)
    """
    with contextlib.suppress(errors.Gone):
        NEUTRON.ask(conn, 'DELETE', f'/networks/{network_id}')
