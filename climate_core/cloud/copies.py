# SPDX-License-Identifier: Apache-2.0
"""Make the backup or the snapshot of a volume at the end of its lease.

It carries the reservation's id, so that it is made once however often the end is tried. Facts:
Block Storage API v3, ``/backups`` (with metadata since 3.43) and ``/snapshots``.
"""

import enum
from typing import TYPE_CHECKING, Any

from climate_common import limits
from climate_core.cloud import volumes
from climate_core.cloud.services import Copy

if TYPE_CHECKING:
    from climate_core.cloud import connection

#: The key of the metadata that carries the id of the reservation.
KEY = 'climate_reservation_id'
#: Statuses of a copy that holds all data (cinder/objects/fields.py BackupStatus, SnapshotStatus).
COMPLETE = frozenset({'available', 'restoring', 'backing-up'})


class CopyKind(enum.StrEnum):
    """A kind of copy, by its name in the API."""

    BACKUP = 'backup'
    SNAPSHOT = 'snapshot'


def find(
    conn: 'connection.Connection',
    kind: CopyKind,
    volume_id: str,
    reservation_id: str,
    every_project: bool,
) -> Copy | None:
    """Return the copy that was made for a reservation, the complete one if there are more."""
    found = volumes.every(
        conn, f'/{kind}s/detail', f'{kind}s', {'volume_id': volume_id}, every_project
    )
    ours = (
        Copy(each['id'], each['status'], str(each.get('fail_reason') or ''))
        for each in found
        if (each.get('metadata') or {}).get(KEY) == reservation_id
    )
    return Copy.best(ours, COMPLETE)


def create(
    conn: 'connection.Connection', kind: CopyKind, volume_id: str, name: str, reservation_id: str
) -> None:
    """Ask for a copy; Cinder makes its record before it answers.

    :raises climate_core.exceptions.Permanent: the state of the volume does not allow it
    :raises climate_core.exceptions.Transient: also if the project may have no more (413)
    """
    body: dict[str, Any] = {
        'volume_id': volume_id,
        'name': name[: limits.NAME_LENGTH],
        'description': f'Made at the end of the reservation {reservation_id}.',
        'metadata': {KEY: reservation_id},
    }
    volumes.CINDER.ask(conn, 'POST', f'/{kind}s', {str(kind): body})


def reset(conn: 'connection.Connection', kind: CopyKind, copy_id: str) -> None:
    """Reset a copy to the status error, with an administrator's rights.

    That of a backup is done by a cinder-backup, and not to one that none has begun
    (cinder/backup/manager.py reset_status).
    """
    body = {'os-reset_status': {'status': 'error'}}
    volumes.CINDER.ask(conn, 'POST', f'/{kind}s/{copy_id}/action', body)


def disown(conn: 'connection.Connection', kind: CopyKind, copy_id: str) -> None:
    """Remove the reservation's id from the metadata of a copy."""
    body: dict[str, Any] = {str(kind): {'metadata': {}}}
    volumes.CINDER.ask(conn, 'PUT', f'/{kind}s/{copy_id}', body)


def delete(conn: 'connection.Connection', kind: CopyKind, copy_id: str) -> None:
    """Delete a copy.

    :raises climate_core.cloud.errors.Gone: it is, or no cinder-backup could delete it: Cinder
        answers 404 for both (cinder/backup/api.py API.delete, ServiceNotFound)
    """
    volumes.CINDER.ask(conn, 'DELETE', f'/{kind}s/{copy_id}')
