# SPDX-License-Identifier: Apache-2.0
"""What Cinder tells of volumes that are no more, on the real message bus."""

import json

from tests.cloud.people import at
from tests.cloud.reserving import Reserving


def test_each_deletion_is_heard(volumes: Reserving) -> None:
    """Nova's and Heat's listeners take none of these messages away; see [cinder_notifications]."""
    reserved = [volumes.reserve(start=at(hours=1)) for _ in range(6)]
    leases = [volumes.lease_of(each.id).id for each in reserved]
    for each in reserved:
        volumes.cinder.delete_volume(each.id)
    for lease_id in leases:
        lease = volumes.wait_lease(lease_id, 'TERMINATED')
        assert 'deleted outside' in lease.status_reason


def test_a_volume_for_which_there_is_no_room(volumes: Reserving) -> None:
    held = volumes.held()
    params = {'name': 'too-large', 'start': at(hours=1), 'end': at(hours=2)}
    hints = {'reserved': 'True', 'lease_params': json.dumps(params)}
    response = volumes.post(hints, size=9000, volume_type='ceph')
    assert response.status_code == 202, response.text
    volume_id = response.json()['volume']['id']
    volumes.wait(volume_id, 'error')
    lease = volumes.wait_lease(volumes.lease_of(volume_id).id, 'TERMINATED')
    assert 'Cinder found no backend for the volume.' in lease.status_reason
    assert volumes.held() == held
    volumes.cinder.delete_volume(volume_id)
    volumes.wait_gone(volume_id)
