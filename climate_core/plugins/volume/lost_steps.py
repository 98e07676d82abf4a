# SPDX-License-Identifier: Apache-2.0
"""Repair a volume whose status no process works on any more.

Cinder writes the status before it sends a message, and refuses what does not fit to it. What an
administrator does when it stays for ever is os-reset_status, and what was asked for once more.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg

from climate_core.cloud import copies, volumes
from climate_core.cloud.services import Copy
from climate_core.plugins import lost
from climate_core.plugins.base import Wait

if TYPE_CHECKING:
    from climate_core.plugins.step_context import EndContext, StepContext

OPTIONS: Final = (
    cfg.IntOpt(
        'lost_wake_up_seconds',
        default=40,
        min=1,
        help='Seconds after which a volume that is creating and does not change is asked for '
        'again; Cinder refuses that while a cinder-volume works on it. More than [climate] '
        'wake_up_timeout of Cinder.',
    ),
    cfg.IntOpt(
        'lost_create_minutes',
        default=60,
        min=1,
        help='Minutes after which, at the end of a lease, a creation that does not change counts '
        'as lost: the volume, which was never there, is deleted by force.',
    ),
    cfg.IntOpt(
        'lost_delete_minutes',
        default=10,
        min=1,
        help='Minutes after which the deletion of a volume that does not change counts as lost: '
        'its status is reset and it is deleted again.',
    ),
    cfg.IntOpt(
        'lost_detach_minutes',
        default=10,
        min=1,
        help='Minutes after which an attachment or detachment that does not change counts as '
        'lost: the status of the volume is reset and it is detached again. So it is with a volume '
        'that is in use without an attachment, or offered to another project without an offer.',
    ),
    cfg.IntOpt(
        'lost_copy_minutes',
        default=360,
        min=1,
        help='Minutes after which a backup or a snapshot that is neither complete nor failed '
        'counts as lost: its status is reset, and it is made again. Cinder does not show how far '
        'a backup is, so this must be more than the longest one takes.',
    ),
)


def repeat_wake_up(context: 'StepContext') -> Wait:
    """Wait for a creation; ask again for one that no cinder-volume has begun.

    That is safe however often it is done: see cinder_ext/api/wake_up.py.
    """

    def make() -> None:
        volumes.act(context.conn, context.resource_id, 'os-wake_up')

    repair = lost.RepairStep('wake_up', 'it was asked for again.', make, 'climate-manage repair')
    seconds = context.options.lost_wake_up_seconds
    return lost.wait(context, 'The volume has been creating', seconds, repair, tell=False)


def creating(context: 'EndContext', volume: Mapping[str, Any]) -> Wait:
    """Wait for a creation; break one off that does not end and whose volume was never there."""
    if context.has_run:
        return context.wait(f'The volume has been {volume["status"]}')
    repair = lost.RepairStep(
        'force_delete',
        'it is deleted by force.',
        lambda: volumes.act(context.service, context.resource_id, 'os-force_delete'),
        f'openstack volume delete --force {context.resource_id}',
    )
    return _wait(context, volume, context.options.lost_create_minutes, repair)


def deleting(context: 'EndContext', volume: Mapping[str, Any]) -> Wait:
    """Wait for a deletion; ask for a lost one again."""
    volume_id = context.resource_id

    def make() -> None:
        _reset(context, 'error')
        volumes.delete(context.conn, volume_id)

    repair = lost.RepairStep(
        'delete',
        'its status was reset and it is deleted again.',
        make,
        f'openstack volume set --state error {volume_id} && openstack volume delete {volume_id}',
    )
    return _wait(context, volume, context.options.lost_delete_minutes, repair)


def detaching(context: 'EndContext', volume: Mapping[str, Any]) -> Wait:
    """Wait for an attachment or a detachment; let a lost one be detached again."""
    repair = lost.RepairStep(
        'reset_status',
        'its status was reset, and it is detached again.',
        lambda: _reset(context, 'in-use'),
        f'openstack volume set --state in-use {context.resource_id}',
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def _wait(
    context: 'EndContext', volume: Mapping[str, Any], minutes: int, repair: lost.RepairStep
) -> Wait:
    return lost.wait(context, f'The volume has been {volume["status"]}', 60 * minutes, repair)


def leave_unused(context: 'EndContext', volume: Mapping[str, Any]) -> Wait:
    """Wait for a volume that no server or transfer has; reset it to available when it is lost."""

    def make() -> None:
        free = {'status': 'available', 'attach_status': 'detached'}
        volumes.act(context.service, context.resource_id, 'os-reset_status', free)

    repair = lost.RepairStep(
        'reset_status',
        'nobody uses it, so its status was reset.',
        make,
        f'openstack volume set --state available --detached {context.resource_id}',
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def unreserve(context: 'EndContext', volume: Mapping[str, Any]) -> Wait:
    """Wait for an attachment of the old kind; take back one that is not completed."""
    repair = lost.RepairStep(
        'unreserve',
        'it was taken back.',
        lambda: volumes.act(context.conn, context.resource_id, 'os-unreserve'),
        f'openstack volume set --state available {context.resource_id}',
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def copying(
    context: 'EndContext', volume: Mapping[str, Any], kind: copies.CopyKind, copy: Copy
) -> Wait:
    """Wait for a copy; have a lost one made again.

    A backup that no cinder-backup has begun keeps its status. It is left to an administrator when
    that has not changed after as long again.
    """
    is_left = kind is copies.CopyKind.BACKUP and volume['status'] != 'backing-up'

    def make() -> None:
        if is_left:
            copies.disown(context.conn, kind, copy.id)
            return
        if kind is copies.CopyKind.BACKUP:
            _reset(context, 'available')
        copies.reset(context.service, kind, copy.id)

    repair = lost.RepairStep(
        'reset_copy',
        'it is left as it is, and made again.' if is_left else 'its status was reset.',
        make,
        f'openstack volume {kind} set --state error {copy.id}',
    )
    doing = f'The {kind} {copy.id} has been {copy.status}'
    return lost.wait(context, doing, 60 * context.options.lost_copy_minutes, repair)


def _reset(context: 'EndContext', status: str) -> None:
    volumes.act(context.service, context.resource_id, 'os-reset_status', {'status': status})
