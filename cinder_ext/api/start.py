# SPDX-License-Identifier: Apache-2.0
"""Sends a reserved volume to the cinder-volume that makes it.

The message is cinder's own create_volume, as the scheduler sends it: no RPC is added.
"""

import logging
from typing import Any

import webob.exc
from cinder import exception, objects

from cinder_ext import reservation_marker, states

LOG = logging.getLogger(__name__)

#: What of a row goes into the properties of a request, as EntryCreateTask writes it.
_PROPERTIES = (
    'size', 'user_id', 'project_id', 'attach_status', 'encryption_key_id', 'display_description',
    'display_name', 'multiattach', 'availability_zone', 'snapshot_id', 'source_volid',
    'volume_type_id',
)  # fmt: skip


def start(volume_rpcapi: Any, context: Any, volume: Any) -> None:
    """Let a reserved volume be created; returns when the message is sent.

    :param volume_rpcapi: cinder.volume.rpcapi.VolumeAPI
    :raises webob.exc.HTTPConflict: it is not reserved, or another request was faster
    :raises webob.exc.HTTPServiceUnavailable: an administrator has frozen its backend
    :raises Exception: what the message bus raises; the volume is as it was
    """
    mark = _check(context, volume)
    seen = volume.status
    if not volume.conditional_update({'status': 'creating'}, {'status': seen}):
        raise _conflict(volume, 'another request is faster')
    LOG.info('Waking reserved volume %s on %s', volume.id, volume.host)
    try:
        volume_rpcapi.create_volume(
            context,
            volume,
            request_spec=_request_spec(context, volume, mark),
            filter_properties={states.WAKE_UP: True},
            allow_reschedule=False,
        )
    except Exception:
        # A message that arrived nevertheless has changed the status by now, or will find it.
        volume.conditional_update({'status': seen}, {'status': 'creating'})
        raise


def _check(context: Any, volume: Any) -> reservation_marker.Marker:
    """Give the mark of a volume that can be woken.

    An error with a mark is a volume whose creation broke off: with its cinder-volume, because its
    backend did not even let the remains be deleted, or in cinder-backup.
    """
    if volume.status not in (states.RESERVED, *states.CREATION_FAILED):
        raise _conflict(volume, 'only a reserved volume can be woken')
    mark = reservation_marker.get(context, volume)
    if mark is None:
        raise _conflict(volume, 'it is not reserved')
    if not volume.host:
        raise _conflict(volume, 'no backend has ever held it')
    try:
        volume.assert_not_frozen()
    except exception.InvalidInput as error:
        # It will be thawed: the lease service tries again.
        raise webob.exc.HTTPServiceUnavailable(explanation=error.msg) from error
    return mark


def _conflict(volume: Any, reason: str) -> webob.exc.HTTPConflict:
    return webob.exc.HTTPConflict(explanation=f'Volume {volume.id} is {volume.status}: {reason}.')


def _request_spec(context: Any, volume: Any, mark: reservation_marker.Marker) -> Any:
    """Say again what cinder-api said at the reservation, from the row and the mark."""
    elevated = context.elevated()
    type_id = volume.volume_type_id
    properties = {name: getattr(volume, name) for name in _PROPERTIES}
    nowhere = dict.fromkeys(('consistencygroup_id', 'cgsnapshot_id', 'group_id'))
    return objects.RequestSpec(
        volume_id=volume.id,
        volume=volume,
        volume_type=objects.VolumeType.get_by_id(elevated, type_id) if type_id else None,
        volume_properties=objects.VolumeProperties(
            status='creating', metadata=dict(volume.metadata), **properties, **nowhere
        ),
        snapshot_id=volume.snapshot_id,
        source_volid=volume.source_volid,
        image_id=mark.spec.get('image_id'),
        backup_id=mark.spec.get('backup_id'),
        **nowhere,
    )
