# SPDX-License-Identifier: Apache-2.0
"""From the hint to a volume with its bytes and its end, on the real cloud."""

import json

import pytest

from climateclient import exceptions
from tests.cloud import ceph
from tests.cloud.booking import Booking
from tests.cloud.ceph import IMAGE_BYTES
from tests.cloud.people import Person, at, wait_for
from tests.cloud.reserving import RESERVED, Reserving
from tests.support.kinds import kind_cell


def test_the_command_reserves_and_nothing_is_made_before_the_start(real: Reserving) -> None:
    quota, held = real.quota(), real.held()
    params = {'name': 'of-the-command', 'start': at(hours=1), 'end': at(hours=2)}
    done = real.person.cli(
        *('openstack', 'volume', 'create', '--size', '1', '--type', 'ceph', '-f', 'json'),
        *('--hint', 'reserved=True', '--hint', f'lease_params={json.dumps(params)}', real.name()),
    )
    assert done.returncode == 0, done.stderr
    volume_id = json.loads(done.stdout)['id']
    real.wait(volume_id, RESERVED)
    lease = real.lease_of(volume_id)
    real.leases.add(lease.id)
    assert (lease.name, lease.status) == ('of-the-command', 'PENDING')
    assert [(r.resource_type, r.status) for r in lease.reservations] == [
        ('virtual:volume', 'pending')
    ]
    assert real.quota() == (quota[0] + 1, quota[1] + 1)
    assert real.held() == (held[0] + 1, held[1] + 1)
    assert ceph.image_of(volume_id) not in ceph.images()

    real.person.leases.update(lease.id, start='now')
    real.wait(volume_id, 'available')
    assert ceph.image_of(volume_id) in ceph.images()
    lease = real.wait_lease(lease.id, 'ACTIVE')
    assert real.quota() == (quota[0] + 1, quota[1] + 1)

    real.person.leases.end(lease.id)
    real.wait_lease(lease.id, 'TERMINATED')
    real.wait_gone(volume_id)
    assert ceph.image_of(volume_id) not in ceph.images()
    assert (real.quota(), real.held()) == (quota, held)


@kind_cell('New volumes', 'immediate')
def test_the_command_has_volumes_made_that_are_created_at_the_start(real: Reserving) -> None:
    quota, name = real.quota(), real.name()
    real.names += [f'{name}-1', f'{name}-2']
    done = real.person.cli(
        *('openstack', 'lease', 'create', name, '--start', '+1h', '--for', '1h', '-f', 'json'),
        *('--new-volume', 'size=1,type=ceph,count=2'),
    )
    assert done.returncode == 0, done.stderr
    lease_id = json.loads(done.stdout)['id']
    real.leases.add(lease_id)
    wait_for(lambda: statuses(real, name) == [RESERVED] * 2, f'both {name} {RESERVED}')
    ids = {each.resource_id for each in real.person.leases.get(lease_id).reservations}
    assert real.quota() == (quota[0] + 2, quota[1] + 2)
    assert not {ceph.image_of(each) for each in ids} & set(ceph.images())

    real.person.leases.update(lease_id, start='now')
    assert real.wait_lease(lease_id, 'ACTIVE').status == 'ACTIVE'
    assert statuses(real, name) == ['available'] * 2
    assert {ceph.image_of(each) for each in ids} <= set(ceph.images())
    real.person.leases.end(lease_id)
    real.wait_lease(lease_id, 'TERMINATED')
    assert statuses(real, name) == []
    assert real.quota() == quota


@kind_cell('New volumes', 'scheduled')
def test_scheduled_volumes_are_made_shortly_before_the_start(real: Reserving) -> None:
    name = real.name()
    real.names += [f'{name}-1', f'{name}-2']
    wanted = {'name': name, 'size': 1, 'volume_type': 'ceph', 'count': 2}
    reservation = {'resource_type': 'virtual:volume', 'volume': wanted}
    more = {'start': at(seconds=40), 'duration': '1h', 'kind': 'scheduled'}
    lease = real.person.leases.create(name, reservations=[reservation], **more)
    real.leases.add(lease.id)
    assert statuses(real, name) == []
    assert real.wait_lease(lease.id, 'ACTIVE').status == 'ACTIVE'
    assert statuses(real, name) == ['available'] * 2

    reservation['volume']['size'] = 1000
    with pytest.raises(exceptions.Conflict, match='too little GiB on 1 storage pool'):
        real.person.leases.create(
            name, reservations=[reservation], **more | {'start': at(hours=1)}
        )


def statuses(real: Reserving, name: str) -> list[str]:
    """Return the statuses of the volumes whose names begin so."""
    found = (each for each in real.cinder.volumes() if each.name.startswith(f'{name}-'))
    return [each.status for each in found]


def test_a_volume_of_an_image_gets_its_bytes_at_the_start(real: Reserving, image: str) -> None:
    volume = real.reserve(start=at(hours=1), volume={'imageRef': image})
    assert volume.is_bootable
    assert volume.volume_image_metadata['image_id'] == image
    assert ceph.image_of(volume.id) not in ceph.images()
    lease = real.lease_of(volume.id)
    real.person.leases.update(lease.id, start='now')
    awake = real.wait(volume.id, 'available')
    assert awake.is_bootable
    assert ceph.image_of(volume.id) in ceph.images()
    assert ceph.used_bytes(ceph.image_of(volume.id)) == IMAGE_BYTES


