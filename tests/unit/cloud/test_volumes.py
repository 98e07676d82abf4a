# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core import exceptions
from climate_core.cloud import errors, services
from climate_core.cloud import volumes as cloud_volumes
from tests.support.fakes import cinder

BACKUP = cloud_volumes.CopyKind.BACKUP


@pytest.fixture
def conn(volumes):
    return volumes.cloud.service()


@pytest.mark.parametrize(
    ('status', 'reason'),
    [(200, 'No space.'), (403, 'reports no reason'), (404, 'reports no reason')],
)
def test_reason_of_a_failed_volume_is_its_message(volumes, conn, status, reason):
    volume = cinder.add(volumes.state, message='No space.')
    if status != 200:
        volumes.fault('GET', '/messages', status)
    assert reason in cloud_volumes.read_failure_reason(conn, volume['id'])


def test_the_reason_while_cinder_is_away(volumes, conn):
    volumes.fault('GET', '/messages', 503)
    with pytest.raises(exceptions.Transient):
        cloud_volumes.read_failure_reason(conn, 'x')


@pytest.mark.parametrize(
    ('statuses', 'expected'),
    [
        ([], None),
        (['creating'], 'creating'),
        (['error', 'available'], 'available'),
        (['error', 'restoring'], 'restoring'),
        (['deleting', 'error'], 'deleting'),
    ],
)
def test_the_copy_of_a_reservation(volumes, conn, statuses, expected):
    volume = cinder.add(volumes.state)
    for number, status in enumerate(statuses):
        backup = {
            'id': f'backup-{number}',
            'status': status,
            'volume_id': volume['id'],
            'project_id': 'demo-id',
            'metadata': {cloud_volumes.RESERVATION_KEY: 'reservation-1'},
        }
        volumes.state.put('backups', backup, {'what': 'backup create', 'id': backup['id']})
    found = cloud_volumes.find_copy(conn, BACKUP, volume['id'], 'reservation-1', all_projects=True)
    assert (found and found.status) == expected
    assert (
        cloud_volumes.find_copy(conn, BACKUP, volume['id'], 'reservation-2', all_projects=True)
        is None
    )
    assert (
        cloud_volumes.find_copy(conn, BACKUP, 'another', 'reservation-1', all_projects=True)
        is None
    )


def test_delete_a_copy_that_is_gone_tells_so(conn):
    with pytest.raises(errors.Gone):
        cloud_volumes.delete_copy(conn, BACKUP, 'nothing')


def offer(volumes):
    volume = cinder.add(volumes.state, status='awaiting-transfer')
    transfer = {'id': volume['id'], 'volume_id': volume['id'], 'project_id': 'demo-id'}
    volumes.state.put('transfers', transfer, {'what': 'transfer create', 'id': volume['id']})
    return volume['id']


def test_the_offers_of_one_volume_are_asked_for(volumes, conn):
    mine, _ = offer(volumes), offer(volumes)
    with volumes.counted() as sent:
        cloud_volumes.cancel_transfers(conn, mine, all_projects=True)
    asked = [line for line in sent if '/os-volume-transfer?' in line]
    assert len(asked) == 1
    assert f'volume_id={mine}' in asked[0]


def test_the_offers_of_others_stay_if_cinder_lists_them(volumes, conn, monkeypatch):
    send = services.Service.send

    def unfiltered(cinder, conn, method, path, body=None, query=None, microversion=None):
        query = {key: value for key, value in (query or {}).items() if key != 'volume_id'}
        return send(cinder, conn, method, path, body, query, microversion)

    monkeypatch.setattr(services.Service, 'send', unfiltered)
    mine, other = offer(volumes), offer(volumes)
    cloud_volumes.cancel_transfers(conn, mine, all_projects=True)
    assert list(volumes.state.transfers) == [other]
