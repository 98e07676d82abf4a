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

from climate_core.cloud import errors, neutron
from climate_networks.plugins import made_in_neutron

if TYPE_CHECKING:
    from climate_core.cloud import connections


def tear_down(conn: 'connections.Connection', network_id: str) -> None:
    """Delete a network with its ports and router interfaces; one that is gone is fine.

    :raises climate_core.exceptions.Transient: Neutron refuses a part; the rest is done
    """
    ports = neutron.list_ports(conn, network_id)
    used = [
        each for each in ports if not each['device_owner'].startswith(neutron.NETWORK_PORT_PREFIX)
    ]
    interfaces = [each for each in ports if each['device_owner'] in neutron.ROUTER_INTERFACES]
    steps: list[Callable[[], None]] = [
        *(functools.partial(neutron.delete_port, conn, each) for each in used),
        *(functools.partial(neutron.remove_interface, conn, each) for each in interfaces),
    ]
    made_in_neutron.delete_all(lambda step: step(), steps)
    try:
        neutron.delete_network(conn, network_id)
    except errors.Busy:
        _delete_rest(conn, network_id)
        neutron.delete_network(conn, network_id)


def _delete_rest(conn: 'connections.Connection', network_id: str) -> None:
    """Delete the ports that are left in a network whose routers have given it up."""
    left = neutron.list_ports(conn, network_id)
    made_in_neutron.delete_all(
        lambda port: neutron.force_delete_port(conn, port),
        [each for each in left if each['device_owner'] not in neutron.DELETED_WITH_NETWORK],
    )
