# SPDX-License-Identifier: Apache-2.0
"""The few calls to Cinder that a reserved volume needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Block Storage API reference v3; Cinder answers 400, not
409, when the state of a volume does not allow something (cinder/exception.py InvalidVolume).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import adapters, errors

if TYPE_CHECKING:
    import requests
    from keystoneauth1 import adapter
    from openstack import connection

LOG = log.getLogger(__name__)

_CINDER = 'Cinder'
_TYPE = 'block-storage'
#: Metadata of backups (3.43), attachments (3.27), filters of messages (3.5).
_MICROVERSION = '3.43'
#: Volumes per page; cinder's own limit is 1000 by default (``osapi_max_limit``).
_PAGE = 1000
#: Who owns a volume; shown to its owner and to administrators.
TENANT = 'os-vol-tenant-attr:tenant_id'


def get(conn: 'connection.Connection', volume_id: str) -> dict[str, Any]:
    """Return a volume as the API shows it.

    :raises climate_core.cloud.errors.Gone: no such volume for these rights
    """
    volume: dict[str, Any] = errors.read(
        send(conn, 'GET', f'/volumes/{volume_id}'), _CINDER, 'volume'
    )
    return volume


def act(
    conn: 'connection.Connection',
    volume_id: str,
    action: str,
    argument: Mapping[str, Any] | None = None,
) -> None:
    """Ask for an action; Cinder answers before it is done.

    :raises climate_core.cloud.errors.Busy: the state of the volume does not allow a wake-up
    :raises climate_core.exceptions.Permanent: it does not allow another action
    """
    body = {action: dict(argument or {})}
    errors.check(send(conn, 'POST', f'/volumes/{volume_id}/action', body), _CINDER)


def delete(conn: 'connection.Connection', volume_id: str) -> None:
    """Ask for the deletion of a volume; its snapshots keep it from that.

    :raises climate_core.cloud.errors.Gone: it is deleted already
    :raises climate_core.exceptions.Permanent: its state does not allow it
    """
    errors.check(send(conn, 'DELETE', f'/volumes/{volume_id}'), _CINDER)


def attachments(
    conn: 'connection.Connection', volume_id: str, every_project: bool
) -> list[dict[str, Any]]:
    """Return the attachments of a volume, also those that are only being made.

    The volume itself shows the complete ones alone (cinder/api/v3/views/volumes.py).

    :param every_project: whether these rights are an administrator's, of another project
    """
    query = {'volume_id': volume_id}
    return list(every(conn, '/attachments', 'attachments', query, every_project))


def delete_attachment(conn: 'connection.Connection', attachment_id: str) -> None:
    """Delete an attachment that Nova does not know; a service may (cinder bug 2004555)."""
    errors.check(send(conn, 'DELETE', f'/attachments/{attachment_id}'), _CINDER)


def cancel_transfers(conn: 'connection.Connection', volume_id: str, every_project: bool) -> None:
    """Take back the offers of a volume to other projects."""
    path = '/os-volume-transfer'
    query = {'volume_id': volume_id, **_everywhere(every_project)}
    response = send(conn, 'GET', path, query=query)
    for transfer in errors.read(response, _CINDER, 'transfers'):
        if transfer['volume_id'] == volume_id:
            errors.check(send(conn, 'DELETE', f'{path}/{transfer["id"]}'), _CINDER)


def reason(conn: 'connection.Connection', resource_id: str) -> str:
    """Say what Cinder told its user about a volume or a copy at last."""
    query = {'resource_uuid': resource_id, 'limit': 1}
    try:
        found = errors.read(send(conn, 'GET', '/messages', query=query), _CINDER, 'messages')
    except (errors.Gone, exceptions.Permanent) as exc:
        LOG.info('Cinder does not show its messages: %s', exc)
        found = []
    told = found[0].get('user_message') if found else None
    return str(told or 'Cinder does not say why')


def has_snapshots(conn: 'connection.Connection', volume_id: str, every_project: bool) -> bool:
    """Tell whether a volume has snapshots."""
    query = {'volume_id': volume_id, 'limit': 1, **_everywhere(every_project)}
    return bool(errors.read(send(conn, 'GET', '/snapshots', query=query), _CINDER, 'snapshots'))


def check_all_visible(conn: 'connection.Connection') -> None:
    """Do nothing if these rights see the volumes of every project.

    A listing does not tell: Cinder gives those of one project to users who may not see all. So
    something is asked for that only an administrator gets.

    :raises climate_core.cloud.errors.Refused: they do not
    """
    query = {'binary': 'cinder-scheduler'}
    errors.check(send(conn, 'GET', '/os-services', query=query), _CINDER)


def offered(conn: 'connection.Connection') -> bool:
    """Tell whether the cloud has a Cinder at all."""
    return adapters.is_offered(_client(conn), _CINDER)


def every_id(conn: 'connection.Connection', **query: Any) -> Iterator[str]:
    """Give the ids of all volumes of all projects, one call for each thousand.

    :param query: filters, for example ``status='lease-reserved'``
    """
    for volume in every(conn, '/volumes', 'volumes', query, every_project=True):
        yield str(volume['id'])


def _everywhere(every_project: bool) -> dict[str, Any]:
    return {'all_tenants': 1} if every_project else {}


def every(
    conn: 'connection.Connection',
    path: str,
    name: str,
    query: Mapping[str, Any],
    every_project: bool,
) -> Iterator[dict[str, Any]]:
    """Give all of a collection, one call for each page.

    :param name: of the collection in the answer
    :param every_project: whether these rights are an administrator's, who sees all projects
    """
    marker: Mapping[str, str] = {}
    while True:
        params = {'limit': _PAGE, **query, **_everywhere(every_project), **marker}
        response = send(conn, 'GET', path, query=params)
        page = errors.read(response, _CINDER, name)
        yield from page
        if not response.json().get(f'{name}_links'):
            return
        marker = {'marker': page[-1]['id']}


def send(
    conn: 'connection.Connection',
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, Any] | None = None,
) -> 'requests.Response':
    """Send a request to Cinder and return its answer, whatever it is.

    :raises climate_core.exceptions.Transient: there is none
    """
    with errors.translated(_CINDER):
        return _client(conn).request(
            path,
            method,
            json=body,
            params=query,
            microversion=_MICROVERSION,
            raise_exc=False,
        )


def _client(conn: 'connection.Connection') -> 'adapter.Adapter':
    return adapters.make(conn, _TYPE, version='3')
