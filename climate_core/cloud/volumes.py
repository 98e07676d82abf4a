# SPDX-License-Identifier: Apache-2.0
"""The few calls to Cinder that a reserved volume needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. ``every_project`` says whether these rights are those of an
administrator, who sees all projects. Facts: Block Storage API reference v3; Cinder answers 400
(Permanent), not 409 (Busy), when the state of a volume does not allow something
(cinder/exception.py InvalidVolume), but for a wake-up.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from climate_common import hints as hint_names
from climate_core import exceptions
from climate_core.cloud import errors, services

if TYPE_CHECKING:
    from climate_core.cloud import connection

LOG = log.getLogger(__name__)

#: Metadata of backups (3.43), attachments (3.27), filters of messages (3.5).
CINDER = services.Service('Cinder', 'block-storage', '3', '3.43')
#: The backend that has a volume, null if there is none yet; shown to administrators.
_HOST = 'os-vol-host-attr:host'
#: The owner of a volume; shown to its owner and to administrators.
_PROJECT = 'os-vol-tenant-attr:tenant_id'
_SNAPSHOT_PROJECT = 'os-extended-snapshot-attributes:project_id'
#: The number of volumes by which the policy of Cinder is checked.
_CHECKED = 10


def get(conn: 'connection.Connection', volume_id: str) -> dict[str, Any]:
    """Return a volume as the API shows it."""
    volume: dict[str, Any] = CINDER.read(conn, f'/volumes/{volume_id}', 'volume')
    return volume


def read_project(volume: Mapping[str, Any]) -> str | None:
    """Return the project of a volume; Cinder shows it to its owner and to administrators."""
    return volume.get(_PROJECT)


def is_placed(conn: 'connection.Connection', volume_id: str) -> bool:
    """Tell whether a backend has a volume, or these rights do not see that."""
    try:
        return has_backend(get(conn, volume_id))
    except errors.Gone:
        return True


def has_backend(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume has a backend; True if these rights do not see that."""
    return bool(volume.get(_HOST, True))


def create(
    conn: 'connection.Connection', wanted: Mapping[str, Any], hints: Mapping[str, str]
) -> str:
    """Ask for a volume, reserved if the hints say so; return its id.

    :param wanted: the ``volume`` of the body of POST /volumes
    :raises climate_core.exceptions.Permanent: Cinder refuses it. So is a 413, that a quota is
        exceeded
    """
    body = {'volume': dict(wanted), 'OS-SCH-HNT:scheduler_hints': dict(hints)}
    response = CINDER.send(conn, 'POST', '/volumes', body)
    kind = exceptions.Permanent if response.status_code == 413 else None
    errors.check(response, CINDER.name, kind)
    return str(errors.read(response, CINDER.name, 'volume')['id'])


def find(conn: 'connection.Connection', reservation_id: str, every_project: bool) -> Iterator[str]:
    """Yield the ids of the volumes that were made for a reservation, as their metadata says.

    Cinder shows them as soon as their rows exist.
    """
    metadata = str({hint_names.MADE_FOR: reservation_id})
    return every_id(conn, every_project, metadata=metadata)


def check_type(conn: 'connection.Connection', wanted: str) -> None:
    """Raise Gone if the user of these rights has no volume type of this name or id."""
    found = CINDER.pages(conn, '/types', 'volume_types', {})
    if not any(wanted in (each['id'], each['name']) for each in found):
        raise errors.Gone(f'There is no volume type {wanted} that you may use.')


def list_pools(conn: 'connection.Connection') -> list[dict[str, Any]]:
    """Return the storage pools with their capabilities, as the schedulers know them.

    Cinder gives them to administrators only. They are as old as the last report of each
    cinder-volume. Its filter ``volume_type`` is of no use: cinder-scheduler 29 fails at it if a
    pool has a limit (CapacityFilter compares with a size that is None).
    """
    query = {'detail': 'true'}
    pools: list[dict[str, Any]] = CINDER.read(conn, '/scheduler-stats/get_pools', 'pools', query)
    return pools


def list_types(conn: 'connection.Connection') -> list[dict[str, Any]]:
    """Return all volume types, those of single projects as well; with their ``extra_specs``.

    Cinder shows these, and types that are not public, to administrators only.
    """
    return list(CINDER.pages(conn, '/types', 'volume_types', {'is_public': 'None'}))


def default_type(conn: 'connection.Connection') -> str | None:
    """Return the name of the type that a volume has of which no type is said, if there is one."""
    try:
        return str(CINDER.read(conn, '/types/default', 'volume_type')['name'])
    except errors.Gone:
        return None


def check_snapshot(conn: 'connection.Connection', snapshot_id: str) -> dict[str, Any]:
    """Return a snapshot; Gone if the project of these rights has no such one."""
    found: dict[str, Any] = CINDER.read(conn, f'/snapshots/{snapshot_id}', 'snapshot')
    services.check_own(conn, found.get(_SNAPSHOT_PROJECT), f'snapshot {snapshot_id}')
    return found


def check(conn: 'connection.Connection', volume_id: str) -> dict[str, Any]:
    """Return a volume; Gone if the project of these rights has no such one."""
    found = get(conn, volume_id)
    services.check_own(conn, read_project(found), f'volume {volume_id}')
    return found


