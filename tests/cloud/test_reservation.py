# SPDX-License-Identifier: Apache-2.0
"""From the hint to a running server and its end, on the real cloud."""

import json
import subprocess

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import CLOUD, Person, at, wait_for
from tests.support.kinds import kind_cell


def test_demo_on_the_local_cloud_passes() -> None:
    done = subprocess.run([CLOUD, 'demo'], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().splitlines()[-1].startswith('demo: passed')


@kind_cell('Existing servers, volumes and stacks', 'immediate')
def test_reserved_server_holds_its_place_and_wakes_in_time(booking: Booking, allocations) -> None:
    server = booking.reserve(start=at(hours=1))
    assert (server.status, server.vm_state) == ('RESERVED', 'reserved')
    assert server.addresses
    assert allocations(server.id)
    lease = booking.lease_of(server.id)
    assert lease.status == 'PENDING'
    assert [r.resource_type for r in lease.reservations] == ['virtual:instance']
    # However long the creation took.
    booking.person.leases.update(lease.id, start=at(seconds=2))
    booking.wait(server.id, 'ACTIVE')
    lease = booking.wait_lease(lease.id, 'ACTIVE')
    assert {r.status for r in lease.reservations} == {'active'}


def test_end_deletes_the_server_and_frees_its_place(booking: Booking, allocations) -> None:
    server = booking.reserve(start='now', end=at(seconds=60))
    lease = booking.lease_of(server.id)
    booking.wait(server.id, 'ACTIVE')
    booking.wait_lease(lease.id, 'TERMINATED')
    booking.wait_gone(server.id)
    assert allocations(server.id) == {}


@pytest.mark.parametrize(
    ('on_end', 'status'),
    [('stop', 'SHUTOFF'), ('suspend', 'SUSPENDED'), ('shelve', 'SHELVED_OFFLOADED')],
)
def test_end_actions_that_keep_the_server(booking: Booking, on_end: str, status: str) -> None:
    server = booking.reserve(start='now', on_end=on_end)
    lease = booking.lease_of(server.id)
    booking.wait(server.id, 'ACTIVE')
    booking.person.leases.update(lease.id, end=at(seconds=2))
    booking.wait_lease(lease.id, 'TERMINATED')
    assert booking.person.sdk.compute.get_server(server.id).status in (status, 'SHELVED')


def test_create_image_keeps_an_image_and_deletes_the_server(booking: Booking) -> None:
    """The fake hypervisor has no disk to upload, so the test uploads in its place."""
    server = booking.reserve(start='now', on_end='create_image')
    lease = booking.lease_of(server.id)
    booking.wait(server.id, 'ACTIVE')
    # Longer than an image may be called with the prefix.
    name = f'{server.name}-'.ljust(250, 'x')
    booking.person.sdk.compute.update_server(server.id, name=name)
    image_name = f'reserved_{name}'[:255]
    booking.person.leases.delete(lease.id)
    glance = booking.person.sdk.image
    [image] = wait_for(lambda: list(glance.images(name=image_name)), 'an image')
    assert booking.person.sdk.compute.get_server(server.id)
    glance.update_image(image, disk_format='raw', container_format='bare')
    glance.put(
        f'/images/{image.id}/file',
        data=b'disk',
        headers={'Content-Type': 'application/octet-stream'},
    ).raise_for_status()
    booking.wait_gone(server.id)
    [image] = glance.images(name=image_name)
    assert image.status == 'active'
    glance.delete_image(image.id)


def test_two_servers_of_one_request_share_a_lease(booking: Booking) -> None:
    hints = {'reserved': 'True', 'lease_params': json.dumps({'start': at(hours=1)})}
    first = booking.post(hints, min_count=2, max_count=2).json()['server']['id']
    booking.wait(first, 'RESERVED')
    lease = booking.lease_of(first)
    lease = wait_for(
        lambda: next(
            (x for x in [booking.person.leases.get(lease.id)] if len(x.reservations) == 2), None
        ),
        'two reservations',
    )
    for reservation in lease.reservations:
        booking.wait(reservation.resource_id, 'RESERVED')


def test_joining_a_running_lease_wakes_at_once(booking: Booking) -> None:
    first = booking.reserve(start='now')
    lease = booking.lease_of(first.id)
    booking.wait_lease(lease.id, 'ACTIVE')
    second = booking.reserve(hints={'reserved': 'True', 'lease_id': lease.id})
    booking.wait(second.id, 'ACTIVE')
    lease = booking.wait_lease(lease.id, 'ACTIVE')
    assert {r.resource_id for r in lease.reservations} == {first.id, second.id}


@pytest.mark.parametrize(
    ('hints', 'field'),
    [
        ({'reserved': 'perhaps'}, 'reserved'),
        ({'reserved': 'True', 'lease_params': '{"end": '}, 'lease_params'),
        ({'reserved': 'True', 'lease_params': '{"colour": "red"}'}, 'colour'),
        ({'reserved': 'True', 'lease_params': '{"end": "2001-01-01 00:00"}'}, 'end'),
        ({'reserved': 'True', 'lease_params': '{"on_end": "explode"}'}, 'on_end'),
        ({'reserved': 'True', 'lease_id': '0cc12f7a-6d1c-4c0c-8f62-3a7d0f1d7e55'}, 'lease_id'),
        ({'lease_params': None}, 'lease_params'),
    ],
)
def test_wrong_hint_is_refused_and_leaves_nothing(
    booking: Booking, hints: dict, field: str
) -> None:
    before = {lease.id for lease in booking.person.leases.list()}
    response = booking.post(hints)
    assert response.status_code == 400, response.text
    assert field in response.text
    names = {server.name for server in booking.person.sdk.compute.servers(details=False)}
    assert booking.names[-1] not in names
    assert {lease.id for lease in booking.person.leases.list()} <= before


def test_deleting_a_reserved_server_frees_everything(booking: Booking, allocations) -> None:
    server = booking.reserve(start=at(hours=1))
    lease = booking.lease_of(server.id)
    booking.person.sdk.compute.delete_server(server.id)
    booking.wait_gone(server.id)
    assert allocations(server.id) == {}
    ports = booking.person.sdk.network.ports(device_id=server.id)
    assert list(ports) == []
    lease = booking.wait_lease(lease.id, 'TERMINATED')
    assert 'delete' in (lease.status_reason or '')


def test_lease_of_another_project_is_not_there(booking: Booking, stranger: Person) -> None:
    server = booking.reserve(start=at(hours=1))
    lease = booking.lease_of(server.id)
    assert lease.id not in {other.id for other in stranger.leases.list()}
    for method in ('get', 'put', 'delete'):
        response = getattr(stranger.sdk.session, method)(
            f'/leases/{lease.id}',
            endpoint_filter={'service_type': 'reservation'},
            raise_exc=False,
            **({'json': {'name': 'mine'}} if method == 'put' else {}),
        )
        assert response.status_code == 404
