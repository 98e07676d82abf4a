# SPDX-License-Identifier: Apache-2.0
"""The bytes of a reserved volume outlive its lease in a backup, and come back with another one.

Cinder-backup does it, from one pool of Ceph into another and back.
"""

from typing import Any

from tests.cloud import ceph
from tests.cloud.people import at, wait_for
from tests.cloud.reserving import PREFIX, RESERVED, Reserving


def delete(real: Reserving, backup: Any) -> None:
    """Delete a backup, with the image that has its bytes."""
    real.delete_backup(backup.id)
    assert ceph.image_of_backup(backup) not in ceph.images(ceph.BACKUPS)


def kept(real: Reserving, image: str) -> tuple[Any, str]:
    """End a lease whose volume is full of bytes; its backup, and what the volume was."""
    volume = real.reserve(start='now', on_end='backup', volume={'imageRef': image})
    lease = real.lease_of(volume.id)
    real.wait_lease(lease.id, 'ACTIVE')
    before = ceph.digest(ceph.image_of(volume.id))
    real.person.leases.end(lease.id)
    real.wait_lease(lease.id, 'TERMINATED')
    assert real.cinder.find_volume(volume.id) is None
    assert ceph.image_of(volume.id) not in ceph.images()
    (backup,) = [each for each in real.cinder.backups() if each.volume_id == volume.id]
    assert (backup.name, backup.status) == (f'{PREFIX}{volume.name}', 'available')
    return backup, before


def test_the_bytes_come_back_with_the_lease_of_another_volume(real: Reserving, image: str) -> None:
    backup, before = kept(real, image)
    volume = real.reserve(start=at(hours=1), volume={'backup_id': backup.id})
    assert volume.status == RESERVED
    assert ceph.image_of(volume.id) not in ceph.images()
    refused = real.cinder.delete(f'/backups/{backup.id}')
    assert refused.status_code == 400, refused.text
    assert volume.id in refused.text

    lease = real.lease_of(volume.id)
    real.person.leases.update(lease.id, start='now')
    real.wait_lease(lease.id, 'ACTIVE')
    awake = real.get(volume.id)
    assert (awake.status, awake.is_bootable) == ('available', True)
    assert ceph.digest(ceph.image_of(volume.id)) == before

    # Nobody needs it any more.
    delete(real, backup)


def test_volumes_of_one_backup_start_together(real: Reserving, image: str) -> None:
    backup, before = kept(real, image)
    first = real.reserve(start=at(hours=1), volume={'backup_id': backup.id})
    lease = real.lease_of(first.id)
    join = {'reserved': 'True', 'lease_id': lease.id}
    second = real.reserve(hints=join, volume={'backup_id': backup.id})
    real.person.leases.update(lease.id, start='now')
    real.wait_lease(lease.id, 'ACTIVE')
    for volume in (first, second):
        assert real.get(volume.id).status == 'available'
        assert ceph.digest(ceph.image_of(volume.id)) == before
    wait_for(
        lambda: real.cinder.get_backup(backup.id).status == 'available', 'the backup available'
    )
