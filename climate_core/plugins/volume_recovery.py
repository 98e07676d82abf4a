# SPDX-License-Identifier: Apache-2.0
"""Repair a volume whose status no process works on any more.

Cinder writes the status before it sends a message, and rejects conflicting requests. If the status
never changes, an administrator uses os-reset_status and repeats the request.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import volumes
from climate_core.cloud.services import Copy
from climate_core.plugins.base import PollAgain
from climate_core.plugins.step_context import (
    RepairStep,
    StepContext,
    wait_for_operator,
    wait_or_repair,
)

if TYPE_CHECKING:
    from climate_core.plugins.step_context import EndContext

RECOVERY_OPTIONS: Final = (
    cfg.IntOpt(
        'lost_wake_up_seconds',
        default=40,
        min=1,
        help='Seconds after which a volume that is creating and does not change is requested '
        'again; Cinder rejects that while a cinder-volume works on it. More than [climate] '
        'wake_up_timeout of Cinder.',
    ),
    cfg.IntOpt(
        'lost_build_minutes',
        default=10,
        min=1,
        help='Minutes after which a volume that is created for its lease, and that no '
        'cinder-volume has reserved, counts as lost: it is deleted and recreated. A volume of a '
        'user that no backend has at the start of its lease is set to error after this time.',
    ),
    cfg.IntOpt(
        'lost_create_minutes',
        default=60,
        min=1,
        help='Minutes after which, at the end of a lease, a creation that does not change counts '
        'as lost: the volume, which was never created, is deleted by force.',
    ),
    cfg.IntOpt(
        'lost_delete_minutes',
        default=10,
        min=1,
        help='Minutes after which the deletion of a volume that does not change counts as lost: '
        'its status is reset and it is deleted again. The same applies to a volume that is '
        'unmanaging.',
    ),
    cfg.IntOpt(
        'lost_detach_minutes',
        default=10,
        min=1,
        help='Minutes after which an attachment or detachment that does not change counts as '
        'lost: the status of the volume is reset and it is detached again. The same applies to a '
        'volume that is in use without an attachment, or awaiting a transfer that does not exist.',
    ),
    cfg.IntOpt(
        'lost_copy_minutes',
        default=360,
        min=1,
        help='Minutes after which a backup or a snapshot that is neither complete nor failed '
        'counts as lost: its status is reset, and it is recreated. The same applies to other work '
        'that copies data: a creation at the start of a lease that a cinder-volume has begun, an '
        'upload as an image, a retype, a restored backup or image. Cinder does not show how far '
        'these are, so this must be more than the longest one takes.',
    ),
    cfg.IntOpt(
        'lost_extend_minutes',
        default=60,
        min=1,
        help='Minutes after which the extension of a volume that does not change counts as lost: '
        'its status is reset, and the end continues. More than the longest one takes.',
    ),
)
#: Number of repeated wake-ups before one that Cinder rejects counts as begun.
_MAX_WAKE_UPS: Final = 3
#: Maximum number of failed requests before a creation that is lost is abandoned.
MAX_TRIES: Final = 3
#: Statuses of work that leaves the data of the volume as it is, until it succeeds.
_KEEPS_DATA: Final = ('extending', 'retyping', 'uploading', 'backing-up')
#: Statuses of work that writes into the volume. What is in it when the work broke off is not
#: known, so Cinder itself puts it into an error (volume/manager.py reimage, revert_to_snapshot,
#: backup/manager.py _cleanup_one_volume).
_WRITES_DATA: Final = ('downloading', 'restoring-backup', 'reverting')
#: Statuses of work that a message to cinder-volume or cinder-backup begins.
WORK_STATUSES: Final = (*_KEEPS_DATA, *_WRITES_DATA)


#: Actions that the owner of a volume may request; others need the rights of the service.
_OWNER_ACTIONS: Final = ('os-wake_up', 'os-unreserve')
_RESET: Final = 'os-reset_status'


@dataclasses.dataclass(frozen=True, slots=True)
class _VolumeRepair(RepairStep):
    """Requests to Cinder about a volume.

    :param requests: actions with their arguments, or ``delete``
    """

    requests: Sequence[tuple[str, Any]] = dataclasses.field(kw_only=True)

    def run(self, context: StepContext) -> None:
        for action, argument in self.requests:
            if action == 'delete':
                # The owner deletes it: the service may not delete the owner's secrets.
                volumes.delete(context.conn, context.resource_id)
            else:
                conn = context.conn if action in _OWNER_ACTIONS else context.service
                volumes.act(conn, context.resource_id, action, argument)


@dataclasses.dataclass(frozen=True, slots=True)
class _CopyRepair(RepairStep):
    """Leave a backup or a snapshot as it is, or reset its status.

    :param is_left: no cinder-backup has begun it
    """

    kind: volumes.CopyKind = dataclasses.field(kw_only=True)
    copy_id: str = dataclasses.field(kw_only=True)
    is_left: bool = dataclasses.field(kw_only=True)

    def run(self, context: StepContext) -> None:
        if self.is_left:
            volumes.disown_copy(context.conn, self.kind, self.copy_id)
            return
        if self.kind is volumes.CopyKind.BACKUP:
            volumes.act(context.service, context.resource_id, _RESET, {'status': 'available'})
        volumes.reset_copy(context.service, self.kind, self.copy_id)


def wait_for_creation(context: StepContext, volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a creation at a start; repeat a request that no cinder-volume has begun.

    That is safe however often it is done: see cinder_ext/api/wake_up.py. Each request that Cinder
    accepts changes ``updated_at``, so a volume that stays as it is was begun, or is on no backend.
    """
    seconds = context.options.lost_wake_up_seconds
    if volume['status'] != 'creating' or context.age >= _MAX_WAKE_UPS * seconds:
        return _wait_for_started(context, volume)
    repair = _VolumeRepair(
        'wake_up',
        'it was requested again.',
        'climate-manage repair',
        requests=[('os-wake_up', None)],
    )
    return wait_or_repair(
        context, 'The volume has been creating', seconds, repair, with_reason=False
    )


