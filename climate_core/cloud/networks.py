# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that tell whether a user has what a server is to be connected to.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Networking API v2.0.
"""

from typing import TYPE_CHECKING

from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from climate_core.cloud import connection


def check_network(conn: 'connection.Connection', network_id: str) -> None:
    """Raise Gone if there is no such network that these rights see."""
    NEUTRON.ask(conn, 'GET', f'/networks/{network_id}')


def check_port(conn: 'connection.Connection', port_id: str) -> None:
    """Raise Gone if there is no such port that these rights see."""
    NEUTRON.ask(conn, 'GET', f'/ports/{port_id}')
