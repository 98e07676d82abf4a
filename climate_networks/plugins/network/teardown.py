# SPDX-License-Identifier: Apache-2.0
"""Tear a network of a lease down, with all that others have put into it.

Ports that anybody has there go first, which drops what floating IPs and port forwardings have of
them; a router can give a subnet up only then. What Neutron refuses keeps nothing else from being
done: it is told, and tried again.

The owner of a network may create ports in it that say they are of a router or of another part of
the network, and are not. They are found when the network cannot be deleted, and go then.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from climate_core.cloud import errors, network_parts
from climate_networks.plugins import made_in_neutron

if TYPE_CHECKING:
    from climate_core.cloud import connection


def tear_down(conn: 'connection.Connection', network_id: str) -> None:
    """Delete a network with its ports and router interfaces; one that is gone is fine.

    :raises climate_core.exceptions.Transient: Neutron refuses a part; the rest is done
    """
    ports = network_parts.list_ports(conn, network_id)
    used = [each for each in ports if not each['device_owner'].startswith(network_parts.OWN)]
    interfaces = [each for each in ports if each['device_owner'] in network_parts.INTERFACES]
    steps: list[Callable[[], None]] = [
        *(functools.partial(network_parts.delete_port, conn, each) for each in used),
        *(functools.partial(network_parts.remove_interface, conn, each) for each in interfaces),
    ]
    made_in_neutron.delete_all(lambda step: step(), steps)
    try:
        network_parts.delete_network(conn, network_id)
    except errors.Busy:
        _delete_rest(conn, network_id)
        network_parts.delete_network(conn, network_id)


def _delete_rest(conn: 'connection.Connection', network_id: str) -> None:
    """Delete the ports that are left in a network whose routers have given it up."""
    left = network_parts.list_ports(conn, network_id)
    made_in_neutron.delete_all(
        lambda port: network_parts.force_delete_port(conn, port),
        [each for each in left if each['device_owner'] not in network_parts.GO_ALONG],
    )