def _wait_for_started(context: StepContext, volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a creation that was begun; restart a lost one.

    It is lost when its cinder-volume could not store the result, or with a message to
    cinder-backup. The second creation waits in cinder-volume until a first one that is alive has
    ended, and does nothing if the volume exists then. So it is done a few times only. The
    reservation of a volume that no backend has was lost before: nothing can create it any more.
    """
    status, options, volume_id = volume['status'], context.options, context.resource_id
    is_placed = status != 'creating' or volumes.is_placed(context.service, volume_id)
    minutes = options.lost_copy_minutes if is_placed else options.lost_build_minutes
    repair = _VolumeRepair(
        'reset_status',
        'its status was reset to error, and it is recreated.',
        f'openstack volume set --state error {volume_id}',
        request_name='reset_status',
        is_failure=True,
        requests=[(_RESET, {'status': 'error'})],
    )
    if context.is_due(60 * minutes) and context.progress.failures >= MAX_TRIES:
        raise exceptions.Permanent(
            f'The volume could not be created: it has been {status} without a change for '
            f'{minutes} minutes again. See the logs of cinder-volume and cinder-backup.'
        )
    return wait_or_repair(context, f'The volume has been {status}', 60 * minutes, repair)


def wait_for_cancelled_creation(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a creation; abort one that does not end and whose volume never existed."""
    if context.has_run:
        return wait_for_work(context, volume)
    repair = _VolumeRepair(
        'force_delete',
        'it is deleted by force.',
        f'openstack volume delete --force {context.resource_id}',
        requests=[('os-force_delete', None)],
    )
    return _wait(context, volume, context.options.lost_create_minutes, repair)


def wait_for_work(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for work that a user or an operator requested; reset the status when it is lost.

    Cinder changes nothing of the volume while it uploads, extends or restores it, and a retype
    with a migration changes ``updated_at`` at each of its steps only.
    """
    status, volume_id, options = volume['status'], context.resource_id, context.options
    minutes = options.lost_extend_minutes if status == 'extending' else options.lost_copy_minutes
    after = _after(context, volume)
    reset = {'status': after}
    command = f'openstack volume set --state {after} {volume_id}'
    if status == 'retyping':
        # Cinder deletes no volume in the middle of a migration (volume/api.py API.delete).
        reset['migration_status'] = 'none'
        command = f'cinder reset-state --state {after} --reset-migration-status {volume_id}'
    outcome = f'its status was reset to {after}, and its end continues.'
    repair = _VolumeRepair('reset_status', outcome, command, requests=[(_RESET, reset)])
    return _wait(context, volume, minutes, repair)


def _after(context: 'EndContext', volume: Mapping[str, Any]) -> str:
    """Return the status of a volume whose work is lost, as an administrator would reset it."""
    if volume['status'] not in _KEEPS_DATA:
        return 'error'
    found = volumes.list_attachments(context.conn, context.resource_id, context.as_service)
    return 'in-use' if found else 'available'


def wait_for_unknown_work(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a volume in any other status; report what an administrator must do at last.

    An unmanaging that is lost is requested again: its data was to be kept outside of Cinder.
    """
    status, volume_id, options = volume['status'], context.resource_id, context.options
    if status != 'unmanaging':
        return wait_for_operator(
            context,
            f'The volume has been {status}',
            60 * options.lost_copy_minutes,
            'only an administrator can decide about its data',
            f'openstack volume set --state error {volume_id}',
        )
    repair = _VolumeRepair(
        'unmanage',
        'its status was reset, and Cinder unmanages it again.',
        f'openstack volume set --state available {volume_id} && cinder unmanage {volume_id}',
        requests=[(_RESET, {'status': 'available'}), ('os-unmanage', None)],
    )
    return _wait(context, volume, options.lost_delete_minutes, repair)


def delete_command(volume_id: str) -> str:
    """Return what an operator types to delete a volume whatever its status is."""
    return f'openstack volume set --state error {volume_id} && openstack volume delete {volume_id}'


def delete_unmade(context: StepContext, volume: Mapping[str, Any]) -> PollAgain:
    """Delete a volume that no cinder-volume has reserved, or wait until it is gone.

    The owner deletes it: the service may not delete the owner's secrets.
    """
    if volume['status'] == 'deleting':
        return wait_for_deletion(context, volume)
    if volume['status'] == 'creating':
        volumes.act(context.service, context.resource_id, _RESET, {'status': 'error'})
    volumes.delete(context.conn, context.resource_id)
    return context.wait()


def wait_for_deletion(context: StepContext, volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a deletion; request a lost one again."""
    repair = _VolumeRepair(
        'delete',
        'its status was reset and it is deleted again.',
        delete_command(context.resource_id),
        requests=[(_RESET, {'status': 'error'}), ('delete', None)],
    )
    return _wait(context, volume, context.options.lost_delete_minutes, repair)


def wait_for_detachment(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for an attachment or a detachment; let a lost one be detached again."""
    repair = _VolumeRepair(
        'reset_status',
        'its status was reset, and it is detached again.',
        f'openstack volume set --state in-use {context.resource_id}',
        requests=[(_RESET, {'status': 'in-use'})],
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def _wait(
    context: StepContext,
    volume: Mapping[str, Any],
    minutes: int,
    repair: RepairStep,
) -> PollAgain:
    return wait_or_repair(context, f'The volume has been {volume["status"]}', 60 * minutes, repair)


def leave_unused(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for a volume that no server or transfer has; reset it to available when it is lost."""
    repair = _VolumeRepair(
        'reset_status',
        'no server uses it, so its status was reset.',
        f'openstack volume set --state available --detached {context.resource_id}',
        requests=[(_RESET, {'status': 'available', 'attach_status': 'detached'})],
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def unreserve(context: 'EndContext', volume: Mapping[str, Any]) -> PollAgain:
    """Wait for an attachment of the old kind; remove one that is not completed."""
    repair = _VolumeRepair(
        'unreserve',
        'it was removed.',
        f'openstack volume set --state available {context.resource_id}',
        requests=[('os-unreserve', None)],
    )
    return _wait(context, volume, context.options.lost_detach_minutes, repair)


def wait_for_copy(
    context: 'EndContext', volume: Mapping[str, Any], kind: volumes.CopyKind, copy: Copy
) -> PollAgain:
    """Wait for a copy; have a lost one recreated.

    A backup that no cinder-backup has begun keeps its status. It is left to an administrator when
    that has not changed after as long again.
    """
    is_left = kind is volumes.CopyKind.BACKUP and volume['status'] != 'backing-up'
    repair = _CopyRepair(
        'reset_copy',
        'it is left as it is, and recreated.' if is_left else 'its status was reset.',
        f'openstack volume {kind} set --state error {copy.id}',
        kind=kind,
        copy_id=copy.id,
        is_left=is_left,
    )
    doing = f'The {kind} {copy.id} has been {copy.status}'
    return wait_or_repair(context, doing, 60 * context.options.lost_copy_minutes, repair)