def act(
    conn: 'connection.Connection',
    volume_id: str,
    action: str,
    argument: Mapping[str, Any] | None = None,
) -> None:
    """Ask for an action; Cinder answers before it is done."""
    CINDER.ask(conn, 'POST', f'/volumes/{volume_id}/action', {action: dict(argument or {})})


def delete(conn: 'connection.Connection', volume_id: str) -> None:
    """Ask for the deletion of a volume; its snapshots keep it from that."""
    CINDER.ask(conn, 'DELETE', f'/volumes/{volume_id}')


def attachments(
    conn: 'connection.Connection', volume_id: str, every_project: bool
) -> list[dict[str, Any]]:
    """Return the attachments of a volume, also those that are only being made.

    The volume itself shows the complete ones alone (cinder/api/v3/views/volumes.py).
    """
    query = {'volume_id': volume_id}
    return list(every(conn, '/attachments', 'attachments', query, every_project))


def delete_attachment(conn: 'connection.Connection', attachment_id: str) -> None:
    """Delete an attachment that Nova does not know; a service may (cinder bug 2004555)."""
    CINDER.ask(conn, 'DELETE', f'/attachments/{attachment_id}')


def cancel_transfers(conn: 'connection.Connection', volume_id: str, every_project: bool) -> None:
    """Take back the offers of a volume to other projects."""
    path = '/os-volume-transfer'
    query = {'volume_id': volume_id, **_everywhere(every_project)}
    for transfer in CINDER.read(conn, path, 'transfers', query):
        if transfer['volume_id'] == volume_id:
            CINDER.ask(conn, 'DELETE', f'{path}/{transfer["id"]}')


def reason(conn: 'connection.Connection', resource_id: str) -> str:
    """Return the last message of Cinder to its user about a volume or a copy."""
    query = {'resource_uuid': resource_id, 'limit': 1}
    try:
        found = CINDER.read(conn, '/messages', 'messages', query)
    except (errors.Gone, exceptions.Permanent) as exc:
        LOG.info('Cinder does not show its messages: %s', exc)
        found = []
    told = found[0].get('user_message') if found else None
    return str(told or 'Cinder does not say why')


def has_snapshots(conn: 'connection.Connection', volume_id: str, every_project: bool) -> bool:
    """Tell whether a volume has snapshots."""
    query = {'volume_id': volume_id, 'limit': 1, **_everywhere(every_project)}
    return bool(CINDER.read(conn, '/snapshots', 'snapshots', query))


def check_all_visible(conn: 'connection.Connection') -> None:
    """Raise Refused if these rights do not see the volumes of every project.

    A listing does not tell: Cinder gives those of one project to users who may not see all. So
    something is asked for that only an administrator gets.
    """
    CINDER.read(conn, '/os-services', 'services', {'binary': 'cinder-scheduler'})


def find_hidden(conn: 'connection.Connection') -> str | None:
    """Return the id of a volume that Cinder lists but does not show; None: it shows the newest.

    Rights that the rule ``context_is_admin`` accepts list the volumes of every project. Cinder
    answers 404, as for a deleted volume, if ``volume:get`` does not accept them
    (cinder/volume/api.py ``API.get``).

    :raises climate_core.cloud.errors.Refused: these rights are not those of an administrator
    """
    check_all_visible(conn)

    def list_newest() -> list[str]:
        query = {'limit': _CHECKED, **_everywhere(every_project=True)}
        return [str(each['id']) for each in CINDER.read(conn, '/volumes', 'volumes', query)]

    for volume_id in list_newest():
        try:
            get(conn, volume_id)
        except errors.Gone:
            # It may have been deleted in between.
            if volume_id in list_newest():
                return volume_id
    return None


def every_id(
    conn: 'connection.Connection', every_project: bool = True, **query: Any
) -> Iterator[str]:
    """Yield the ids of all volumes, one call for each thousand.

    :param query: filters, for example ``status='lease-reserved'``
    """
    for volume in every(conn, '/volumes', 'volumes', query, every_project):
        yield str(volume['id'])


def every(
    conn: 'connection.Connection',
    path: str,
    name: str,
    query: Mapping[str, Any],
    every_project: bool,
) -> Iterator[dict[str, Any]]:
    """Yield all items of a collection, one call for each page.

    :param name: of the collection in the answer
    """
    return CINDER.pages(conn, path, name, {**query, **_everywhere(every_project)})


def _everywhere(every_project: bool) -> dict[str, Any]:
    return {'all_tenants': 1} if every_project else {}


def list_service_hosts(conn: 'connection.Connection') -> set[str]:
    """Return the first labels of the hosts that a cinder-volume runs on; none without Cinder.

    Nova may know the same host by a longer or shorter name.

    Needs the rights of an administrator.
    """
    if not CINDER.is_offered(conn):
        return set()
    query = {'binary': 'cinder-volume'}
    found = CINDER.read(conn, '/os-services', 'services', query)
    # A back end has its name behind that of the host: compute1@lvm.
    return {each['host'].partition('@')[0].partition('.')[0] for each in found}
