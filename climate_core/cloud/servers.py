# SPDX-License-Identifier: Apache-2.0
"""The few calls to Nova that a reserved server needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Compute API reference, ``/servers``.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from climate_core.cloud import errors

if TYPE_CHECKING:
    from openstack import connection

_NOVA = 'Nova'
#: ``locked`` (2.9), ``image_id`` in the answer of createImage (2.45), a change of
#: ``delete_on_termination`` (2.85).
_MICROVERSION = '2.90'
#: Shows the scheduler hints of a server.
_WITH_HINTS = '2.100'
#: What a server is shown with: the volumes it has, also those that it waits for.
VOLUMES = 'os-extended-volumes:volumes_attached'
#: Servers per page; nova's own limit is 1000 by default.
_PAGE = 1000


def get(conn: 'connection.Connection', server_id: str, *, hints: bool = False) -> dict[str, Any]:
    """Return a server as the API shows it.

    :param hints: with ``scheduler_hints``, which costs Nova one more query
    :raises climate_core.cloud.errors.Gone: no such server for these rights
    """
    microversion = _WITH_HINTS if hints else _MICROVERSION
    with errors.translated(_NOVA):
        response = conn.compute.get(f'/servers/{server_id}', microversion=microversion)
    server: dict[str, Any] = errors.read(response, _NOVA, 'server')
    return server


def act(conn: 'connection.Connection', server_id: str, action: str, argument: Any = None) -> None:
    """Ask for an action; Nova answers before it is done.

    :raises climate_core.cloud.errors.Busy: the state of the server does not allow it now
    """
    with errors.translated(_NOVA):
        response = conn.compute.post(
            f'/servers/{server_id}/action', json={action: argument}, microversion=_MICROVERSION
        )
    errors.check(response, _NOVA)


def delete(conn: 'connection.Connection', server_id: str) -> None:
    """Ask for the deletion of a server.

    :raises climate_core.cloud.errors.Gone: it is deleted already
    """
    with errors.translated(_NOVA):
        response = conn.compute.delete(f'/servers/{server_id}', microversion=_MICROVERSION)
    errors.check(response, _NOVA)


def keep_volume(conn: 'connection.Connection', server_id: str, volume_id: str) -> None:
    """Have Nova keep a volume (``delete_on_termination``) that it would delete with a server.

    It deletes such a volume also when it is detached from a server that is shelved and off its
    host (nova/compute/api.py ``_local_cleanup_bdm_volumes``).

    :raises climate_core.cloud.errors.Gone: the server is gone, or does not have the volume
    """
    path = f'/servers/{server_id}/os-volume_attachments/{volume_id}'
    body = {'volumeAttachment': {'volumeId': volume_id, 'delete_on_termination': False}}
    with errors.translated(_NOVA):
        response = conn.compute.put(path, json=body, microversion=_MICROVERSION)
    errors.check(response, _NOVA)


def detach(conn: 'connection.Connection', server_id: str, volume_id: str) -> None:
    """Ask for a volume to be detached; Nova answers before it is done.

    :raises climate_core.cloud.errors.Gone: the server is gone, or does not have the volume
    :raises climate_core.cloud.errors.Busy: the state of the server does not allow it now
    :raises climate_core.exceptions.Permanent: it is the root disk of the server, or the state of
        the volume does not allow it
    """
    path = f'/servers/{server_id}/os-volume_attachments/{volume_id}'
    with errors.translated(_NOVA):
        response = conn.compute.delete(path, microversion=_MICROVERSION)
    errors.check(response, _NOVA)


def check_all_visible(conn: 'connection.Connection') -> None:
    """Do nothing if these rights see the servers of every project.

    :raises climate_core.cloud.errors.Refused: they do not
    """
    with errors.translated(_NOVA):
        response = conn.compute.get(
            '/servers', params={'all_tenants': 1, 'limit': 1}, microversion=_MICROVERSION
        )
    errors.check(response, _NOVA)


def every_id(
    conn: 'connection.Connection', every_project: bool = True, **query: Any
) -> Iterator[str]:
    """Give the ids of all servers, one call for each thousand.

    :param every_project: of all projects, which administrators may ask for
    :param query: filters, for example ``status='RESERVED'``
    """
    everywhere = {'all_tenants': 1} if every_project else {}
    marker: Mapping[str, str] = {}
    while True:
        params = {'limit': _PAGE, **everywhere, **query, **marker}
        with errors.translated(_NOVA):
            response = conn.compute.get('/servers', params=params, microversion=_MICROVERSION)
        page = [str(server['id']) for server in errors.read(response, _NOVA, 'servers')]
        yield from page
        if not response.json().get('servers_links'):
            return
        marker = {'marker': page[-1]}
