# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime
import uuid

import pytest

from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.plugins import missing
from climate_core.plugins.base import Wait
from climate_core.plugins.server.plugin import ServerPlugin
from climate_core.plugins.volume.plugin import VolumePlugin
from tests.conformance.world import reserved
from tests.support.fakes import cinder

WAY = {'method': 'POST', 'path': '/volumes/.*/action', 'count': 1}


def reserve(volumes, context=None, **values):
    return volumes.plugin().reserve(context or volumes.user(), values)


def look(case):
    return case.wake_once()


def change(case, **fields):
    case.world.state.volumes[case.resource_id].update(fields)


def test_volumes_wake_before_servers_and_end_after_them():
    assert VolumePlugin.rank < ServerPlugin.rank


def test_what_is_held_is_counted(volumes):
    volume = cinder.add(volumes.state, size=7)
    claimed = reserve(volumes, resource_id=volume['id'])
    assert claimed.amounts == {'volumes': 1, 'gigabytes': 7}


def test_the_end_action_comes_from_the_configuration(volumes):
    volumes.conf.set_override('on_end', 'backup', group='virtual:volume')
    volume = cinder.add(volumes.state)
    assert reserve(volumes, resource_id=volume['id']).params == {'on_end': 'backup'}
    asked = reserve(volumes, resource_id=volume['id'], on_end='detach')
    assert asked.params == {'on_end': 'detach'}


def test_a_volume_that_is_being_created_when_cinder_asks(volumes):
    volume = cinder.add(volumes.state, status='creating')
    context = volumes.context('alice')
    context.service_roles = ['service']
    assert reserve(volumes, context, resource_id=volume['id']).resource_id == volume['id']


@pytest.mark.parametrize('roles', [None, [], ['member']])
def test_a_volume_that_is_being_created_when_a_user_asks(volumes, roles):
    """It may be one that does not wait for any lease."""
    volume = cinder.add(volumes.state, status='creating')
    context = volumes.context('alice')
    context.service_roles = roles
    with pytest.raises(exceptions.BadRequest, match='creating') as caught:
        reserve(volumes, context, resource_id=volume['id'])
    assert caught.value.field == 'resource_id'


@pytest.mark.parametrize('status', ['available', 'in-use', 'error', 'reserved', 'downloading'])
def test_what_is_there_already_cannot_be_reserved(volumes, status):
    volume = cinder.add(volumes.state, status=status)
    context = volumes.context('alice')
    context.service_roles = ['service']
    with pytest.raises(exceptions.BadRequest, match=status):
        reserve(volumes, context, resource_id=volume['id'])


def test_an_administrator_reserves_in_his_project_only(volumes):
    volume = cinder.add(volumes.state)
    with pytest.raises(exceptions.ResourceNotFound):
        reserve(volumes, volumes.context('climate'), resource_id=volume['id'])


def test_an_unknown_volume(volumes):
    with pytest.raises(exceptions.ResourceNotFound):
        reserve(volumes, resource_id=str(uuid.uuid4()))


def test_a_token_that_has_expired(volumes):
    volume = cinder.add(volumes.state)
    del volumes.state.tokens[volumes.user().auth_token]
    with pytest.raises(exceptions.Unauthorized):
        reserve(volumes, resource_id=volume['id'])


