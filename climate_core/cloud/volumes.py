# SPDX-License-Identifier: Apache-2.0
"""The calls to Cinder that a reserved volume, and its backup or snapshot, need.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. ``all_projects`` shows whether these rights are those of an
    administrator, who sees all projects. A copy that is created at the end of a lease carries the
    reservation's id, so that it is created once however often the end is tried. Facts: Block
    Storage API reference v3 (``/backups`` have metadata since 3.43); Cinder answers 400
    (Permanent), not 409 (Busy), when the state of a volume does not allow something
    (cinder/exception.py InvalidVolume), but for a wake-up.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_log import log

from climate_common import hints as hint_names
from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, services
from climate_core.cloud.connections import Connection
from climate_core.cloud.services import Copy

LOG = log.getLogger(__name__)

#: Metadata of backups (3.43), attachments (3.27), filters of messages (3.5).
CINDER = services.Service('Cinder', 'block-storage', '3', '3.43')
#: The backend of a volume, null if there is none yet; shown to administrators.
_HOST = 'os-vol-host-attr:host'
#: The owner of a volume; shown to its owner and to administrators.
_PROJECT = 'os-vol-tenant-attr:tenant_id'
_SNAPSHOT_PROJECT = 'os-extended-snapshot-attributes:project_id'
#: Number of volumes with which the policy of Cinder is checked.
_NEWEST_CHECKED = 10


def get(conn: Connection, volume_id: str) -> dict[str, Any]:
    """Return a volume as the API shows it."""
    volume: dict[str, Any] = CINDER.read(conn, f'/volumes/{volume_id}', 'volume')
    return volume


def read_project(volume: Mapping[str, Any]) -> str | None:
    """Return the project of a volume; Cinder shows it to its owner and to administrators."""
    return volume.get(_PROJECT)


def is_placed(conn: Connection, volume_id: str) -> bool:
    """Return whether a volume has a backend; True if these rights do not see it."""
    try:
        return has_backend(get(conn, volume_id))
    except errors.Gone:
        return True


def has_backend(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume has a backend; True if these rights do not see that."""
    return bool(volume.get(_HOST, True))


def create(conn: Connection, volume: Mapping[str, Any], hints: Mapping[str, str]) -> str:
    """Request a volume, reserved if the hints request that; return its id.

    :param volume: the ``volume`` of the body of POST /volumes
    :raises climate_core.exceptions.Permanent: Cinder rejects it, including with 413 (a quota is
        exceeded)
    """
    body = {'volume': dict(volume), 'OS-SCH-HNT:scheduler_hints': dict(hints)}
    response = CINDER.send(conn, 'POST', '/volumes', body)
    kind = exceptions.Permanent if response.status_code == 413 else None
    errors.check_response(response, CINDER.name, kind)
    return str(errors.read_response(response, CINDER.name, 'volume')['id'])


def find_by_reservation(
    conn: Connection, reservation_id: str, all_projects: bool
) -> Iterator[str]:
    """Yield the ids of the volumes that were created for a reservation, by their metadata.

    Cinder shows them as soon as their rows exist.
    """
    metadata = str({hint_names.MADE_FOR: reservation_id})
    return list_ids(conn, all_projects, metadata=metadata)


def check_type(conn: Connection, name_or_id: str) -> None:
    """Raise Gone if the user of these rights has no volume type of this name or id."""
    types = CINDER.pages(conn, '/types', 'volume_types', {})
    if not any(name_or_id in (volume_type['id'], volume_type['name']) for volume_type in types):
        raise errors.Gone(f'There is no volume type {name_or_id} that you may use.')


def list_pools(conn: Connection) -> list[dict[str, Any]]:
    """Return the storage pools with their capabilities, from the schedulers.

    Cinder shows them to administrators only. They are as old as the last report of each
    cinder-volume. The filter ``volume_type`` is unusable: cinder-scheduler 29 fails with it if a
    pool has a limit (CapacityFilter compares with a size that is None).
    """
    query = {'detail': 'true'}
    pools: list[dict[str, Any]] = CINDER.read(conn, '/scheduler-stats/get_pools', 'pools', query)
    return pools


def list_types(conn: Connection) -> list[dict[str, Any]]:
    """Return all volume types, including those of single projects, with their ``extra_specs``.

    Cinder shows the specs, and types that are not public, to administrators only.
    """
    return list(CINDER.pages(conn, '/types', 'volume_types', {'is_public': 'None'}))


