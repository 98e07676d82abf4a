# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core.cloud import errors, images, servers
from tests.fakes import nova


def test_every_id_goes_through_the_pages(world, monkeypatch):
    monkeypatch.setattr(servers, '_PAGE', 2)
    made = {nova.add(world.state)['id'] for _ in range(5)}
    with world.counted() as sent:
        assert set(servers.every_id(world.cloud.service())) == made
    assert sum('/servers?' in line for line in sent) == 3


def test_every_id_can_be_filtered(world):
    nova.add(world.state, status='ACTIVE')
    reserved = nova.add(world.state)
    assert list(servers.every_id(world.cloud.service(), status='RESERVED')) == [reserved['id']]


def test_delete_what_is_gone(world):
    with pytest.raises(errors.Gone):
        servers.delete(world.cloud.service(), 'nothing')


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
            'metadata': {images.PROPERTY: 'reservation-1'},
        }
        world.state.put('images', image, {'what': 'image create', 'id': image['id']})
    conn = world.cloud.service()
    found = images.find(conn, 'reservation-1')
    assert (found and found.status) == expected
    assert images.find(conn, 'reservation-2') is None
