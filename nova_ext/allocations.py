# SPDX-License-Identifier: Apache-2.0
"""Keep the allocations of a reserved server in Placement on one compute node.

A wake_up that looks for another host allocates there too, as nova's evacuation does. If its
message is lost, the second allocation stays until the next wake_up or start removes it here.
"""

from collections.abc import Iterable
from typing import Any

from nova import exception, objects


def compute_node_uuid(context: Any, host: str | None, nodename: str | None) -> str | None:
    """Return the uuid of a compute node, which is also that of its resource provider.

    :returns: None if there is no such compute node
    """
    if not host:
        return None
    try:
        return objects.ComputeNode.get_by_host_and_nodename(context, host, nodename).uuid
    except exception.ComputeHostNotFound:
        return None


def other_nodes(context: Any, providers: Iterable[str], keep: str | None) -> list[str]:
    """Return the uuids of the compute nodes among resource providers, without one.

    :param keep: uuid of the compute node that is left out
    """
    others = [uuid for uuid in providers if uuid != keep]
    if not others:
        return []
    return [node.uuid for node in objects.ComputeNodeList.get_all_by_uuids(context, others)]


def release(context: Any, client: Any, instance: Any, nodes: Iterable[str]) -> None:
    """Remove what a server has allocated on compute nodes.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param nodes: uuids of the compute nodes
    :raises nova.exception.NovaException: Placement refuses
    :raises keystoneauth1.exceptions.ClientException: Placement cannot be asked
    """
    for node in nodes:
        client.remove_provider_tree_from_instance_allocation(context, instance.uuid, node)