@pytest.mark.parametrize(
    'status', ['available', 'in-use', 'reserved', 'attaching', 'error_extending', 'maintenance']
)
def test_what_was_done_after_the_start_is_respected(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    assert look(case) is None
    assert volumes.wakes(case.resource_id) == 0


def test_a_creation_that_does_not_end_is_told(volumes):
    case = reserved(volumes)
    change(case, status='downloading')
    assert look(case).reason is None
    case.time.forward(600)
    assert look(case).reason == 'The volume has been downloading for a long time already.'


@pytest.mark.parametrize('status', ['creating', 'downloading'])
def test_what_is_on_its_way_is_waited_for(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    assert isinstance(look(case), Wait)
    assert volumes.wakes(case.resource_id) == 0


@pytest.mark.parametrize('status', ['deleting', 'error_deleting'])
def test_what_is_being_deleted_keeps_no_server_waiting(volumes, status):
    case = reserved(volumes)
    change(case, status=status)
    with pytest.raises(exceptions.Permanent, match='deleted'):
        look(case)


def test_a_wake_up_that_failed_is_told_and_tried_again(volumes):
    case = reserved(volumes)
    change(case, wake_failures=1)
    with pytest.raises(exceptions.Transient, match='Image is not there'):
        case.wake()
    case.wake()
    assert volumes.awake(case.resource_id)
    assert volumes.wakes(case.resource_id) == 2


def test_a_wake_up_that_failed_is_not_asked_for_at_once(volumes):
    case = reserved(volumes)
    change(case, wake_failures=1)
    with pytest.raises(exceptions.Transient):
        case.wake()
    assert isinstance(look(case), Wait)
    assert volumes.wakes(case.resource_id) == 1


def test_a_creation_that_broke_off_is_begun_again(volumes):
    """Cinder's own restart makes it an error; the mark of it is still there."""
    case = reserved(volumes)
    change(case, status='error')
    case.wake()
    assert volumes.awake(case.resource_id)
    assert volumes.wakes(case.resource_id) == 1


def test_a_creation_that_ends_in_error_is_told_and_begun_again(volumes):
    case = reserved(volumes)
    look(case)
    change(case, status='error', next=[], message='create volume:No space left.')
    with pytest.raises(exceptions.Transient, match='No space left'):
        look(case)
    case.wake()
    assert volumes.wakes(case.resource_id) == 2


def test_a_backup_that_was_not_restored_is_told_and_tried_again(volumes):
    """Cinder-backup has a status of its own for it, and a message of the backup."""
    case = reserved(volumes)
    look(case)
    change(case, status='error_restoring', next=[])
    with pytest.raises(exceptions.Transient, match='backup could not be restored'):
        look(case)
    case.wake()
    assert volumes.awake(case.resource_id)
    assert volumes.wakes(case.resource_id) == 2


def test_an_error_that_is_not_of_a_reservation(volumes):
    case = reserved(volumes)
    change(case, status='error', mark=False, message='create volume:No backend.')
    with pytest.raises(exceptions.Permanent, match='No backend'):
        look(case)


def test_cinder_does_not_say_why(volumes):
    case = reserved(volumes)
    change(case, status='error', mark=False)
    volumes.state.faults.append({'method': 'GET', 'path': '/messages', 'status': 403, 'count': 1})
    with pytest.raises(exceptions.Permanent, match='does not say why'):
        look(case)


def test_somebody_was_faster(volumes):
    case = reserved(volumes)
    volumes.state.faults.append({**WAY, 'status': 409, 'after': True})
    assert isinstance(look(case), Wait)
    case.wake()
    assert volumes.wakes(case.resource_id) == 1


def test_a_conflict_that_is_none(volumes):
    case = reserved(volumes)
    volumes.state.faults.append({**WAY, 'status': 409})
    with pytest.raises(exceptions.Transient, match='409'):
        look(case)


def test_an_answer_that_was_lost(volumes):
    """Cinder took the wake-up, but its answer never came."""
    case = reserved(volumes)
    volumes.state.faults.append({**WAY, 'status': 0, 'after': True})
    with pytest.raises(exceptions.Transient):
        look(case)
    case.wake()
    assert volumes.wakes(case.resource_id) == 1


def test_cinder_without_the_extension(volumes, monkeypatch):
    case = reserved(volumes)
    monkeypatch.setattr(cinder, 'ACTIONS', {})
    with pytest.raises(exceptions.Permanent, match='no such action'):
        look(case)


def test_cinder_refuses(volumes):
    case = reserved(volumes)
    volumes.state.users['climate-id']['roles'] = ['reader']
    volumes.state.tokens.clear()
    with pytest.raises(exceptions.Permanent, match='403'):
        look(case)


def test_a_lease_without_a_trust(volumes):
    case = reserved(volumes)
    plugin, lease = case.plugin, dataclasses.replace(case.lease, trust_id=None)
    with pytest.raises(exceptions.Permanent, match='trust'):
        plugin.wake_up(lease, case.reservation)
    assert isinstance(plugin.end(lease, case.reservation), Wait)


def test_what_a_wake_up_costs(volumes):
    case = reserved(volumes)
    look(case)
    with volumes.counted() as sent:
        look(case)
    assert len(sent) == 1


def test_many_missing_are_looked_up_in_a_list(volumes, monkeypatch):
    monkeypatch.setattr(missing, '_FEW', 1)
    monkeypatch.setattr('climate_core.cloud.volumes._PAGE', 2)
    cases = [reserved(volumes) for _ in range(4)]
    volumes.destroy(cases[2].resource_id)
    with volumes.counted() as sent:
        found = volumes.plugin().find_missing([case.reservation for case in cases])
    assert set(found) == {cases[2].reservation.id}
    # Who we are; two pages; the one that is not in them.
    assert len(sent) == 4


def test_nothing_is_missing_without_the_right_to_see_it(volumes):
    """Cinder lists what it may show and does not say that there is more."""
    case = reserved(volumes)
    volumes.state.users['climate-id']['roles'] = ['service']
    plugin = VolumePlugin(volumes.conf, Cloud(volumes.conf))
    with pytest.raises(exceptions.Permanent, match='403'):
        plugin.find_missing([case.reservation])


def test_nothing_is_missing_from_nothing(volumes):
    with volumes.counted() as sent:
        assert volumes.plugin().find_missing([]) == {}
    assert sent == []


def test_what_waits(volumes):
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


def test_discarding(volumes):
    volume = cinder.add(volumes.state)
    plugin = volumes.plugin()
    plugin.discard(volume['id'])
    assert volumes.effects(volume['id']) == ['delete']
    assert plugin.unleased_since(volume['id']) is None
    plugin.discard(str(uuid.uuid4()))


def test_a_cloud_without_cinder(volumes, fake):
    """The plugin is enabled by default."""
    fake.state.no_cinder = True
    plugin = VolumePlugin(volumes.conf, Cloud(volumes.conf))
    assert list(plugin.list_unleased()) == []
    assert plugin.find_missing([]) == {}
    with pytest.raises(exceptions.ServiceUnavailable, match='Cinder'):
        plugin.reserve(volumes.user(), {'resource_id': str(uuid.uuid4())})
    fake.state.no_cinder = False
    volume = cinder.add(volumes.state)
    later = VolumePlugin(volumes.conf, Cloud(volumes.conf))
    assert list(later.list_unleased()) == [volume['id']]
