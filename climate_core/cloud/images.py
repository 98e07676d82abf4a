# SPDX-License-Identifier: Apache-2.0
"""The image that is made of a server at the end of its lease.

It carries the reservation's id, so that it is made once however often the end is tried. Facts:
Image API v2 (a custom property is a filter of the list), Compute API ``createImage``.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from climate_common import limits
from climate_core.cloud import errors, servers
from climate_core.cloud.services import Copy, Service, check_own

if TYPE_CHECKING:
    from climate_core.cloud import connection

_GLANCE = Service('Glance', 'image', '2')
#: The property that carries the id of the reservation.
PROPERTY = 'climate_reservation_id'
#: Statuses of an image that cannot be booted from any more.
_DEAD = frozenset({'deleted', 'killed', 'pending_delete'})


def get(conn: 'connection.Connection', image_id: str) -> dict[str, Any]:
    """Return an image; Gone if there is none that these rights see."""
    found: dict[str, Any] = _GLANCE.read(conn, f'/images/{image_id}')
    return found


def check(conn: 'connection.Connection', image_id: str) -> dict[str, Any]:
    """Return an image; Gone if the project of these rights may use no such image."""
    found = get(conn, image_id)
    if found.get('visibility') == 'private':
        check_own(conn, found.get('owner'), f'image {image_id}')
    return found


def disk_gb(image: Mapping[str, Any]) -> int:
    """Return the GiB that a disk of an image must have."""
    size = -(-int(image.get('size') or 0) // 2**30)
    return max(size, int(image.get('min_disk') or 0))


def find(conn: 'connection.Connection', reservation_id: str, project_id: str) -> Copy | None:
    """Return the image that was made for a reservation, the complete one if there are more.

    Any user may give an image the property, and share it. So one counts only if it belongs to the
    project of the lease, or to that of these rights, with which it may have been created.
    """
    images = _GLANCE.read(conn, '/images', 'images', {PROPERTY: reservation_id})
    own = {project_id, conn.current_project_id}
    alive = [
        Copy(each['id'], each['status'])
        for each in images
        if each['status'] not in _DEAD and each['owner'] in own
    ]
    return Copy.best(alive, {'active'})


def describe(conn: 'connection.Connection', reservation_id: str, shelved: str) -> str:
    """Return a text that changes when the image of a server does that is being uploaded.

    :param shelved: the name that Nova gives the image of a shelved server
        (nova/compute/api.py ``shelve``)
    """
    found = {
        ' '.join(str(each.get(key)) for key in ('id', 'status', 'size', 'updated_at'))
        for query in ({PROPERTY: reservation_id}, {'name': shelved})
        for each in _GLANCE.read(conn, '/images', 'images', query)
    }
    return ', '.join(sorted(found))


def delete(conn: 'connection.Connection', image_id: str) -> None:
    """Delete an image; one that is gone is fine."""
    with contextlib.suppress(errors.Gone):
        _GLANCE.ask(conn, 'DELETE', f'/images/{image_id}')


def create(conn: 'connection.Connection', server_id: str, name: str, reservation_id: str) -> None:
    """Ask Nova to make the image; it makes the record of the image before it answers.

    :param name: is cut to what Nova accepts, which is no blank at either end
    """
    short = name.strip()[: limits.NAME_LENGTH].rstrip()
    metadata = {PROPERTY: reservation_id}
    servers.act(conn, server_id, 'createImage', {'name': short, 'metadata': metadata})
