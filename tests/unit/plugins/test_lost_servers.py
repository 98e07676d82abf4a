# SPDX-License-Identifier: Apache-2.0
"""What Nova lost is repaired: messages that never arrived, tasks whose process died."""

import dataclasses

import pytest

from climate_core import exceptions
from tests.conformance.world import reserved
from tests.unit.plugins.cases import change, status, woken


def lose(case):
    """Let nothing work on the task of the server any more."""
    change(case, next=[])


def asked(case):
    """Return what was asked for since the server was woken."""
    return case.world.effects(case.resource_id)[1:]


def test_a_wake_up_without_a_sign_of_life_is_repeated_within_a_minute(world):
    case = reserved(world)
    case.wake_once()
    lose(case)
    begin, repaired = case.time.now, None
    while not repaired:
        wait = case.wake_once()
        repaired = wait.repair
    assert repaired == 'wake_up'
    assert wait.reason.startswith('No nova-compute has begun to start the server')
    assert (case.time.now - begin).total_seconds() < 60
    case.wake()
    assert world.effects(case.resource_id) == ['wake_up', 'wake_up']
    assert world.awake(case.resource_id)


def test_a_wake_up_that_nova_does_not_repeat_yet_is_put_off(world):
    case = reserved(world)
    case.wake_once()
    lose(case)
    case.wake_once()
    case.time.forward(60)
    world.fault('POST', '/action', 409)
    assert case.wake_once().repair is None
    assert not world.state.faults
    case.wake_once()
    assert asked(case) == []
    case.wake()
    assert asked(case) == ['wake_up']


def test_a_wake_up_that_has_begun_is_never_repeated(world):
    case = reserved(world)
    case.wake_once()
    change(case, status='BUILD', task_state='spawning', next=[])
    for _ in range(5):
        assert case.wake_once().repair is None
        case.time.forward(600)
    assert asked(case) == []


def test_a_lost_deletion_is_told_then_repaired(world):
    case = woken(world)
    case.end_once()
    lose(case)
    assert case.end_once().reason is None
    case.time.forward(300)
    told = case.end_once().reason
    assert 'deleting without a change for 5 minutes. It counts as lost after 10' in told
    case.time.forward(300)
    wait = case.end_once()
    assert (wait.repair, 'its state was reset' in wait.reason) == ('delete', True)
    case.end()
    assert asked(case) == ['delete', 'os-resetState', 'delete']
    assert world.gone(case.resource_id)


def test_a_deletion_that_moves_is_not_lost(world):
    case = woken(world)
    case.end_once()
    lose(case)
    for minute in range(5):
        change(case, updated=f'2082-12-01T12:0{minute}:00Z')
        assert case.end_once().repair is None
        case.time.forward(500)
    assert asked(case) == ['delete']


def test_where_the_service_lacks_the_right_the_reason_says_what_to_type(world):
    case = woken(world)
    case.end_once()
    lose(case)
    case.end_once()
    world.service_has('service')
    case.time.forward(600)
    with pytest.raises(exceptions.Transient, match='must run: openstack server set --state error'):
        case.end_once()
    # It is not tried at each look.
    assert case.end_once().repair is None


@pytest.mark.parametrize(
    ('on_end', 'task', 'minutes'),
    [('stop', 'powering-off', 20), ('suspend', 'suspending', 20), ('shelve', 'shelving', 180)],
)
def test_a_lost_task_is_reset_and_the_end_goes_on(world, on_end, task, minutes):
    case = woken(world, on_end)
    case.end_once()
    change(case, task_state=task, next=[])
    case.end_once()
    case.time.forward(60 * minutes - 60)
    assert case.end_once().repair is None
    case.time.forward(60)
    assert case.end_once().repair == 'reset_state'
    first, *others = asked(case)
    assert others == ['os-resetState']
    case.end()
    assert asked(case)[:3] == [first, 'os-resetState', first]


def test_an_upload_that_moves_is_not_lost(world):
    case = woken(world, 'create_image')
    case.end_once()
    change(case, task_state='image_uploading', next=[])
    (image,) = world.state.images.values()
    for size in range(4):
        image['size'] = size
        assert case.end_once().repair is None
        case.time.forward(9000)
    case.time.forward(9000)
    assert case.end_once().repair == 'reset_state'


def test_an_image_that_nobody_uploads_any_more_is_made_again(world):
    case = woken(world, 'create_image')
    case.end_once()
    change(case, task_state=None, next=[])
    (lost,) = world.state.images
    world.state.images[lost]['status'] = 'saving'
    case.end_once()
    case.time.forward(60 * 179)
    told = case.end_once()
    assert f'The image {lost} of the server has been saving without a change' in told.reason
    world.state.images[lost]['size'] = 1
    case.end_once()
    case.time.forward(60 * 180)
    assert case.end_once().repair == 'delete_image'
    with pytest.raises(exceptions.Transient, match='could not create the image'):
        case.end()
    case.end()
    assert asked(case) == ['createImage', 'createImage', 'delete']


def test_an_image_that_an_administrator_deactivated_is_left_to_them(world):
    case = woken(world, 'create_image')
    case.end_once()
    change(case, task_state=None, next=[])
    (image,) = world.state.images.values()
    image['status'] = 'deactivated'
    with pytest.raises(exceptions.Transient, match='reactivate the image'):
        case.end_once()


