# SPDX-License-Identifier: Apache-2.0
"""Finds another host for a reserved server whose host is gone."""

import dataclasses
import logging
from typing import Any

from nova import availability_zones as zones
from nova import exception, objects
from nova.scheduler import utils as scheduler_utils
from nova.scheduler.client import query, report

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where a server is started.

    :param host: name of the nova-compute
    :param node: its hypervisor node
    :param limits: of the claim that has to be made; None where the claim is held
    """

    host: str
    node: str
    limits: Any = None


def move(context: Any, instance: Any, spec: Any) -> Target:
    """Let nova-scheduler choose a host in the cell of the server, and let go of the lost one.

    As in an evacuation, the new allocation is made before the old one goes: when there is no
    host, nothing has changed.

    :param spec: the RequestSpec, with the resource requests of the ports
    :raises nova.exception.NoValidHost: no host can take it
    """
    if instance.flavor.extra_specs.get('accel:device_profile'):
        raise exception.NoValidHost(
            reason='the accelerators of this server are bound to its lost host'
        )
    client = report.report_client_singleton()
    if not instance.host:
        client.delete_allocation_for_instance(context, instance.uuid, force=True)
    selection = _select(context, instance, spec)
    scheduler_utils.fill_provider_mapping(spec, selection)
    lost = _provider(context, instance)
    _leave(context, instance, spec, selection)
    if lost:
        client.remove_provider_tree_from_instance_allocation(context, instance.uuid, lost)
    return Target(selection.service_host, selection.nodename, selection.limits)


def _select(context: Any, instance: Any, spec: Any) -> Any:
    """Ask as nova-conductor does for an unshelve."""
    spec.reset_forced_destinations()
    spec.generate_request_groups_from_pci_requests()
    spec.requested_destination = objects.Destination(cell=_cell(context, instance))
    spec.ensure_project_and_user_id(instance)
    spec.ensure_network_information(instance)
    scheduler_utils.setup_instance_group(context, spec)
    selections = query.SchedulerQueryClient().select_destinations(
        context, spec, [instance.uuid], return_objects=True, return_alternates=False
    )
    return selections[0][0]


def _cell(context: Any, instance: Any) -> Any:
    return objects.InstanceMapping.get_by_instance_uuid(context, instance.uuid).cell_mapping


def _provider(context: Any, instance: Any) -> str | None:
    """Give the resource provider of the lost host: its ComputeNode's uuid."""
    if not instance.host:
        return None
    try:
        node = objects.ComputeNode.get_by_host_and_nodename(context, instance.host, instance.node)
    except exception.ComputeHostNotFound:
        return None
    return node.uuid


def _leave(context: Any, instance: Any, spec: Any, selection: Any) -> None:
    """Take the server off the lost host; pinned CPUs were that host's."""
    LOG.warning(
        'Host %s of reserved server %s is gone; it goes to %s',
        instance.host,
        instance.uuid,
        selection.service_host,
    )
    instance.host = instance.node = instance.compute_id = instance.launched_on = None
    instance.availability_zone = zones.get_host_availability_zone(context, selection.service_host)
    if instance.numa_topology:
        instance.numa_topology = spec.numa_topology
    instance.save()
