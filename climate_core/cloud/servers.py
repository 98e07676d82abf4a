# SPDX-License-Identifier: Apache-2.0
"""The calls to Nova about servers, flavors and hypervisors, and those to Glance about images.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`: Gone if the resource does not exist, Busy if its state does not
allow the action now. Nova answers before an action is complete. The image that is created of a
server at the end of its lease carries the reservation's id, so that it is created once however
often the end is tried. Facts: Compute API, ``/servers``, ``createImage``, ``/flavors``,
``/os-hypervisors`` and ``/os-services``; Image API v2 (a custom property is a filter of the list).
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib import parse

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.services import Copy, Service, check_project

#: ``locked`` (2.9), ``image_id`` in the answer of createImage (2.45), a change of
#: ``delete_on_termination`` (2.85).
NOVA = Service('Nova', 'compute', '2', '2.90')
#: The last microversion that shows the size and the CPU of a hypervisor. Since 2.53 the id of a
#: hypervisor is that of its root provider in Placement.
NOVA_HOSTS = Service('Nova', 'compute', '2', '2.87')
#: The microversion that shows the scheduler hints of a server.
_WITH_HINTS = '2.100'
#: The microversion that shows the pinned zone of a server (2.96) and its image properties (2.98).
_WITH_LIMITS = '2.98'
#: The attribute of a server with its volumes, including those it waits for.
VOLUMES = 'os-extended-volumes:volumes_attached'
#: The tasks of a server that is being deleted (nova/compute/task_states.py).
_DELETING = frozenset({'deleting', 'soft-deleting'})


def get(conn: Connection, server_id: str, *, hints: bool = False) -> dict[str, Any]:
    """Return a server as the API shows it.

    :param hints: include ``scheduler_hints``, which costs Nova one more query
    """
    microversion = _WITH_HINTS if hints else None
    server: dict[str, Any] = NOVA.read(
        conn, f'/servers/{server_id}', 'server', microversion=microversion
    )
    return server


def read_project(server: Mapping[str, Any]) -> str:
    """Return the project of a server."""
    return str(server['tenant_id'])


def is_deleting(server: Mapping[str, Any]) -> bool:
    """Return whether the deletion of a server was requested; Nova ignores another request."""
    return server.get('OS-EXT-STS:task_state') in _DELETING


def create(conn: Connection, server: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    """Request a server, RESERVED if the hints request that; return its id.

    :param server: the ``server`` of the body of POST /servers
    :raises climate_core.exceptions.Permanent: Nova rejects it, including with 409 (a port is in
        use) and 403 (a quota is exceeded)
    """
    body = {'server': dict(server), 'os:scheduler_hints': dict(hints)}
    response = NOVA.send(conn, 'POST', '/servers', body)
    kind = exceptions.Permanent if response.status_code == 409 else None
    errors.check_response(response, NOVA.name, kind)
    return str(errors.read_response(response, NOVA.name, 'server')['id'])


def find_by_tag(conn: Connection, tag: str, all_projects: bool) -> Iterator[str]:
    """Yield the ids of the servers that have a tag, including servers that are being scheduled.

    :param all_projects: list those of all projects, which requires an administrator
    """
    return list_ids(conn, all_projects, tags=tag)


def was_evacuated(conn: Connection, server_id: str) -> bool:
    """Return whether a server was rebuilt on another host because its own had failed.

    Nova records that before it notifies (nova/compute/api.py ``evacuate``).
    """
    try:
        path = f'/servers/{server_id}/os-instance-actions'
        actions = NOVA.read(conn, path, 'instanceActions')
        return any(action['action'] == 'evacuate' for action in actions)
    except errors.Gone:
        return False


def check_key(conn: Connection, name: str) -> None:
    """Raise Gone if the user of these rights has no key of this name."""
    NOVA.request(conn, 'GET', f'/os-keypairs/{parse.quote(name, safe="")}')


def check_group(conn: Connection, group_id: str) -> None:
    """Raise Gone if the project of these rights has no server group of this id."""
    group = NOVA.read(conn, f'/os-server-groups/{group_id}', 'server_group')
    check_project(conn, group.get('project_id'), f'server group {group_id}')


def check(conn: Connection, server_id: str) -> None:
    """Raise Gone if the project of these rights has no such server."""
    check_project(conn, get(conn, server_id)['tenant_id'], f'server {server_id}')


def list_on_host(conn: Connection, service_name: str) -> dict[str, dict[str, Any]]:
    """Return the servers of all projects on the hosts of a nova-compute, by their ids.

    They include ``pinned_availability_zone`` and the properties of their images.
    """
    query = {'all_tenants': 1, 'host': service_name}
    servers = NOVA.pages(conn, '/servers/detail', 'servers', query, _WITH_LIMITS)
    return {str(server['id']): server for server in servers}


def list_locked(conn: Connection) -> Iterator[dict[str, Any]]:
    """Yield the servers of all projects that are locked (Compute API 2.73)."""
    yield from NOVA.pages(conn, '/servers/detail', 'servers', {'all_tenants': 1, 'locked': True})


def act(conn: Connection, server_id: str, action: str, argument: Any = None) -> None:
    """Request an action."""
    NOVA.request(conn, 'POST', f'/servers/{server_id}/action', {action: argument})


def rename(conn: Connection, server_id: str, name: str) -> None:
    """Rename a server."""
    NOVA.request(conn, 'PUT', f'/servers/{server_id}', {'server': {'name': name}})


def set_metadata(conn: Connection, server_id: str, key: str, value: str) -> None:
    """Set one item of the metadata of a server."""
    NOVA.request(conn, 'POST', f'/servers/{server_id}/metadata', {'metadata': {key: value}})


def delete_metadata(conn: Connection, server_id: str, key: str, value: str) -> None:
    """Delete one item of the metadata of a server if it has this value."""
    path = f'/servers/{server_id}/metadata/{key}'
    if NOVA.read(conn, path, 'meta').get(key) == value:
        NOVA.request(conn, 'DELETE', path)


def delete(conn: Connection, server_id: str) -> None:
    """Request the deletion of a server."""
    NOVA.request(conn, 'DELETE', f'/servers/{server_id}')


def keep_volume(conn: Connection, server_id: str, volume_id: str) -> None:
    """Unset ``delete_on_termination`` of a volume, so that Nova does not delete it with a server.

    Nova would also delete it when it is detached from a server that is shelved and off its host
    (nova/compute/api.py ``_local_cleanup_bdm_volumes``).
    """
    body = {'volumeAttachment': {'volumeId': volume_id, 'delete_on_termination': False}}
    NOVA.request(conn, 'PUT', f'/servers/{server_id}/os-volume_attachments/{volume_id}', body)


def detach(conn: Connection, server_id: str, volume_id: str) -> None:
    """Request that a volume is detached.

    :raises climate_core.exceptions.Permanent: it is the root disk of the server, or the state of
        the volume does not allow it
    """
    NOVA.request(conn, 'DELETE', f'/servers/{server_id}/os-volume_attachments/{volume_id}')


def check_all_visible(conn: Connection) -> None:
    """Raise Forbidden if these rights do not see the servers of every project."""
    NOVA.read(conn, '/servers', 'servers', {'all_tenants': 1, 'limit': 1})


def list_ids(conn: Connection, all_projects: bool = True, **query: Any) -> Iterator[str]:
    """Yield the ids of all servers, one call for each thousand.

    :param all_projects: list those of all projects, which requires an administrator
    :param query: filters, for example ``status='RESERVED'``
    """
    everywhere = {'all_tenants': 1} if all_projects else {}
    for server in NOVA.pages(conn, '/servers', 'servers', {**everywhere, **query}):
        yield str(server['id'])


def get_flavor(conn: Connection, flavor_id: str) -> dict[str, Any]:
    """Return a flavor as the API shows it; without ``extra_specs`` if they are hidden.

    :raises climate_core.cloud.errors.Gone: these rights see no such flavor
    """
    path = f'/flavors/{parse.quote(flavor_id, safe="")}'
    flavor: dict[str, Any] = NOVA.read(conn, path, 'flavor')
    return flavor


def list_flavors(conn: Connection) -> list[dict[str, Any]]:
    """Return all flavors, including private ones, one call for each thousand."""
    return list(NOVA.pages(conn, '/flavors/detail', 'flavors', {'is_public': 'None'}))


def read_flavor_sizes(flavor: Mapping[str, Any]) -> dict[str, int]:
    """Return the capacity that a server with a local root disk needs of its host, by unit.

    Swap is in MiB and counts in whole GiB (nova/scheduler/utils.py, ResourceRequest).
    """
    swap = -(-int(flavor['swap'] or 0) // 1024)
    return {
        resource_types.VCPUS: flavor['vcpus'],
        resource_types.MEMORY_MB: flavor['ram'],
        resource_types.DISK_GB: flavor['disk'] + flavor['OS-FLV-EXT-DATA:ephemeral'] + swap,
    }


def list_hypervisors(conn: Connection) -> Iterator[dict[str, Any]]:
    """Yield all hypervisors with their details, one call for each thousand."""
    yield from NOVA_HOSTS.pages(conn, '/os-hypervisors/detail', 'hypervisors', {})


def list_hypervisors_with_servers(conn: Connection) -> Iterator[dict[str, Any]]:
    """Yield all hypervisors as :func:`list_hypervisors` does, with ``servers`` if they have any.

    Each of those has a ``uuid``. Facts: Compute API reference, ``with_servers`` since 2.53.
    """
    query = {'with_servers': 'true'}
    yield from NOVA_HOSTS.pages(conn, '/os-hypervisors/detail', 'hypervisors', query)


def list_compute_services(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return every nova-compute by its host: ``zone``, ``state``, ``status`` and more."""
    query = {'binary': 'nova-compute'}
    services = NOVA_HOSTS.read(conn, '/os-services', 'services', query)
    return {service['host']: service for service in services}