@pytest.mark.parametrize('on_end', ['stop', 'nothing'])
@pytest.mark.parametrize('task', ['scheduling', None])
def test_a_server_that_no_host_builds_is_deleted_at_its_end(world, on_end, task):
    case = reserved(world, on_end=on_end)
    change(case, status='BUILD', task_state=task, host_id='')
    case.end_once()
    case.time.forward(60 * 10)
    told = case.end_once()
    assert (told.repair, 'It counts as lost after 20 minutes' in told.reason) == (None, True)
    case.time.forward(60 * 10)
    assert case.end_once().repair == 'delete_unbuilt'
    case.end()
    assert status(case) is None


@pytest.mark.parametrize('on_end', ['stop', 'nothing'])
@pytest.mark.parametrize('task', ['spawning', 'networking', None])
def test_a_server_that_its_host_does_not_start_is_told_then_deleted_at_its_end(
    world, on_end, task
):
    case = reserved(world, on_end=on_end)
    change(case, status='BUILD', task_state=task)
    case.end_once()
    case.time.forward(60 * 60)
    assert case.end_once().reason.endswith('for a long time.')
    case.time.forward(60 * 119)
    told = case.end_once()
    assert (told.repair, 'It counts as lost after 180 minutes' in told.reason) == (None, True)
    case.time.forward(60)
    wait = case.end_once()
    assert (wait.repair, 'its host has not started it' in wait.reason) == ('delete_unbuilt', True)
    case.end()
    assert status(case) is None


def test_a_server_that_its_host_starts_late_is_ended_as_asked(world):
    case = reserved(world, on_end='stop')
    change(case, status='BUILD', task_state='spawning')
    case.end_once()
    case.time.forward(60 * 179)
    assert case.end_once().repair is None
    change(case, status='ACTIVE', task_state=None, launched_at='2082-12-01T15:00:00')
    case.end()
    assert status(case) == 'SHUTOFF'


@pytest.mark.parametrize(
    ('task', 'minutes'),
    [('unshelving', 180), ('rebuild_spawning', 180), ('migrating', 720), ('resize_prep', 720)],
)
def test_a_task_that_copies_disks_is_lost_much_later(world, task, minutes):
    case = woken(world, 'stop')
    change(case, task_state=task, next=[])
    case.end_once()
    case.time.forward(60 * (minutes - 1))
    told = case.end_once()
    assert (told.repair, f'lost after {minutes} minutes' in told.reason) == (None, True)
    case.time.forward(60)
    assert case.end_once().repair == 'reset_state'


def test_a_deletion_that_is_lost_before_the_end_of_the_lease_is_repaired(world):
    case = reserved(world)
    change(case, task_state='deleting', next=[])
    case.wake_once()
    case.time.forward(300)
    assert 'It counts as lost after 10 minutes' in case.wake_once().reason
    case.time.forward(300)
    assert case.wake_once().repair == 'delete'
    assert world.effects(case.resource_id) == ['os-resetState', 'delete']
    with pytest.raises(exceptions.Permanent, match='deleted'):
        case.wake()


def test_an_unshelving_that_does_not_change_is_told_to_an_administrator(world):
    case = reserved(world)
    case.lease = dataclasses.replace(case.lease, preemptible=True)
    change(case, status='SHELVED_OFFLOADED', task_state='unshelving', next=[])
    assert case.wake_once().reason is None
    case.time.forward(60 * 90)
    assert 'It counts as lost after 180 minutes' in case.wake_once().reason
    case.time.forward(60 * 90)
    with pytest.raises(exceptions.Transient, match='must run: openstack server event list'):
        case.wake_once()


def giving_way(world, status, **fields):
    """Return the case of a server whose lease gives way and that is shelved, and locked."""
    case = woken(world, launched_at='2082-12-01T12:00:00')
    case.lease = dataclasses.replace(case.lease, preemptible=True)
    change(case, status=status, **fields)
    case.preempt_once()
    assert asked(case) == ['lock']
    return case


def look_until_told(case, command, hours):
    """Return the minutes until an administrator is told, and what the user was told before."""
    begin, told = case.time.now, None
    with pytest.raises(exceptions.Transient, match=f'must run: {command}'):
        while (case.time.now - begin).total_seconds() < 3600 * hours:
            told = case.preempt_once().reason
    return round((case.time.now - begin).total_seconds() / 60), told


def test_one_that_the_service_may_not_offload_is_told_to_an_administrator(world):
    case = giving_way(world, 'SHELVED')
    world.fault('POST', '/action', 403, 999)
    minutes, told = look_until_told(case, 'openstack server shelve --offload', 1)
    assert (minutes, 'SHELVED without a change' in told) == (20, True)
    assert 'It counts as lost after 20 minutes' in told
    # Nova does it by itself.
    change(case, status='SHELVED_OFFLOADED')
    assert case.preempt_once() is None


def test_a_lost_unshelving_of_one_that_gives_way_is_told_to_an_administrator(world):
    case = giving_way(world, 'SHELVED_OFFLOADED', task_state='unshelving', next=[])
    minutes, _ = look_until_told(case, 'openstack server event list', 4)
    assert minutes == 180
