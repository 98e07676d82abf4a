# SPDX-License-Identifier: Apache-2.0
"""The second half of a reserved build: what it needs, taken from where it was kept."""

import dataclasses
import logging
from typing import Any

import nova.conf
from nova import objects

from nova_ext import conf, saved_build_args, states, wake_marker

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class BuildArgs:
    """Arguments of nova's build that are in no table of nova."""

    admin_password: str | None
    injected_files: list[Any]
    requested_networks: Any
    accel_uuids: list[str]


def save_build_args(
    instance: Any,
    admin_password: str | None,
    injected_files: list[Any],
    requested_networks: Any,
    accel_uuids: list[str] | None,
) -> None:
    """Keep the arguments with the server; the instance is not saved.

    :param injected_files: pairs of path and contents in base64
    """
    networks = requested_networks.obj_to_primitive() if requested_networks is not None else None
    values = {
        'password': admin_password,
        'files': injected_files,
        'networks': networks,
        'accelerators': accel_uuids or [],
    }
    saved_build_args.save(instance.system_metadata, values, nova.conf.CONF[conf.GROUP].stash_keys)


def load_build_args(context: Any, instance: Any) -> BuildArgs:
    """Give the arguments back.

    :raises nova_ext.saved_build_args.SavedArgsUnreadable: the keys of this nova-compute do not fit
    """
    values = saved_build_args.load(instance.system_metadata, nova.conf.CONF[conf.GROUP].stash_keys)
    networks = values.get('networks')
    return BuildArgs(
        values.get('password'),
        [tuple(pair) for pair in values.get('files') or ()],
        objects.NetworkRequestList.obj_from_primitive(networks, context) if networks else None,
        values.get('accelerators') or [],
    )


def overtaken(context: Any, instance: Any) -> bool:
    """Whether this message is old: the server is not waiting for it any more.

    A message can wait in the queue of a nova-compute that was down while the server was woken
    again, deleted, or brought back.
    """
    now = objects.Instance.get_by_uuid(context, instance.uuid, expected_attrs=['system_metadata'])
    if now.vm_state == states.RESERVED and wake_marker.get(now) == wake_marker.get(instance):
        return False
    LOG.warning(
        'Ignoring an old request to wake server %s, which is %s now', instance.uuid, now.vm_state
    )
    return True