_GLANCE = Service('Glance', 'image', '2')
#: The image property with the id of the reservation.
RESERVATION_PROPERTY = 'climate_reservation_id'
#: Statuses of an image from which servers can no longer boot.
_UNUSABLE_IMAGES = frozenset({'deleted', 'killed', 'pending_delete'})


def get_image(conn: Connection, image_id: str) -> dict[str, Any]:
    """Return an image; raise Gone if these rights see no such image."""
    image: dict[str, Any] = _GLANCE.read(conn, f'/images/{image_id}')
    return image


def check_image(conn: Connection, image_id: str) -> dict[str, Any]:
    """Return an image; raise Gone if the project of these rights may use no such image."""
    image = get_image(conn, image_id)
    if image.get('visibility') == 'private':
        check_project(conn, image.get('owner'), f'image {image_id}')
    return image


def image_disk_gb(image: Mapping[str, Any]) -> int:
    """Return the minimum size in GiB of a disk with this image."""
    size = -(-int(image.get('size') or 0) // 2**30)
    return max(size, int(image.get('min_disk') or 0))


def find_image(conn: Connection, reservation_id: str, project_id: str) -> Copy | None:
    """Return the image that was created for a reservation, a complete one if there are several.

    Any user may set the property of an image, and share the image. So an image counts only if it
    belongs to the project of the lease, or to that of these rights, which may have created it.
    """
    images = _GLANCE.read(conn, '/images', 'images', {RESERVATION_PROPERTY: reservation_id})
    projects = {project_id, conn.current_project_id}
    usable = [
        Copy(image['id'], image['status'])
        for image in images
        if image['status'] not in _UNUSABLE_IMAGES and image['owner'] in projects
    ]
    return Copy.best(usable, {'active'})


def describe_images(conn: Connection, reservation_id: str, shelved: str) -> str:
    """Return a text that changes with the images of a server that are being uploaded.

    :param shelved: the name of the image that Nova creates of a shelved server
        (nova/compute/api.py ``shelve``)
    """
    states = {
        ' '.join(str(image.get(key)) for key in ('id', 'status', 'size', 'updated_at'))
        for query in ({RESERVATION_PROPERTY: reservation_id}, {'name': shelved})
        for image in _GLANCE.read(conn, '/images', 'images', query)
    }
    return ', '.join(sorted(states))


def delete_image(conn: Connection, image_id: str) -> None:
    """Delete an image; it is no error if it does not exist."""
    with contextlib.suppress(errors.Gone):
        _GLANCE.request(conn, 'DELETE', f'/images/{image_id}')


def create_image(conn: Connection, server_id: str, name: str, reservation_id: str) -> None:
    """Request an image of a server from Nova, which creates its record before it answers.

    :param name: is cut to the length that Nova accepts, without blanks at its ends
    """
    short = name.strip()[: limits.NAME_LENGTH].rstrip()
    metadata = {RESERVATION_PROPERTY: reservation_id}
    act(conn, server_id, 'createImage', {'name': short, 'metadata': metadata})
