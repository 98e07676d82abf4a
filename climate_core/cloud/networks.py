# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that tell whether a user has what a server is to be connected to.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Networking API v2.0.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from climate_core import exceptions
from climate_core.cloud import errors, network_parts
from climate_core.cloud.neutron import NEUTRON
from climate_core.cloud.services import check_own

if TYPE_CHECKING:
    from climate_core.cloud import connection


def check_network(
    conn: 'connection.Connection', network_id: str, allows_external: bool = False
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
        check_own(conn, found.get('project_id'), f'network {network_id}')


def _check_external(network: Mapping[str, Any], allows_external: bool) -> None:
    if not (network.get('shared') or allows_external):
        raise exceptions.Permanent(
            f'Network {network["id"]} is external and not shared with this project, so Nova '
            'attaches no servers to it: use another network and a floating IP.'
        )


def check_unambiguous(conn: 'connection.Connection') -> None:
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


def check_port(conn: 'connection.Connection', port_id: str, allows_external: bool = False) -> None:
    """Check that a server of the project of these rights may have a port; see `check_network`.

    A port that is in use may be free later, but not one of a router, of DHCP and the like.
    """
    found = NEUTRON.read(conn, f'/ports/{port_id}', 'port')
    check_own(conn, found.get('project_id'), f'port {port_id}')
    owner = str(found.get('device_owner') or '')
    if owner.startswith(network_parts.OWN):
        raise exceptions.Permanent(
            f'Port {port_id} belongs to {owner}: use a port that a server may have.'
        )
    with contextlib.suppress(errors.Gone):
        # Nova does not miss a network that the user does not see.
        network = NEUTRON.read(conn, f'/networks/{found["network_id"]}', 'network')
        if network.get('router:external'):
            _check_external(network, allows_external)


def check_free(conn: 'connection.Connection', port_id: str) -> None:
    """Raise Permanent if a port is in use now."""
    device_id = NEUTRON.read(conn, f'/ports/{port_id}', 'port').get('device_id')
    if device_id:
        raise exceptions.Permanent(
            f'Port {port_id} is in use by {device_id}: use a port that is free.'
        )


def check_security_group(conn: 'connection.Connection', wanted: str) -> None:
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
