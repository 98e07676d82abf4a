# SPDX-License-Identifier: Apache-2.0
"""Keep the sources that reserved volumes will be created from until their leases start.

Cinder lets a source be deleted as soon as no process reads it. Each check is one SELECT. An image
lies in glance, which does not ask cinder before it deletes one; the wake_up then says so.
"""

from collections.abc import Iterable
from typing import Any

from cinder import exception
from cinder.db import api as db
from cinder.db import models
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import aliased

from cinder_ext import reservation_marker

_MARK = models.VolumeAdminMetadata


def check_volume(context: Any, volume: Any) -> None:
    """Check that no reserved volume needs this volume, or a snapshot of it.

    :raises cinder.exception.InvalidVolume: they are named
    """
    snapshots = select(models.Snapshot.id).where(models.Snapshot.volume_id == volume.id)
    found = _reserved(
        context,
        or_(models.Volume.source_volid == volume.id, models.Volume.snapshot_id.in_(snapshots)),
    )
    if found:
        raise exception.InvalidVolume(reason=_needed(f'Volume {volume.id}', found))


def check_size(context: Any, volume: Any, size: int) -> None:
    """Check that every reserved volume will be as large as its source.

    :param size: what the source shall have, GiB
    :raises cinder.exception.InvalidVolume: some will not; they are named
    """
    found = _reserved(
        context, and_(models.Volume.source_volid == volume.id, models.Volume.size < size)
    )
    if found:
        raise exception.InvalidVolume(
            reason=_needed(f'Volume {volume.id}', found, 'must not grow')
        )


def check_group(context: Any, group: Any) -> None:
    """Check that no reserved volume needs a volume of this group.

    :raises cinder.exception.InvalidGroup: they are named
    """
    source = aliased(models.Volume)
    volumes = select(source.id).where(source.group_id == group.id)
    found = _reserved(context, models.Volume.source_volid.in_(volumes))
    if found:
        raise exception.InvalidGroup(reason=_needed(f'Group {group.id}', found))


def check_group_snapshot(context: Any, group_snapshot: Any) -> None:
    """Check that no reserved volume needs a snapshot of this snapshot of a group.

    :raises cinder.exception.InvalidGroupSnapshot: they are named
    """
    snapshots = select(models.Snapshot.id).where(
        models.Snapshot.group_snapshot_id == group_snapshot.id
    )
    found = _reserved(context, models.Volume.snapshot_id.in_(snapshots))
    if found:
        raise exception.InvalidGroupSnapshot(
            reason=_needed(f'Snapshot {group_snapshot.id} of a group', found)
        )


def check_snapshot(context: Any, snapshot: Any) -> None:
    """Check that no reserved volume needs this snapshot.

    :raises cinder.exception.InvalidSnapshot: they are named
    """
    found = _reserved(context, models.Volume.snapshot_id == snapshot.id)
    if found:
        raise exception.InvalidSnapshot(reason=_needed(f'Snapshot {snapshot.id}', found))


def check_backup(context: Any, backup: Any) -> None:
    """Check that no reserved volume needs this backup.

    :raises cinder.exception.InvalidBackup: they are named
    """
    # The row of a volume does not keep its backup. The marker does, in the first piece of its
    # JSON, whose keys are sorted.
    spec = select(_MARK.volume_id).where(
        _MARK.key == f'{reservation_marker.SPEC}0000',
        _MARK.value.contains(backup.id, autoescape=True),
        _MARK.deleted.is_(False),
    )
    found = _reserved(context, models.Volume.id.in_(spec))
    if found:
        raise exception.InvalidBackup(reason=_needed(f'Backup {backup.id}', found))


def _reserved(context: Any, condition: Any) -> list[str]:
    """Return the ids of volumes with a marker, of all projects, that fulfil a condition."""
    elevated = context.elevated()
    with db.main_context_manager.reader.using(elevated):
        rows = elevated.session.execute(
            select(models.Volume.id)
            .join(_MARK, _MARK.volume_id == models.Volume.id)
            .where(_MARK.key == reservation_marker.STATE, _MARK.deleted.is_(False))
            # One that is created keeps its marker until the next report, see cinder_ext.manager.
            .where(models.Volume.deleted.is_(False), models.Volume.launched_at.is_(None))
            .where(condition)
            .order_by(models.Volume.id)
        )
        return list(rows.scalars())


def _needed(what: str, volumes: Iterable[str], duty: str = 'has to stay') -> str:
    return (
        f'{what} is what reserved volumes will be made from, and {duty} until their leases '
        f'have started: {", ".join(volumes)}'
    )