def read_default_type(conn: Connection) -> str | None:
    """Return the name of the default volume type; None if there is none."""
    try:
        return str(CINDER.read(conn, '/types/default', 'volume_type')['name'])
    except errors.Gone:
        return None


def check_snapshot(conn: Connection, snapshot_id: str) -> dict[str, Any]:
    """Return a snapshot; raise Gone if the project of these rights has no such snapshot."""
    snapshot: dict[str, Any] = CINDER.read(conn, f'/snapshots/{snapshot_id}', 'snapshot')
    services.check_project(conn, snapshot.get(_SNAPSHOT_PROJECT), f'snapshot {snapshot_id}')
    return snapshot


def check(conn: Connection, volume_id: str) -> dict[str, Any]:
    """Return a volume; raise Gone if the project of these rights has no such volume."""
    volume = get(conn, volume_id)
    services.check_project(conn, read_project(volume), f'volume {volume_id}')
    return volume


def act(
    conn: Connection,
    volume_id: str,
    action: str,
    argument: Mapping[str, Any] | None = None,
) -> None:
    """Request an action; Cinder answers before it is complete."""
    CINDER.request(conn, 'POST', f'/volumes/{volume_id}/action', {action: dict(argument or {})})


def delete(conn: Connection, volume_id: str) -> None:
    """Request the deletion of a volume. Cinder rejects it while the volume has snapshots."""
    CINDER.request(conn, 'DELETE', f'/volumes/{volume_id}')


def list_attachments(conn: Connection, volume_id: str, all_projects: bool) -> list[dict[str, Any]]:
    """Return the attachments of a volume, including incomplete ones.

    The volume itself shows only complete attachments (cinder/api/v3/views/volumes.py).
    """
    query = {'volume_id': volume_id}
    return list(list_pages(conn, '/attachments', 'attachments', query, all_projects))


def delete_attachment(conn: Connection, attachment_id: str) -> None:
    """Delete an attachment that Nova does not know; a service may (cinder bug 2004555)."""
    CINDER.request(conn, 'DELETE', f'/attachments/{attachment_id}')


def cancel_transfers(conn: Connection, volume_id: str, all_projects: bool) -> None:
    """Cancel the transfers of a volume to other projects."""
    path = '/os-volume-transfer'
    query = {'volume_id': volume_id, **_everywhere(all_projects)}
    for transfer in CINDER.read(conn, path, 'transfers', query):
        if transfer['volume_id'] == volume_id:
            CINDER.request(conn, 'DELETE', f'{path}/{transfer["id"]}')


def read_failure_reason(conn: Connection, resource_id: str) -> str:
    """Return the last message of Cinder to users about a volume or a copy."""
    query = {'resource_uuid': resource_id, 'limit': 1}
    try:
        messages = CINDER.read(conn, '/messages', 'messages', query)
    except (errors.Gone, exceptions.Permanent) as exc:
        LOG.info('Cinder does not show its messages: %s', exc)
        messages = []
    message = messages[0].get('user_message') if messages else None
    return str(message or 'Cinder reports no reason')


def has_snapshots(conn: Connection, volume_id: str, all_projects: bool) -> bool:
    """Return whether a volume has snapshots."""
    query = {'volume_id': volume_id, 'limit': 1, **_everywhere(all_projects)}
    return bool(CINDER.read(conn, '/snapshots', 'snapshots', query))


def check_all_visible(conn: Connection) -> None:
    """Raise Forbidden if these rights do not see the volumes of every project.

    A list of volumes does not show that: Cinder reduces it to the own project for other users. So
    this requests a list that only administrators get.
    """
    CINDER.read(conn, '/os-services', 'services', {'binary': 'cinder-scheduler'})


def find_hidden(conn: Connection) -> str | None:
    """Return the id of a volume that Cinder lists but does not show; None: it shows the newest.

    Rights that the rule ``context_is_admin`` accepts list the volumes of every project. Cinder
    answers 404, as for a deleted volume, if ``volume:get`` does not accept them
    (cinder/volume/api.py ``API.get``).

    :raises climate_core.cloud.errors.Forbidden: these rights are not those of an administrator
    """
    check_all_visible(conn)

    def list_newest() -> list[str]:
        query = {'limit': _NEWEST_CHECKED, **_everywhere(all_projects=True)}
        return [str(volume['id']) for volume in CINDER.read(conn, '/volumes', 'volumes', query)]

    for volume_id in list_newest():
        try:
            get(conn, volume_id)
        except errors.Gone:
            # The volume may have been deleted since.
            if volume_id in list_newest():
                return volume_id
    return None


