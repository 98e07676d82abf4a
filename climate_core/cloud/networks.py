# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that tell whether a user has what a server is to be connected to.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Networking API v2.0.
"""

from typing import TYPE_CHECKING

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.neutron import NEUTRON
from climate_core.cloud.services import check_own

if TYPE_CHECKING:
    from climate_core.cloud import connection


def check_network(conn: 'connection.Connection', network_id: str) -> None:
    """Raise Gone if the project of these rights may use no such network."""
    found = NEUTRON.read(conn, f'/networks/{network_id}', 'network')
    if not (found.get('shared') or found.get('router:external')):
        check_own(conn, found.get('project_id'), f'network {network_id}')


def check_port(conn: 'connection.Connection', port_id: str) -> None:
    """Raise Gone if the project of these rights has no such port."""
    found = NEUTRON.read(conn, f'/ports/{port_id}', 'port')
    check_own(conn, found.get('project_id'), f'port {port_id}')


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
