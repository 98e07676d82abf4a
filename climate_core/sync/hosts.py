# SPDX-License-Identifier: Apache-2.0
"""Learn what Nova and Placement know of hosts, with the service's own rights."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from climate_core.cloud import hypervisors, placement
from climate_core.lease import hosts

if TYPE_CHECKING:
    from openstack import connection


def learn(
    conn: 'connection.Connection',
    nodes: Iterable[Mapping[str, Any]],
    provider_id: str | None = None,
) -> dict[str, hosts.Known]:
    """Return what is known of hosts with lanes, by the id of the root provider.

    Three calls, however many hosts there are.

    :param nodes: hypervisors as Nova lists them
    :param provider_id: only of this one; None: of all hosts of the pools
    """
    services = hypervisors.list_services(conn)
    aggregates = hypervisors.list_aggregates(conn)
    rooms = placement.find_rooms(conn, provider_id)
    return {
        node['id']: hosts.describe(
            node,
            services.get(node['service']['host'], {}),
            aggregates.get(node['service']['host'], ()),
            rooms[node['id']].capacity,
            rooms[node['id']].traits,
        )
        for node in nodes
        if node['id'] in rooms
    }
