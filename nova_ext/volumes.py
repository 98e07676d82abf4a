# SPDX-License-Identifier: Apache-2.0
"""Keeps the volumes of a reserved server reserved in cinder."""

from typing import Any

from nova import exception


def hold(context: Any, volume_api: Any, instance: Any, bdms: Any) -> None:
    """Make sure that every volume has an attachment of this server.

    Nova deletes the attachments when a spawn fails; without one the volume is free for anybody,
    and the next start would have nothing to connect.

    :param bdms: the server's BlockDeviceMappingList; new attachments are saved in it
    :raises: what nova.volume.cinder raises
    """
    for bdm in bdms:
        if not bdm.is_volume or not bdm.volume_id:
            continue
        if bdm.attachment_id and _exists(context, volume_api, bdm.attachment_id):
            continue
        attachment = volume_api.attachment_create(context, bdm.volume_id, instance.uuid)
        bdm.attachment_id = attachment['id']
        bdm.save()


def _exists(context: Any, volume_api: Any, attachment_id: str) -> bool:
    try:
        volume_api.attachment_get(context, attachment_id)
    except exception.VolumeAttachmentNotFound:
        return False
    return True
