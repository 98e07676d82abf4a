# SPDX-License-Identifier: Apache-2.0
"""The few calls to Neutron that floating IPs of leases need.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors, neutron
from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: So many addresses are in one URL: all are read by a web server that takes 8 KiB.
_ADDRESSES: Final = 100


def find(
    conn: 'connections.Connection', network_id: str, addresses: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return the floating IPs that have these addresses of a network, by the addresses."""
    found: dict[str, dict[str, Any]] = {}
    for part in _parts(addresses):
        query = {'floating_network_id': network_id, 'floating_ip_address': part}
        listed = NEUTRON.pages(conn, '/floatingips', 'floatingips', query)
        found |= {each['floating_ip_address']: each for each in listed}
    return found


def get(conn: 'connections.Connection', floating_ip_id: str) -> dict[str, Any]:
    """Return a floating IP; Gone if there is none that these rights see."""
    found: dict[str, Any] = NEUTRON.read(conn, f'/floatingips/{floating_ip_id}', 'floatingip')
    return found


def read_project(floating_ip: Mapping[str, Any]) -> str:
    """Return the project of a floating IP."""
    return str(floating_ip['project_id'])


def list_ids(conn: 'connections.Connection') -> Iterator[str]:
    """Yield the ids of all floating IPs, one call for each page."""
    pages = NEUTRON.pages(conn, '/floatingips', 'floatingips', {'fields': 'id'})
    return (each['id'] for each in pages)


def check_all_visible(conn: 'connections.Connection') -> None:
    """Raise Refused if these rights do not see the floating IPs of every project."""
    neutron.check_all_visible(conn, 'floating IPs')


def delete(conn: 'connections.Connection', floating_ip_id: str) -> None:
    """Delete a floating IP, also while it is associated; one that is gone is fine.

    Port forwardings keep it from that, so they go first
    (neutron/services/portforwarding/pf_plugin.py:181).
    """
    path = f'/floatingips/{floating_ip_id}'
    with contextlib.suppress(errors.Gone):
        try:
            NEUTRON.request(conn, 'DELETE', path)
        except errors.Busy:
            forwardings = f'{path}/port_forwardings'
            for each in [*NEUTRON.pages(conn, forwardings, 'port_forwardings', {})]:
                with contextlib.suppress(errors.Gone):
                    NEUTRON.request(conn, 'DELETE', f'{forwardings}/{each["id"]}')
            NEUTRON.request(conn, 'DELETE', path)


def get_network(conn: 'connections.Connection', network_id: str) -> dict[str, Any]:
    """Return a network; Gone if there is none."""
    found: dict[str, Any] = NEUTRON.read(conn, f'/networks/{network_id}', 'network')
    return found


def list_subnets(conn: 'connections.Connection', network_id: str) -> list[dict[str, Any]]:
    """Return the subnets of a network that have IPv4 addresses."""
    query = {'network_id': network_id, 'ip_version': 4}
    return list(NEUTRON.pages(conn, '/subnets', 'subnets', query))


def used_addresses(
    conn: 'connections.Connection', network_id: str, addresses: Collection[str]
) -> dict[str, str]:
    """Return which of these addresses of a network ports have, and what each of those is for.

    A floating IP has a port on its network, too.
    """
    found: dict[str, str] = {}
    for part in _parts(addresses):
        fixed = [f'ip_address={each}' for each in part]
        query = {'network_id': network_id, 'fixed_ips': fixed}
        for port in NEUTRON.pages(conn, '/ports', 'ports', query):
            owner = port['device_owner'] or f'port {port["id"]}'
            found |= {each['ip_address']: owner for each in port['fixed_ips']}
    return {address: owner for address, owner in found.items() if address in addresses}


def _parts(addresses: Collection[str]) -> Iterator[list[str]]:
    listed = sorted(addresses)
    for first in range(0, len(listed), _ADDRESSES):
        yield listed[first : first + _ADDRESSES]
