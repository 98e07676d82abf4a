# SPDX-License-Identifier: Apache-2.0
"""Send a reserved server to the nova-compute that starts it.

The message is nova's own build_and_run_instance, as nova-conductor sends it: no RPC is added.
Conductor's build_instances is not used: on a first attempt it looks for a BuildRequest, finds
none, and destroys the mapping of the server (nova/conductor/manager.py, build_instances).

This happens in nova-api because the RequestSpec is in the API database, which the services of a
cell may not reach.

A request that repeats a wake_up whose message seems lost keeps the marker while the host is the
same: its message and the lost one are then worth the same, and a message that only waits in a
long queue does not lose its place. For another host the marker is new, so that the message to
the old one is ignored.
"""

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import nova.conf
from nova import exception, objects, servicegroup
from nova.compute import task_states
from nova.objects import base
from nova.scheduler import utils as scheduler_utils
from nova.scheduler.client import report
from oslo_utils import timeutils

from nova_ext import allocations, conf, saved_build_args, states, volumes, wake_marker
from nova_ext.api import reschedule

LOG = logging.getLogger(__name__)

ACTION = 'wake_up'


def start(compute_api: Any, context: Any, instance: Any) -> None:
    """Start a reserved server; return when the message is sent.

    :param compute_api: nova.compute.api.API
    :param instance: a reserved server; it is saved
    :raises nova.exception.NoValidHost: its host is gone and there is no other; the server is as
        it was
    :raises nova.exception.InstanceInvalidState: another request was faster, or a nova-compute
        has begun
    :raises nova_ext.saved_build_args.SavedArgsUnreadable: no key of nova-api opens what was saved
        for the build; the server is as it was
    :raises Exception: what nova, its clients and its message bus raise; the server is as it was
    """
    saved = saved_build_args.load(
        instance.system_metadata, nova.conf.CONF[conf.GROUP].stash_keys, instance.uuid
    )
    spec = objects.RequestSpec.get_by_instance_uuid(context, instance.uuid)
    bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(context, instance.uuid)
    objects.InstanceAction.action_start(context, instance.uuid, ACTION, want_result=False)
    host_is_up = _host_is_up(context, instance)
    repeated = wake_marker.get(instance) is not None
    lost_targets = _lost_targets(context, instance) if repeated or not host_is_up else []
    _mark(context, instance, new=not repeated or not host_is_up or bool(lost_targets))
    with contextlib.ExitStack() as undo:
        undo.callback(_unmark, instance)
        groups, params = compute_api.network_api.get_requested_resource_for_instance(
            context, instance.uuid
        )
        spec.requested_resources, spec.request_level_params = groups, params
        volumes.hold(context, compute_api.volume_api, instance, bdms)
        allocations.release(context, report.report_client_singleton(), instance, lost_targets)
        if host_is_up:
            _map_to_allocation(context, spec)
            target = reschedule.Target(instance.host, instance.node)
        else:
            target = reschedule.select_target(context, instance, spec)
        LOG.info('Waking reserved server %s on %s', instance.uuid, target.host)
        _send(compute_api, context, instance, spec, bdms, target, saved)
        undo.pop_all()


def _lost_targets(context: Any, instance: Any) -> list[str]:
    """Return the compute nodes that an earlier wake_up chose, and its message did not reach."""
    client = report.report_client_singleton()
    held = client.get_allocs_for_consumer(context, instance.uuid)['allocations']
    own = allocations.compute_node_uuid(context, instance.host, instance.node)
    return allocations.other_nodes(context, held, own)


def _send(
    compute_api: Any,
    context: Any,
    instance: Any,
    spec: Any,
    bdms: Any,
    target: reschedule.Target,
    saved: Mapping[str, Any],
) -> None:
    networks = saved.get('networks')
    compute_api.compute_rpcapi.build_and_run_instance(
        context,
        instance=instance,
        host=target.host,
        image=base.obj_to_primitive(spec.image) if spec.image else {},
        request_spec=spec,
        filter_properties=spec.to_legacy_filter_properties_dict(),
        admin_password=saved.get('password'),
        injected_files=[tuple(pair) for pair in saved.get('files') or ()],
        requested_networks=objects.NetworkRequestList.obj_from_primitive(networks, context)
        if networks
        else None,
        security_groups=[],
        block_device_mapping=bdms,
        node=target.node,
        limits=target.limits,
        host_list=[],
        accel_uuids=saved.get('accelerators') or [],
    )


def _mark(context: Any, instance: Any, new: bool) -> None:
    """Take the server for this request by compare-and-swap on its states.

    :param new: write a new marker; False keeps that of the wake_up which is repeated
    """
    seen = instance.task_state
    if new:
        wake_marker.put(instance, context.request_id)
    instance.task_state = task_states.SCHEDULING
    # Without a change Instance.save compares nothing.
    instance.updated_at = timeutils.utcnow(with_timezone=True)
    try:
        instance.save(expected_vm_state=[states.RESERVED], expected_task_state=[seen])
    except exception.InstanceUpdateConflict as error:
        raise exception.InstanceInvalidState(
            attr='task_state',
            instance_uuid=instance.uuid,
            state=task_states.SCHEDULING,
            method=ACTION,
        ) from error


def _unmark(instance: Any) -> None:
    """Set the server back, unless it is being deleted, or a nova-compute has begun."""
    wake_marker.clear(instance)
    instance.task_state = None
    try:
        instance.save(
            expected_vm_state=[states.RESERVED], expected_task_state=[task_states.SCHEDULING]
        )
    except (exception.InstanceUpdateConflict, exception.InstanceNotFound) as error:
        LOG.info('Server %s is not put back to RESERVED: %s', instance.uuid, error)


def _host_is_up(context: Any, instance: Any) -> bool:
    if not instance.host:
        return False
    try:
        service = objects.Service.get_by_compute_host(context.elevated(), instance.host)
    except exception.ComputeHostNotFound:
        return False
    return servicegroup.API().service_is_up(service)


def _map_to_allocation(context: Any, spec: Any) -> None:
    """Map the resource requests of the ports to providers; only Placement keeps the mapping."""
    if spec.maps_requested_resources:
        client = report.report_client_singleton()
        allocation = client.get_allocs_for_consumer(context, spec.instance_uuid)['allocations']
        scheduler_utils.fill_provider_mapping_based_on_allocation(
            context, client, spec, allocation
        )
