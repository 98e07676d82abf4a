# SPDX-License-Identifier: Apache-2.0
"""Take the next step of the end of a reserved volume.

What is done in which status is a table for each end action, :data:`STEPS`. A status that is not in
the table is unknown: it is polled again, and logged. Statuses: VolumeStatus of
cinder/objects/fields.py, and ``lease-reserved`` of cinder_ext.
"""

from collections.abc import Mapping
from typing import Any

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, servers, volumes
from climate_core.cloud.services import Copy
from climate_core.cloud.volumes import CopyKind
from climate_core.plugins import volume_recovery
from climate_core.plugins.base import PollAgain
from climate_core.plugins.step_context import EndContext, EndStep, keep_resource, require_operator

LOG = log.getLogger(__name__)

RESERVED = 'lease-reserved'
#: Statuses of a volume whose creation goes on.
CREATING = frozenset({'creating', 'downloading'})
#: Statuses of a volume whose creation broke off, the second one in cinder-backup.
BROKEN = ('error', 'error_restoring')
#: Seconds after which Nova means it when it says that it does not know an attachment.
_SETTLED_SECONDS = 10.0

Volume = Mapping[str, Any]

#: Cinder has no message for a deletion that it rejected (message_field.Action).
_NOT_DELETED = 'Cinder could not delete the volume. See the log of cinder-volume.'


def _delete(context: EndContext, volume: Volume) -> PollAgain:  # noqa: ARG001
    return context.once('delete', _NOT_DELETED, lambda: _ask_to_delete(context))


def _ask_to_delete(context: EndContext) -> None:
    try:
        volumes.delete(context.conn, context.resource_id)
    except exceptions.Permanent as exc:
        if not volumes.has_snapshots(context.conn, context.resource_id, context.as_service):
            raise
        raise exceptions.Transient(
            'The volume has snapshots, which Climate does not delete. The volume is deleted after '
            'them.'
        ) from exc


def _delete_again(context: EndContext, volume: Volume) -> PollAgain:  # noqa: ARG001
    """Bring a volume to where its owner can delete it.

    Deleting it by force would be shorter, but the service may not delete the owner's secrets.
    """
    rest = context.again('delete', _NOT_DELETED)
    if rest:
        return rest
    volumes.act(context.service, context.resource_id, 'os-reset_status', {'status': 'error'})
    return context.wait()


_broken = require_operator(
    'The volume is in {status}, so its data cannot be kept. Repair it or delete it.'
)


def _cancel_transfer(context: EndContext, volume: Volume) -> PollAgain:
    """Cancel a transfer that is not accepted; Cinder deletes no volume that is offered."""
    volumes.cancel_transfers(context.conn, context.resource_id, context.as_service)
    return volume_recovery.leave_unused(context, volume)


def _detach(context: EndContext, volume: Volume) -> PollAgain:
    """Detach the volume from one server; a shared volume is detached from one after the other."""
    found = volumes.list_attachments(context.conn, context.resource_id, context.as_service)
    if not found:
        return volume_recovery.leave_unused(context, volume)
    first = min(found, key=lambda attachment: str(attachment['id']))
    return context.once(
        f'detach {first["id"]}',
        f'Nova could not detach the volume from the server {first.get("instance")}.',
        lambda: _ask_to_detach(context, first),
    )


def _ask_to_detach(context: EndContext, attachment: Mapping[str, Any]) -> None:
    """Request a detachment from Nova; delete an attachment that Nova does not know for long.

    Nova forgets a volume a moment after Cinder does.
    """
    server_id = attachment.get('instance')
    if server_id:
        try:
            if context.on_end != 'delete':
                servers.keep_volume(context.conn, server_id, context.resource_id)
            servers.detach(context.conn, server_id, context.resource_id)
        except errors.Gone:
            if context.age < _SETTLED_SECONDS:
                raise
        except exceptions.Permanent as exc:
            # Most often it is the disk that the server boots from.
            raise exceptions.Transient(
                f'The volume stays attached to the server {server_id}: {exc} Delete that server, '
                'or change on_end of the volume to nothing.'
            ) from exc
        else:
            return
    volumes.delete_attachment(context.conn, attachment['id'])


def _attaching(context: EndContext, volume: Volume) -> PollAgain:
    """Wait. An attachment of the old kind that is not completed is removed when it is lost.

    It has no record of its own, only this status (cinder/volume/api.py API.reserve_volume).
    """
    found = volumes.list_attachments(context.conn, context.resource_id, context.as_service)
    return (volume_recovery.wait_for_detachment if found else volume_recovery.unreserve)(
        context, volume
    )


def _copied(kind: CopyKind, then: EndStep, *, broken: bool = False) -> EndStep:
    """Create a copy once, and continue when it is complete.

    :param broken: create no copy of a broken volume: continue only if its data was kept before
    """

    def step(context: EndContext, volume: Volume) -> PollAgain | None:
        conn, volume_id, key = context.conn, context.resource_id, context.reservation.id
        if kind is CopyKind.SNAPSHOT and context.as_service and not broken:
            LOG.warning('Volume %s is kept without a snapshot', volume_id)
            return None
        found = volumes.find_copy(conn, kind, volume_id, key, context.as_service)
        if found and found.status in volumes.COMPLETE_COPIES:
            return then(context, volume)
        if broken:
            return _broken(context, volume)
        if found:
            return _incomplete(context, volume, kind, found)
        name = context.prefix + (volume.get('name') or volume_id)
        return context.once(
            kind,
            f'The {kind} of the volume was deleted before it was complete.',
            lambda: volumes.create_copy(conn, kind, volume_id, name, key),
        )

    return step


