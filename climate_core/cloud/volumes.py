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

from climate_core import exceptions
from climate_core.cloud import errors, services

if TYPE_CHECKING:
    from openstack import connection

LOG = log.getLogger(__name__)

#: Metadata of backups (3.43), attachments (3.27), filters of messages (3.5).
CINDER = services.Service('Cinder', services.optional('block-storage', version='3'), '3.43')
#: The owner of a volume; shown to its owner and to administrators.
TENANT = 'os-vol-tenant-attr:tenant_id'


def get(conn: 'connection.Connection', volume_id: str) -> dict[str, Any]:
    """Return a volume as the API shows it."""
    volume: dict[str, Any] = CINDER.read(conn, f'/volumes/{volume_id}', 'volume')
    return volume


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
