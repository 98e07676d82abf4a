# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core.cloud import servers


@pytest.mark.parametrize(
    ('statuses', 'expected'),
    [
        ([], None),
        (['queued'], 'queued'),
        (['saving', 'active'], 'active'),
        (['killed', 'deleted'], None),
        (['killed', 'saving'], 'saving'),
    ],
)
def test_the_image_of_a_reservation(world, statuses, expected):
    for number, status in enumerate(statuses):
        image = {
            'id': f'image-{number}',
            'name': 'x',
            'status': status,
            'project_id': 'demo-id',
            'server_id': 'y',
            'metadata': {servers.RESERVATION_PROPERTY: 'reservation-1'},
        }
        world.state.put('images', image, {'what': 'image create', 'id': image['id']})
    conn = world.cloud.service()
    found = servers.find_image(conn, 'reservation-1', 'demo-id')
    assert (found and found.status) == expected
    assert servers.find_image(conn, 'reservation-2', 'demo-id') is None
    # Another project may have it give the property to an image of its own.
    assert servers.find_image(conn, 'reservation-1', 'other-id') is None
