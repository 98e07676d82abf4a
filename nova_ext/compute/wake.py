# SPDX-License-Identifier: Apache-2.0
"""Save the arguments of a reserved build, and begin its second half."""

import logging
from typing import Any

import nova.conf
from nova import exception, objects
from nova.compute import task_states, vm_states

from nova_ext import allocations, conf, saved_build_args, states, wake_marker

LOG = logging.getLogger(__name__)


def save_build_args(
    instance: Any,
    admin_password: str | None,
    injected_files: list[Any],
    requested_networks: Any,
    accel_uuids: list[str] | None,
) -> None:
    """Save the arguments with the server; the instance is not saved.

    :param injected_files: pairs of path and contents in base64
    """
    networks = requested_networks.obj_to_primitive() if requested_networks is not None else None
    values = {
        'password': admin_password,
        'files': injected_files,
        'networks': networks,
        'accelerators': accel_uuids or [],
    }
    public = saved_build_args.public_key(nova.conf.CONF[conf.GROUP])
    saved_build_args.save(instance.system_metadata, values, public, instance.uuid)


def begin(manager: Any, context: Any, instance: Any) -> bool:
    """Note that this nova-compute starts the server: of all messages to wake it, one may.

    The note is the state itself, BUILDING, written by compare-and-swap from RESERVED. A message
    can arrive twice, or late: after the server was woken again, deleted, or set back to RESERVED.

    :param instance: as it came with the message
    :returns: False if the message has to be ignored; the server is left as it is
    """
    uuid = instance.uuid
    try:
        found = objects.Instance.get_by_uuid(context, uuid, expected_attrs=['system_metadata'])
        if found.vm_state == states.RESERVED and wake_marker.get(found) == wake_marker.get(
            instance
        ):
            instance.vm_state = vm_states.BUILDING
            instance.task_state = None
            wake_marker.put_host(instance, manager.host)
            instance.save(
                expected_vm_state=[states.RESERVED],
                expected_task_state=[task_states.SCHEDULING, None],
            )
            return True
    except exception.InstanceUpdateConflict as error:
        LOG.warning('Ignoring a request to wake server %s: %s', uuid, error)
        return False
    except exception.InstanceNotFound:
        LOG.warning('Ignoring a request to wake server %s, which is deleted', uuid)
        return False
    except Exception:
        # Nova would delete the allocation of the reservation; a repeated wake_up comes.
        LOG.exception('Ignoring a request to wake server %s', uuid)
        return False
    LOG.warning('Ignoring an old request to wake server %s, which is %s', uuid, found.vm_state)
    if found.vm_state != states.RESERVED and found.host != manager.host:
        _release_here(manager, context, found)
    return False


def _release_here(manager: Any, context: Any, instance: Any) -> None:
    """Remove the allocation on this host of a server that another host has started."""
    held = manager.reportclient.get_allocations_for_consumer(context, instance.uuid)
    here = {node.uuid for node in manager.rt.compute_nodes.values()}
    allocations.release(context, manager.reportclient, instance, here & held.keys())
