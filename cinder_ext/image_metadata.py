# SPDX-License-Identifier: Apache-2.0
"""Show the bootable flag and the image properties of a volume that does not exist yet.

Nova asks for both before it lets a server boot from a volume. Cinder writes them at the end of a
creation (CreateVolumeFromSpecTask); a reserved volume has them from the beginning.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from cinder import exception, objects
from cinder.db import api as db
from cinder.image import glance
from cinder.volume.flows.manager import create_volume

LOG = logging.getLogger(__name__)

#: Written by a creation only: the signature of the image was right.
_OF_THE_CREATION = ('signature_verified',)


@dataclasses.dataclass(frozen=True, slots=True)
class ImageMetadata:
    """The image metadata of a volume.

    :param bootable: its flag
    :param properties: of its image; empty if there is none
    """

    bootable: bool
    properties: Mapping[str, str]


def write(manager: Any, context: Any, volume: Any, image_id: str | None) -> None:
    """Write the image metadata that a volume will have when it is created from its source.

    :param manager: cinder.volume.manager.VolumeManager
    :param context: of the user that reserves the volume
    :raises cinder.exception.CinderException: the source cannot be read
    """
    task = create_volume.CreateVolumeFromSpecTask(manager, db, manager.driver)
    write_metadata = task._handle_bootable_volume_glance_meta
    elevated = context.elevated()
    if volume.snapshot_id:
        snapshot = objects.Snapshot.get_by_id(elevated, volume.snapshot_id)
        if objects.Volume.get_by_id(elevated, snapshot.volume_id).bootable:
            write_metadata(elevated, volume, snapshot_id=snapshot.id)
    elif volume.source_volid:
        if objects.Volume.get_by_id(elevated, volume.source_volid).bootable:
            write_metadata(elevated, volume, source_volid=volume.source_volid)
    elif image_id:
        service, image_id = glance.get_remote_image_service(context, image_id)
        write_metadata(
            elevated, volume, image_id=image_id, image_meta=service.show(context, image_id)
        )


def remove(context: Any, volume: Any) -> ImageMetadata:
    """Remove the properties, for a creation adds its own to them, and return what was there."""
    found = _properties(context, volume)
    if found:
        db.volume_glance_metadata_delete_by_volume(context.elevated(), volume.id)
    # An attempt that died may have left its own.
    shown = {name: value for name, value in found.items() if name not in _OF_THE_CREATION}
    return ImageMetadata(volume.bootable, shown)


def restore(context: Any, volume: Any, shown: ImageMetadata) -> None:
    """Write again what was removed: the user may have changed it before.

    Without properties before, what the creation wrote stays.
    """
    if not shown.properties:
        return
    elevated = context.elevated()
    made = _properties(context, volume)
    kept = {name: made[name] for name in _OF_THE_CREATION if name in made}
    db.volume_glance_metadata_delete_by_volume(elevated, volume.id)
    db.volume_glance_metadata_bulk_create(elevated, volume.id, {**shown.properties, **kept})
    if volume.bootable != shown.bootable:
        volume.bootable = shown.bootable
        volume.save()


def _properties(context: Any, volume: Any) -> dict[str, str]:
    try:
        rows = db.volume_glance_metadata_get(context.elevated(), volume.id)
    except exception.GlanceMetadataNotFound:
        return {}
    return {row['key']: row['value'] for row in rows}