def test_the_operator_sees_what_waits(volumes: Reserving, admin: Person) -> None:
    """What the guide says to look at before the extension is removed."""
    volume = volumes.reserve(start=at(hours=1))
    command = ['volume', 'list', '--all-projects', '--status', RESERVED, '-f', 'value', '-c', 'ID']
    done = admin.cli('openstack', *command)
    assert done.returncode == 0, done.stderr
    assert volume.id in done.stdout.split()


def test_the_administrator_wakes_a_volume(volumes: Reserving, admin: Person) -> None:
    volume = volumes.reserve(start=at(hours=1))
    done = admin.cli('openstack', 'volume', 'wake', 'up', volume.id)
    assert done.returncode == 0, done.stderr
    volumes.wait(volume.id, 'available')


def attached(volumes: Reserving, volume_id: str) -> set[str]:
    """Return the servers that a volume is attached to."""
    return {each['server_id'] for each in volumes.get(volume_id).attachments}


def test_a_server_and_the_volumes_it_boots_from_and_uses(
    volumes: Reserving, booking: Booking
) -> None:
    """The volumes are there before the server, and it is gone before them: all at first try."""
    disk = volumes.reserve(
        start=at(hours=1), volume={'imageRef': booking.image.id, 'volume_type': 'ceph'}
    )
    lease = volumes.lease_of(disk.id)
    join = {'reserved': 'True', 'lease_id': lease.id}
    data = volumes.reserve(hints=join)
    server_id = booking.reserve_with_volumes(
        lease.id,
        {'boot_index': 0, 'uuid': disk.id},
        {'boot_index': -1, 'uuid': data.id},
        imageRef='',
    )
    assert {volumes.get(one.id).status for one in (disk, data)} == {RESERVED}

    volumes.person.leases.update(lease.id, start='now')
    booking.wait(server_id, 'ACTIVE')
    for one in (disk, data):
        volumes.wait(one.id, 'in-use')
        assert attached(volumes, one.id) == {server_id}
    volumes.wait_lease(lease.id, 'ACTIVE')

    volumes.person.leases.end(lease.id)
    volumes.wait_lease(lease.id, 'TERMINATED')
    booking.wait_gone(server_id)
    volumes.wait_gone(disk.id)
    volumes.wait_gone(data.id)
    history = list(volumes.person.leases.history(lease.id))
    assert [each for each in history if each.result in ('retry', 'failed')] == []


@pytest.mark.parametrize(
    ('hints', 'field'),
    [
        ({'reserved': 'perhaps'}, 'reserved'),
        ({'reserved': 'True', 'lease_params': '{"end": '}, 'lease_params'),
        ({'reserved': 'True', 'lease_params': '{"end": "2001-01-01 00:00"}'}, 'end'),
        ({'reserved': 'True', 'lease_params': '{"on_end": "shelve"}'}, 'on_end'),
        ({'reserved': 'True', 'lease_id': '0cc12f7a-6d1c-4c0c-8f62-3a7d0f1d7e55'}, 'lease_id'),
    ],
)
def test_wrong_hint_is_refused_and_leaves_nothing(
    volumes: Reserving, hints: dict, field: str
) -> None:
    before = volumes.quota(), volumes.held()
    response = volumes.post(hints)
    assert response.status_code == 400, response.text
    assert field in response.text
    assert not volumes.exists(volumes.names[-1])
    assert (volumes.quota(), volumes.held()) == before


def test_deleting_a_reserved_volume_is_noticed_by_its_lease(volumes: Reserving) -> None:
    """Cinder tells it on the bus: no comparison comes so soon."""
    quota = volumes.quota()
    volume = volumes.reserve(start=at(hours=1))
    lease = volumes.lease_of(volume.id)
    volumes.cinder.delete_volume(volume.id)
    volumes.wait_gone(volume.id)
    lease = volumes.wait_lease(lease.id, 'TERMINATED')
    assert 'delete' in (lease.status_reason or '')
    assert volumes.quota() == quota


def test_the_end_takes_a_volume_from_a_server_that_stays(
    volumes: Reserving, booking: Booking
) -> None:
    server = booking.reserve(start='now')
    booking.wait(server.id, 'ACTIVE')
    volume = volumes.reserve(start='now', on_end='detach')
    lease = volumes.lease_of(volume.id)
    volumes.wait_lease(lease.id, 'ACTIVE')
    compute = volumes.person.sdk.compute
    compute.create_volume_attachment(server.id, volume_id=volume.id)
    volumes.wait(volume.id, 'in-use')
    volumes.person.leases.end(lease.id)
    volumes.wait_lease(lease.id, 'TERMINATED')
    assert volumes.get(volume.id).status == 'available'
    assert attached(volumes, volume.id) == set()
    assert compute.get_server(server.id).status == 'ACTIVE'
