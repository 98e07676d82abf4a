# SPDX-License-Identifier: Apache-2.0
import datetime
import uuid

import pytest

from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.plugins.base import PollAgain
from climate_core.plugins.volume import VolumePlugin
from tests.conformance.world import reserved
from tests.support.fakes import cinder
from tests.support.missing import find_missing
from tests.unit.plugins.cases import change


def reserve(volumes, context=None, **values):
    return volumes.plugin().reserve(context or volumes.user(), values)


def test_reserved_volume_is_counted_with_its_size(volumes):
    volume = cinder.add(volumes.state, size=7)
    claimed = reserve(volumes, resource_id=volume['id'])
    assert claimed.amounts == {'volumes': 1, 'gigabytes': 7}


def test_a_volume_that_is_being_created_when_cinder_asks(volumes):
    volume = cinder.add(volumes.state, status='creating')
    context = volumes.context('alice', ['service'])
    assert reserve(volumes, context, resource_id=volume['id']).resource_id == volume['id']


@pytest.mark.parametrize('roles', [None, [], ['member']])
def test_a_volume_that_is_being_created_when_a_user_asks(volumes, roles):
    """It may be one that does not wait for any lease."""
    volume = cinder.add(volumes.state, status='creating')
    context = volumes.context('alice', roles)
    with pytest.raises(exceptions.BadRequest, match='creating') as caught:
        reserve(volumes, context, resource_id=volume['id'])
    assert caught.value.field == 'resource_id'


@pytest.mark.parametrize('status', ['available', 'in-use', 'error', 'reserved', 'downloading'])
def test_what_is_there_already_cannot_be_reserved(volumes, status):
    volume = cinder.add(volumes.state, status=status)
    context = volumes.context('alice', ['service'])
    with pytest.raises(exceptions.BadRequest, match=status):
        reserve(volumes, context, resource_id=volume['id'])


@pytest.mark.parametrize(
    'status', ['available', 'in-use', 'reserved', 'attaching', 'error_extending', 'maintenance']
)
def test_what_was_done_after_the_start_is_respected(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    assert case.wake_once() is None
    assert volumes.wakes(case.resource_id) == 0


def test_a_creation_that_does_not_end_is_told(volumes):
    case = reserved(volumes)
    change(case, status='downloading')
    assert case.wake_once().reason is None
    case.time.forward(600)
    assert case.wake_once().reason == 'The volume has been downloading for a long time.'


@pytest.mark.parametrize('status', ['creating', 'downloading'])
def test_what_is_on_its_way_is_waited_for(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    assert isinstance(case.wake_once(), PollAgain)
    assert volumes.wakes(case.resource_id) == 0


@pytest.mark.parametrize('status', ['deleting', 'error_deleting'])
def test_what_is_being_deleted_keeps_no_server_waiting(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    with pytest.raises(exceptions.Permanent, match='deleted'):
        case.wake_once()


def test_a_creation_that_broke_off_is_begun_again(volumes):
    """Cinder's own restart makes it an error; the mark of it is still there."""
    case = reserved(volumes)
    change(case, status='error')
    case.wake()
    assert volumes.awake(case.resource_id)
    assert volumes.wakes(case.resource_id) == 1


@pytest.mark.parametrize(
    ('fields', 'reason'),
    [
        ({'status': 'error', 'message': 'create volume:No space left.'}, 'No space left'),
        # Cinder-backup has a status of its own, and a message of the backup.
        ({'status': 'error_restoring'}, 'backup could not be restored'),
    ],
)
def test_a_creation_that_ends_in_error_is_told_and_begun_again(volumes, fields, reason):
    case = reserved(volumes)
    case.wake_once()
    change(case, next=[], **fields)
    with pytest.raises(exceptions.Transient, match=reason):
        case.wake_once()
    case.wake()
    assert volumes.awake(case.resource_id)
    assert volumes.wakes(case.resource_id) == 2


@pytest.mark.parametrize('reason', ['No backend', 'reports no reason'])
def test_an_error_that_is_not_of_a_reservation(volumes, reason):
    case = reserved(volumes)
    change(case, status='error', mark=False, message='create volume:No backend.')
    if 'no reason' in reason:
        volumes.fault('GET', '/messages', 403)
    with pytest.raises(exceptions.Permanent, match=reason):
        case.wake_once()


def test_cinder_without_the_extension(volumes, monkeypatch):
    case = reserved(volumes)
    monkeypatch.setattr(cinder, 'ACTIONS', {})
    with pytest.raises(exceptions.Permanent, match='no such action'):
        case.wake_once()


def test_second_look_of_a_wake_up_takes_one_request(volumes):
    case = reserved(volumes)
    case.wake_once()
    with volumes.counted() as sent:
        case.wake_once()
    assert len(sent) == 1


def test_volumes_that_wait_without_a_lease_are_listed(volumes):
    volume = cinder.add(volumes.state, updated_at=None, created_at='2026-02-03T04:05:06.000000')
    cinder.add(volumes.state, status='available')
    plugin = volumes.plugin()
    assert list(plugin.list_unleased()) == [volume['id']]
    made = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    assert plugin.unleased_since(volume['id']) == made
    volume['updated_at'] = '2026-02-04T04:05:06.000000'
    assert plugin.unleased_since(volume['id']) == made + datetime.timedelta(days=1)


@pytest.mark.parametrize('status', ['creating', 'available', 'deleting'])
def test_what_does_not_wait_any_more(volumes, status):
    volume = cinder.add(volumes.state, status=status)
    assert volumes.plugin().unleased_since(volume['id']) is None


def test_a_cloud_without_cinder(volumes, fake):
    """The plugin is enabled by default."""
    fake.state.no_cinder = True
    plugin = VolumePlugin(volumes.conf, Cloud(volumes.conf))
    assert list(plugin.list_unleased()) == []
    assert find_missing(plugin, []) == {}
    with pytest.raises(exceptions.ServiceUnavailable, match='Cinder'):
        plugin.reserve(volumes.user(), {'resource_id': str(uuid.uuid4())})
    fake.state.no_cinder = False
    volume = cinder.add(volumes.state)
    later = VolumePlugin(volumes.conf, Cloud(volumes.conf))
    assert list(later.list_unleased()) == [volume['id']]
