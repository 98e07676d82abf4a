# SPDX-License-Identifier: Apache-2.0
"""Do the first half of a build: claim the host, build the networks, join the lease, and stop.

The order at the end is deliberate. The lease is notified first and RESERVED is saved after it, so
that a crash in between leaves a server in BUILD, which nova sets to ERROR at its start, and
never a server that holds capacity and that no lease knows. A wake_up that comes in between gets
409 and comes again.
"""

import base64
import contextlib
import datetime
import logging
from typing import Any, NamedTuple

import nova.conf
from nova import exception
from nova.compute import power_state, task_states
from nova.compute import utils as compute_utils
from nova.objects import fields

from climate_common import resource_types
from climateclient.extension import hints
from climateclient.extension.errors import LeaseRefused, LeaseUnavailable
from nova_ext import conf, leases, saved_build_args, states
from nova_ext.compute import accelerators, wake

LOG = logging.getLogger(__name__)


class Build(NamedTuple):
    """The arguments of nova's _build_and_run_instance, in its order."""

    context: Any
    instance: Any
    image: Any
    injected_files: Any
    admin_password: Any
    requested_networks: Any
    security_groups: Any
    block_device_mapping: Any
    node: str
    limits: Any
    filter_properties: Any
    request_spec: Any
    accel_uuids: Any


def reserve(manager: Any, build: Build) -> bool:
    """Reserve a server.

    :returns: False if its hints ask for no reservation
    :raises nova.exception.BuildAbortException: the lease service refuses, or a hint is wrong
    :raises nova.exception.RescheduledException: another host may be able to
    """
    instance = build.instance
    given = manager._get_scheduler_hints(build.filter_properties, build.request_spec)
    now = datetime.datetime.now(datetime.UTC)
    try:
        wanted = hints.parse(given, now, conf.rules(nova.conf.CONF), fresh=False)
    except hints.BadHint as error:
        raise _abort(instance, f'Invalid scheduler hint {error}') from error
    if wanted is None:
        return False
    if build.injected_files and not saved_build_args.public_key(nova.conf.CONF[conf.GROUP]):
        raise _abort(
            instance,
            'server.personality: must be left out. Its files cannot be stored until the '
            'reservation starts: [climate] stash_public_key of nova-compute on '
            f'{manager.host} is not set',
        )
    _notify_start(manager, build)
    try:
        _hold(manager, build, given, wanted)
    except exception.ComputeResourcesUnavailable as error:
        raise exception.RescheduledException(
            instance_uuid=instance.uuid, reason=error.format_message()
        ) from error
    except exception.GroupAffinityViolation as error:
        raise exception.RescheduledByPolicyException(
            instance_uuid=instance.uuid, reason=str(error)
        ) from error
    LOG.info('Server %s is reserved in lease %s', instance.uuid, wanted.lease_id)
    return True


def _notify_start(manager: Any, build: Build) -> None:
    """Send the notifications that nova sends at the start of a build."""
    manager._notify_about_instance_usage(
        build.context,
        build.instance,
        'create.start',
        extra_usage_info={'image_name': build.image.get('name')},
    )
    compute_utils.notify_about_instance_create(
        build.context,
        build.instance,
        manager.host,
        phase=fields.NotificationPhase.START,
        bdms=build.block_device_mapping,
    )


def _hold(manager: Any, build: Build, given: Any, wanted: hints.ReservationHints) -> None:
    context, instance = build.context, build.instance
    instance.system_metadata.update({'boot_roles': ','.join(context.roles)})
    manager._check_device_tagging(build.requested_networks, build.block_device_mapping)
    manager._check_trusted_certs(instance)
    mapping = manager._get_request_group_mapping(build.request_spec)
    _map_pci(manager, build, mapping)
    allocations = manager.reportclient.get_allocations_for_consumer(context, instance.uuid)
    with manager.rt.instance_claim(context, instance, build.node, allocations, build.limits):
        manager._validate_instance_group_policy(context, instance, given)
        with contextlib.ExitStack() as undo:
            if build.accel_uuids:
                undo.callback(
                    compute_utils.delete_arqs_if_needed, context, instance, build.accel_uuids
                )
            _networks(manager, build, mapping)
            _enter_lease(context, instance, wanted)
            _save(build)
            undo.pop_all()
    manager._update_scheduler_instance_info(context, instance)


def _map_pci(manager: Any, build: Build, mapping: Any) -> None:
    if not mapping:
        return
    try:
        compute_utils.update_pci_request_with_placement_allocations(
            build.context, manager.reportclient, build.instance.pci_requests.requests, mapping
        )
    except (
        exception.AmbiguousResourceProviderForPCIRequest,
        exception.UnexpectedResourceProviderNameForPCIRequest,
    ) as error:
        raise _abort(build.instance, str(error)) from error


def _networks(manager: Any, build: Build, mapping: Any) -> None:
    """Create and bind the ports, and wait for them."""
    instance = build.instance
    try:
        _, arqs = accelerators.bind(
            manager, build.context, instance, build.requested_networks, build.accel_uuids
        )
        network_info = manager._build_networks_for_instance(
            build.context,
            instance,
            build.requested_networks,
            build.security_groups,
            mapping,
            arqs,
        )
        network_info.wait()
    except (exception.InstanceNotFound, exception.UnexpectedDeletingTaskStateError):
        raise
    except Exception as error:
        # What neutron and cyborg can raise is open; nova aborts the build for all of it.
        LOG.exception('No network for server %s', instance.uuid)
        # Other exceptions have the URLs of neutron and cyborg.
        known = isinstance(error, exception.NovaException)
        why = error.format_message() if known else type(error).__name__
        raise _abort(instance, f'Failed to allocate the network(s): {why}') from error


def _enter_lease(context: Any, instance: Any, wanted: hints.ReservationHints) -> None:
    try:
        leases.service(context).reserve(wanted, instance.uuid, _amounts(instance))
    except (LeaseRefused, LeaseUnavailable) as error:
        raise _abort(instance, str(error)) from error


def _amounts(instance: Any) -> dict[str, int]:
    flavor = instance.flavor
    sizes = (flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb)
    return resource_types.server_amounts(*sizes, boots_from_volume=not instance.image_ref)


def _save(build: Build) -> None:
    instance = build.instance
    files = [(path, base64.b64encode(data).decode()) for path, data in build.injected_files]
    wake.save_build_args(
        instance, build.admin_password, files, build.requested_networks, build.accel_uuids
    )
    instance.vm_state = states.RESERVED
    instance.task_state = None
    instance.power_state = power_state.NOSTATE
    instance.save(expected_task_state=[task_states.NETWORKING, None])


def _abort(instance: Any, reason: str) -> exception.BuildAbortException:
    return exception.BuildAbortException(instance_uuid=instance.uuid, reason=reason)
