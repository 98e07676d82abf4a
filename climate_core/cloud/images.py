# SPDX-License-Identifier: Apache-2.0
"""The image that is made of a server at the end of its lease.

It carries the reservation's id, so that it is made once however often the end is tried. Facts:
Image API v2 (a custom property is a filter of the list), Compute API ``createImage``.
"""

from typing import TYPE_CHECKING

from climate_core.cloud import errors, servers

if TYPE_CHECKING:
    from openstack import connection

_GLANCE = 'Glance'
#: The property that carries the id of the reservation.
PROPERTY = 'climate_reservation_id'
#: Statuses of an image that nobody can boot from any more.
_DEAD = frozenset({'deleted', 'killed', 'pending_delete'})


def status(conn: 'connection.Connection', reservation_id: str) -> str | None:
    """Return the status of the image that was made for a reservation, None if there is none."""
    with errors.translated(_GLANCE):
        response = conn.image.get('/images', params={PROPERTY: reservation_id})
    images = errors.check(response, _GLANCE).json()['images']
    alive = [str(image['status']) for image in images if image['status'] not in _DEAD]
    return 'active' if 'active' in alive else next(iter(alive), None)


def create(conn: 'connection.Connection', server_id: str, name: str, reservation_id: str) -> None:
    """Ask Nova to make the image; it makes the record of the image before it answers."""
    metadata = {PROPERTY: reservation_id}
    servers.act(conn, server_id, 'createImage', {'name': name, 'metadata': metadata})
