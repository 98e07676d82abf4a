# SPDX-License-Identifier: Apache-2.0
"""Send a reserved volume to the cinder-volume that creates it.

The message is cinder's own create_volume, as the scheduler sends it: no RPC is added.
"""

import logging
from typing import Any

import webob.exc
from cinder import exception, objects
from oslo_config import cfg
from oslo_utils import timeutils

from cinder_ext import conf, reservation_marker, states

LOG = logging.getLogger(__name__)

#: Status of a volume that is being created: at the reservation, and again after a wake_up.
CREATING = 'creating'

#: The columns of a row that go into the properties of a request, as EntryCreateTask writes it.
_PROPERTIES = (
    'size', 'user_id', 'project_id', 'attach_status', 'encryption_key_id', 'display_description',
    'display_name', 'multiattach', 'availability_zone', 'snapshot_id', 'source_volid',
    'volume_type_id',
)  # fmt: skip


def start(volume_rpcapi: Any, context: Any, volume: Any) -> None:
    """Request the creation of a reserved volume; return when the message is sent.

    :param volume_rpcapi: cinder.volume.rpcapi.VolumeAPI
    :raises webob.exc.HTTPConflict: it is not reserved, another request was faster, or a
        cinder-volume has begun
    :raises webob.exc.HTTPServiceUnavailable: an administrator has frozen its backend
    :raises Exception: what the message bus raises; the volume is as it was
    """
    marker = _check(context, volume)
    seen = volume.status
    if not volume.conditional_update({'status': CREATING}, {'status': seen}):
        raise _conflict(volume, 'another request is faster')
    LOG.info('Waking reserved volume %s on %s', volume.id, volume.host)
    try:
        volume_rpcapi.create_volume(
            context,
            volume,
            request_spec=_request_spec(context, volume, marker),
            filter_properties={states.WAKE_UP: True},
            allow_reschedule=False,
        )
    except Exception:
        # A message that arrived nevertheless has changed the status by now, or will find it.
        volume.conditional_update({'status': seen}, {'status': CREATING})
        raise


def _check(context: Any, volume: Any) -> reservation_marker.Marker:
    """Return the marker of a volume that can be woken.

    An error with a marker is a volume whose creation broke off: with its cinder-volume, because
    its backend did not even let the remains be deleted, or in cinder-backup.
    """
    if volume.status not in (states.RESERVED, CREATING, *states.CREATION_FAILED):
        raise _conflict(volume, 'only a reserved volume can be started')
    marker = reservation_marker.get(context, volume)
    if marker is None:
        raise _conflict(volume, 'it is not reserved')
    if not volume.host:
        raise _conflict(volume, 'no backend has ever held it')
    if volume.status == CREATING:
        _check_repeat(volume, marker)
    try:
        volume.assert_not_frozen()
    except exception.InvalidInput as error:
        # It will be thawed: the lease service tries again.
        raise webob.exc.HTTPServiceUnavailable(explanation=error.msg) from error
    return marker


def _check_repeat(volume: Any, marker: reservation_marker.Marker) -> None:
    """Refuse a repeated wake_up while the first is worked on, or its message may still come."""
    if marker.state != reservation_marker.HELD:
        raise _conflict(volume, 'cinder-volume has begun to create it')
    timeout = cfg.CONF[conf.GROUP].wake_up_timeout
    if not timeutils.is_older_than(volume.updated_at or volume.created_at, timeout):
        raise _conflict(
            volume, f'a wake_up can be repeated {timeout} seconds after its last change'
        )


def _conflict(volume: Any, reason: str) -> webob.exc.HTTPConflict:
    return webob.exc.HTTPConflict(explanation=f'Volume {volume.id} is {volume.status}: {reason}.')


def _request_spec(context: Any, volume: Any, marker: reservation_marker.Marker) -> Any:
    """Build the request of the reservation again, from the row and the marker."""
    elevated = context.elevated()
    type_id = volume.volume_type_id
    properties = {name: getattr(volume, name) for name in _PROPERTIES}
    nowhere = dict.fromkeys(('consistencygroup_id', 'cgsnapshot_id', 'group_id'))
    return objects.RequestSpec(
        volume_id=volume.id,
        volume=volume,
        volume_type=objects.VolumeType.get_by_id(elevated, type_id) if type_id else None,
        volume_properties=objects.VolumeProperties(
            status=CREATING, metadata=dict(volume.metadata), **properties, **nowhere
        ),
        snapshot_id=volume.snapshot_id,
        source_volid=volume.source_volid,
        image_id=marker.spec.get('image_id'),
        backup_id=marker.spec.get('backup_id'),
        **nowhere,
    )
