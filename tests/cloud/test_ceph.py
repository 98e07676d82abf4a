# SPDX-License-Identifier: Apache-2.0
"""An ordinary volume on real storage: what the tests of reserved volumes are compared with."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud import ceph
from tests.cloud.ceph import IMAGE_BYTES
from tests.cloud.people import Person, wait_for


class Volumes:
    """Makes volumes of the type ``ceph`` as one person, and cleans up after a test."""

    def __init__(self, person: Person) -> None:
        self.cinder = person.sdk.block_storage
        self.made: list[str] = []

    def create(self, **params: Any) -> str:
        """Make a volume of 1 GiB and return its id when it is available."""
        volume = self.cinder.create_volume(size=1, volume_type='ceph', **params)
        self.made.append(volume.id)
        wait_for(lambda: self._is_available(volume.id), f'volume {volume.id} available')
        return volume.id

    def _is_available(self, volume_id: str) -> bool:
        status = self.cinder.get_volume(volume_id).status
        assert status != 'error'
        return status == 'available'

    def delete(self, volume_id: str) -> None:
        """Delete a volume and wait until Cinder does not know it."""
        self.cinder.delete_volume(volume_id)
        wait_for(lambda: self.cinder.find_volume(volume_id) is None, f'volume {volume_id} gone')
        self.made.remove(volume_id)


@pytest.fixture
def volumes(member: Person) -> Iterator[Volumes]:
    """Volumes of the member; what is left of them afterwards is deleted, the latest first."""
    volumes = Volumes(member)
    yield volumes
    for volume_id in reversed(volumes.made[:]):
        volumes.delete(volume_id)


def test_an_empty_volume_is_an_image_without_bytes_until_it_is_deleted(volumes: Volumes) -> None:
    volume_id = volumes.create()
    assert images_of(volume_id) == [ceph.image_of(volume_id)]
    assert ceph.used_bytes(ceph.image_of(volume_id)) == 0
    volumes.delete(volume_id)
    assert images_of(volume_id) == []


def images_of(volume_id: str) -> list[str]:
    """Name the images that have to do with a volume."""
    return [name for name in ceph.images() if volume_id in name]


def test_a_volume_of_an_image_has_its_bytes(volumes: Volumes, image: str) -> None:
    volume_id = volumes.create(image_id=image)
    assert ceph.used_bytes(ceph.image_of(volume_id)) == IMAGE_BYTES
    volumes.delete(volume_id)
    assert ceph.image_of(volume_id) not in ceph.images()


def test_volumes_of_no_type_stay_out_of_ceph(member: Person) -> None:
    cinder = member.sdk.block_storage
    volume = cinder.create_volume(size=1)
    with contextlib.ExitStack() as after:
        after.callback(cinder.delete_volume, volume.id)
        wait_for(lambda: cinder.get_volume(volume.id).status == 'available', 'volume available')
        assert images_of(volume.id) == []