def _incomplete(context: EndContext, volume: Volume, kind: CopyKind, copy: Copy) -> PollAgain:
    if copy.status == 'error':
        reason = copy.reason or volumes.read_failure_reason(context.conn, copy.id)
        message = f'Cinder could not create the {kind} of the volume: {reason}'
        try:
            volumes.delete_copy(context.conn, kind, copy.id)
        except errors.EXPECTED as exc:
            # Most often there is no cinder-backup. No other copy is created before it is deleted.
            message = (
                f'{message.rstrip(".")}. The failed {kind} {copy.id} could not be deleted: {exc}'
            )
        raise context.failure(message)
    if copy.status == 'error_deleting':
        raise exceptions.Transient(
            f'The {kind} {copy.id} of the volume failed and cannot be deleted. An administrator '
            'must delete it.'
        )
    return volume_recovery.wait_for_copy(context, volume, kind, copy)


def _backing_up(context: EndContext, volume: Volume) -> PollAgain:
    """Wait for a backup, Climate's or that of a user."""
    conn, volume_id, key = context.conn, context.resource_id, context.reservation.id
    found = volumes.find_copy(conn, CopyKind.BACKUP, volume_id, key, context.as_service)
    if found and found.status == 'creating':
        return volume_recovery.wait_for_copy(context, volume, CopyKind.BACKUP, found)
    return volume_recovery.wait_for_work(context, volume)


#: Statuses that lead to another one, whatever the end action is. A server has a volume that is
#: ``reserved`` while it is shelved, or about to attach it.
_COMMON: Mapping[str, EndStep] = {
    **dict.fromkeys(volume_recovery.WORK_STATUSES, volume_recovery.wait_for_work),
    'creating': volume_recovery.wait_for_cancelled_creation,
    'downloading': volume_recovery.wait_for_cancelled_creation,
    'deleting': volume_recovery.wait_for_deletion,
    'attaching': _attaching,
    'detaching': volume_recovery.wait_for_detachment,
    'in-use': _detach,
    'reserved': _detach,
    'maintenance': require_operator(
        'An administrator keeps the volume in maintenance. The end continues after the '
        'maintenance.'
    ),
    'awaiting-transfer': _cancel_transfer,
}
#: Broken volumes that Cinder deletes as they are, and those it does not
#: (cinder/volume/api.py API.delete).
_DELETABLE = ('error', 'error_restoring', 'error_extending', 'error_managing')
_UNDELETABLE = ('error_deleting', 'error_backing-up', 'error_attaching', 'error_detaching')
#: Statuses of a volume whose creation failed, until it is gone.
_NEVER_THERE = (*BROKEN, 'deleting', 'error_deleting')

#: End action -> status of the volume -> what is done.
STEPS: Mapping[str, Mapping[str, EndStep]] = {
    'delete': {
        **_COMMON,
        'available': _delete,
        **dict.fromkeys(_DELETABLE, _delete),
        **dict.fromkeys(_UNDELETABLE, _delete_again),
    },
    'backup': {
        **_COMMON,
        'available': _copied(CopyKind.BACKUP, _delete),
        'backing-up': _backing_up,
        **dict.fromkeys(_DELETABLE, _copied(CopyKind.BACKUP, _delete, broken=True)),
        **dict.fromkeys(_UNDELETABLE, _copied(CopyKind.BACKUP, _delete_again, broken=True)),
    },
    'snapshot': {
        **_COMMON,
        'available': _copied(CopyKind.SNAPSHOT, keep_resource),
        **dict.fromkeys(
            (*_DELETABLE, *_UNDELETABLE), _copied(CopyKind.SNAPSHOT, keep_resource, broken=True)
        ),
    },
    'detach': {
        **_COMMON,
        **dict.fromkeys(
            ('available', 'maintenance', 'awaiting-transfer', *_DELETABLE, *_UNDELETABLE),
            keep_resource,
        ),
    },
}


#: What is on its way, also by us: a standby member of a stack that was kept is deleted.
_NOTHING: Mapping[str, EndStep] = {
    **dict.fromkeys(CREATING, volume_recovery.wait_for_cancelled_creation),
    'deleting': volume_recovery.wait_for_deletion,
}


def take_end_step(context: EndContext, volume: Volume) -> PollAgain | None:
    """Take the next step; return None when it is done.

    :param volume: as Cinder shows it now
    """
    step = _step(volume, context.on_end, context.has_run)
    context = context.observe(volume['status'], volume.get('updated_at'))
    try:
        return step(context, volume)
    except errors.Gone:
        # A resource beside the volume is gone: the next poll shows the consequence.
        return volume_recovery.wait_for_unknown_work(context, volume)


def _step(volume: Volume, on_end: str, has_run: bool) -> EndStep:
    """Choose what is done. A volume that was never created is deleted whatever its end action is.

    Cinder does not show whether it was created. A recorded start counts, even of a member of a
    stack, and so does an attachment to a server.
    """
    status, attached = volume['status'], bool(volume.get('attachments'))
    if status == RESERVED:
        return _delete
    if status in _NEVER_THERE and not has_run and not attached:
        return STEPS['delete'][status]
    if on_end == 'nothing':
        return _NOTHING.get(status, keep_resource)
    if status.startswith('error') and attached:
        return _detach
    return STEPS[on_end].get(status, volume_recovery.wait_for_unknown_work)
