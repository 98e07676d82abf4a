# SPDX-License-Identifier: Apache-2.0
"""Tear a network of a lease down, with all that others have put into it.

Ports that anybody has there go first, which drops what floating IPs and port forwardings have of
them; a router can give a subnet up only then. What Neutron refuses keeps nothing else from being
done: it is told, and tried again.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from climate_core.cloud import network_parts
from climate_core.plugins import made_in_neutron

if TYPE_CHECKING:
    from openstack import connection


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
    network_parts.delete_network(conn, network_id)
