# SPDX-License-Identifier: Apache-2.0
"""The image that is made of a server at the end of its lease.

It carries the reservation's id, so that it is made once however often the end is tried. Facts:
Image API v2 (a custom property is a filter of the list), Compute API ``createImage``.
"""

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from climate_core.cloud import errors, servers

if TYPE_CHECKING:
    from openstack import connection

_GLANCE = 'Glance'
#: The property that carries the id of the reservation.
PROPERTY = 'climate_reservation_id'
#: Statuses of an image that cannot be booted from any more.
_DEAD = frozenset({'deleted', 'killed', 'pending_delete'})


class Image(NamedTuple):
    """An image as far as it matters here."""

    id: str
    status: str


def find(conn: 'connection.Connection', reservation_id: str) -> Image | None:
    """Return the image that was made for a reservation, the complete one if there are more."""
    with errors.translated(_GLANCE):
        response = conn.image.get('/images', params={PROPERTY: reservation_id})
    images = errors.read(response, _GLANCE, 'images')
    alive = [Image(each['id'], each['status']) for each in images if each['status'] not in _DEAD]
    return min(alive, key=lambda image: image.status != 'active', default=None)


def describe(conn: 'connection.Connection', reservation_id: str, shelved: str) -> str:
    """Return a text that changes when the image of a server does that is being uploaded.

    :param shelved: the name that Nova gives the image of a shelved server
        (nova/compute/api.py ``shelve``)
    """
    found: list[str] = []
    for query in ({PROPERTY: reservation_id}, {'name': shelved}):
        with errors.translated(_GLANCE):
            response = conn.image.get('/images', params=query)
        for each in errors.read(response, _GLANCE, 'images'):
            shown = (each.get(key) for key in ('id', 'status', 'size', 'updated_at'))
            found.append(' '.join(map(str, shown)))
    return ', '.join(sorted(set(found)))


def delete(conn: 'connection.Connection', image_id: str) -> None:
    """Delete an image; one that is gone is fine."""
    with errors.translated(_GLANCE):
        response = conn.image.delete(f'/images/{image_id}')
    with contextlib.suppress(errors.Gone):
        errors.check(response, _GLANCE)


def create(conn: 'connection.Connection', server_id: str, name: str, reservation_id: str) -> None:
    """Ask Nova to make the image; it makes the record of the image before it answers."""
    metadata = {PROPERTY: reservation_id}
    servers.act(conn, server_id, 'createImage', {'name': name, 'metadata': metadata})
