# SPDX-License-Identifier: Apache-2.0
"""Find another host for a reserved server whose host is down."""

import dataclasses
import logging
from typing import Any

from nova import availability_zones as zones
from nova import exception, objects
from nova.scheduler import utils as scheduler_utils
from nova.scheduler.client import query

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A host on which a server is started.

    :param host: name of the nova-compute
    :param node: its hypervisor node
    :param limits: of the claim that has to be made; None where the claim is held
    """

    host: str
    node: str
    limits: Any = None


def select_target(context: Any, instance: Any, spec: Any) -> Target:
    """Let nova-scheduler choose a host in the cell of the server.

    As in an evacuation, the server has both allocations until the new host has claimed it; then
    nova-compute there removes the old one (nova_ext.compute.tracker). Until then, and if there is
    no host, ``instance.host`` stays as it is.

    :param spec: the RequestSpec, with the resource requests of the ports
    :raises nova.exception.NoValidHost: no host can take it
    """
    if instance.flavor.extra_specs.get('accel:device_profile'):
        raise exception.NoValidHost(
            reason='the accelerators of this server are bound to its lost host'
        )
    selection = _select(context, instance, spec)
    scheduler_utils.fill_provider_mapping(spec, selection)
    LOG.warning(
        'Host %s of reserved server %s is down; it goes to %s',
        instance.host,
        instance.uuid,
        selection.service_host,
    )
    instance.availability_zone = zones.get_host_availability_zone(context, selection.service_host)
    return Target(selection.service_host, selection.nodename, selection.limits)


def _select(context: Any, instance: Any, spec: Any) -> Any:
    """Ask nova-scheduler as nova-conductor does for an unshelve."""
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