def list_ids(conn: Connection, all_projects: bool = True, **query: Any) -> Iterator[str]:
    """Yield the ids of all volumes, one call for each thousand.

    :param query: filters, for example ``status='lease-reserved'``
    """
    for volume in list_pages(conn, '/volumes', 'volumes', query, all_projects):
        yield str(volume['id'])


def list_pages(
    conn: Connection,
    path: str,
    name: str,
    query: Mapping[str, Any],
    all_projects: bool,
) -> Iterator[dict[str, Any]]:
    """Yield all items of a collection, one call for each page.

    :param name: name of the collection in the answer
    """
    return CINDER.pages(conn, path, name, {**query, **_everywhere(all_projects)})


def _everywhere(all_projects: bool) -> dict[str, Any]:
    return {'all_tenants': 1} if all_projects else {}


def list_service_hosts(conn: Connection) -> set[str]:
    """Return the first labels of the hosts that a cinder-volume runs on; none without Cinder.

    Nova may know the same host by a longer or shorter name.

    Needs the rights of an administrator.
    """
    if not CINDER.is_offered(conn):
        return set()
    query = {'binary': 'cinder-volume'}
    rows = CINDER.read(conn, '/os-services', 'services', query)
    # The name of the backend follows that of the host: compute1@lvm.
    return {row['host'].partition('@')[0].partition('.')[0] for row in rows}


#: The metadata key with the id of the reservation.
RESERVATION_KEY = 'climate_reservation_id'
#: Statuses of a complete copy (cinder/objects/fields.py BackupStatus, SnapshotStatus).
COMPLETE_COPIES = frozenset({'available', 'restoring', 'backing-up'})


class CopyKind(enum.StrEnum):
    """A kind of copy, by its name in the API."""

    BACKUP = 'backup'
    SNAPSHOT = 'snapshot'


def find_copy(
    conn: Connection,
    kind: CopyKind,
    volume_id: str,
    reservation_id: str,
    all_projects: bool,
) -> Copy | None:
    """Return the copy that was created for a reservation, a complete one if there are several."""
    listed = list_pages(
        conn, f'/{kind}s/detail', f'{kind}s', {'volume_id': volume_id}, all_projects
    )
    copies = (
        Copy(row['id'], row['status'], str(row.get('fail_reason') or ''))
        for row in listed
        if (row.get('metadata') or {}).get(RESERVATION_KEY) == reservation_id
    )
    return Copy.best(copies, COMPLETE_COPIES)


def create_copy(
    conn: Connection, kind: CopyKind, volume_id: str, name: str, reservation_id: str
) -> None:
    """Request a copy; Cinder creates its record before it answers.

    :raises climate_core.exceptions.Permanent: the state of the volume does not allow it
    :raises climate_core.exceptions.Transient: also if the quota is exceeded (413)
    """
    body: dict[str, Any] = {
        'volume_id': volume_id,
        'name': name[: limits.NAME_LENGTH],
        'description': f'Created at the end of the reservation {reservation_id}.',
        'metadata': {RESERVATION_KEY: reservation_id},
    }
    CINDER.request(conn, 'POST', f'/{kind}s', {str(kind): body})


def reset_copy(conn: Connection, kind: CopyKind, copy_id: str) -> None:
    """Reset a copy to the status error, with the rights of an administrator.

    A cinder-backup resets backups, but none that has not been started
    (cinder/backup/manager.py reset_status).
    """
    body = {'os-reset_status': {'status': 'error'}}
    CINDER.request(conn, 'POST', f'/{kind}s/{copy_id}/action', body)


def disown_copy(conn: Connection, kind: CopyKind, copy_id: str) -> None:
    """Remove the reservation's id from the metadata of a copy."""
    body: dict[str, Any] = {str(kind): {'metadata': {}}}
    CINDER.request(conn, 'PUT', f'/{kind}s/{copy_id}', body)


def delete_copy(conn: Connection, kind: CopyKind, copy_id: str) -> None:
    """Delete a copy.

    :raises climate_core.cloud.errors.Gone: it does not exist, or no cinder-backup is able to
        delete it: Cinder answers 404 for both (cinder/backup/api.py API.delete, ServiceNotFound)
    """
    CINDER.request(conn, 'DELETE', f'/{kind}s/{copy_id}')
