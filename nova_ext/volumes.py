# SPDX-License-Identifier: Apache-2.0
"""Attach the volumes of a reserved server in cinder.

An ordinary volume is attached to the server, without a host, from the request on: cinder calls
it ``reserved``, and no other server can take it. A volume that is itself reserved in a lease has
nothing on its backend before the start of that lease, and cinder refuses to attach it
(:mod:`nova_ext.api.volumes`); its attachment is made when the server is woken.
"""

import contextlib
from typing import Any

from nova import exception, objects
from oslo_serialization import jsonutils

from climate_common import resource_types

#: What cinder calls a volume that waits for its lease (cinder_ext.states).
RESERVED = 'lease-reserved'
#: A volume of a lease that is not there yet: it waits, or it is just being made.
COMING = (RESERVED, 'creating', 'downloading')
#: What the lease service calls volumes.
RESOURCE_TYPE = resource_types.VOLUME


def hold(context: Any, volume_api: Any, instance: Any, bdms: Any) -> None:
    """Create the attachments that volumes of this server lack.

    Nova deletes the attachments when a spawn fails; without one the volume is free for all users,
    and the next start would have nothing to connect.

    :param bdms: the server's BlockDeviceMappingList; new attachments are saved in it
    :raises nova.exception.InvalidVolume: a volume is not there yet, or another server has it
    :raises: what nova.volume.cinder raises
    """
    for bdm in bdms:
        if not bdm.is_volume or not bdm.volume_id:
            continue
        if bdm.attachment_id and _exists(context, volume_api, bdm.attachment_id):
            continue
        made = None if bdm.attachment_id else _made_before(context, volume_api, instance, bdm)
        attachment = made or volume_api.attachment_create(context, bdm.volume_id, instance.uuid)
        bdm.attachment_id = attachment['id']
        bdm.save()


def _made_before(context: Any, volume_api: Any, instance: Any, bdm: Any) -> Any:
    """Look at a volume that this server has no attachment to, as far as nova knows.

    Cinder itself would attach a volume whose image is still being copied
    (cinder/volume/api.py, _attachment_reserve), which is no disk to start from.

    :returns: the attachment of a wake_up that broke off before it was saved; None if there is
        none, and one can be made
    :raises nova.exception.InvalidVolume: the volume is not there yet, or another server has it
    """
    volume = volume_api.get(context, bdm.volume_id)
    status = volume['status']
    if status == 'available' or (volume['multiattach'] and status == 'in-use'):
        return None
    if status == 'reserved':
        found = volume_api.attachment_get_all(context, instance.uuid, bdm.volume_id)
        if found:
            return found[0]
        # Cinder stopped before it wrote an attachment, or another server has one.
        volume_api.unreserve_volume(context, bdm.volume_id)
        status = volume_api.get(context, bdm.volume_id)['status']
        if status == 'available':
            return None
    raise exception.InvalidVolume(
        reason=f'volume {bdm.volume_id} of this server has the status {status}; the server can '
        'start when it is available'
    )


def _exists(context: Any, volume_api: Any, attachment_id: str) -> bool:
    try:
        volume_api.attachment_get(context, attachment_id)
    except exception.VolumeAttachmentNotFound:
        return False
    return True


def is_connected(instance: Any, bdm: Any) -> bool:
    """Return whether a disk may be connected to its server.

    Nova takes a volume without an attachment for one of before its release 17, and would tell
    cinder to detach it, from any server that has it now. A server that has never run never had it.

    :param bdm: a block device mapping of the server
    """
    return bool(instance.launched_at or bdm.attachment_id or not bdm.is_volume)


def is_lost(context: Any, volume_api: Any, bdm: Any, attachment_id: str | None) -> bool:
    """Return whether an attachment was lost before nova-compute had cinder connect its volume.

    Nova saves how a volume is connected when it has attached it (nova/virt/block_device.py
    _volume_attach). Without that the driver of libvirt detaches nothing, not even what
    nova-compute had begun to connect; cinder knows that.

    :param bdm: a block device mapping of the server; gets what cinder knows, and is not saved
    :param attachment_id: the attachment that cinder shows of volume and server, if it is complete
    :raises: what nova.volume.cinder raises
    """
    attachment_id = bdm.attachment_id or attachment_id
    # Nova saves {} if it fails to attach the volume.
    is_saved = bool(jsonutils.loads(bdm.connection_info or '{}'))
    if is_saved or not bdm.is_volume or not attachment_id:
        return False
    try:
        connection = volume_api.attachment_get(context, attachment_id)['connection_info']
    except exception.VolumeAttachmentNotFound:
        connection = None
    bdm.attachment_id = attachment_id
    if connection:
        connection.setdefault('serial', bdm.volume_id)
        bdm.connection_info = jsonutils.dumps(connection)
    return not connection


def forget(context: Any, volume_api: Any, bdm: Any) -> None:
    """Delete the attachment and the record of a volume that was never connected.

    :raises: what nova.volume.cinder raises
    """
    with contextlib.suppress(exception.VolumeAttachmentNotFound):
        volume_api.attachment_delete(context, bdm.attachment_id)
    bdm.destroy()


def connected(instance: Any, bdms: Any) -> Any:
    """Return the block device mappings without volumes that were never attached.

    :param bdms: the server's block device mappings
    :returns: the same, or a BlockDeviceMappingList with fewer
    """
    kept = [bdm for bdm in bdms if is_connected(instance, bdm)]
    return bdms if len(kept) == len(bdms) else objects.BlockDeviceMappingList(objects=kept)
