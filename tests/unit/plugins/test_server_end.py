# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins.base import PollAgain
from tests.conformance.world import reserved
from tests.unit.plugins.cases import (
    asked,
    change,
    is_rejected,
    reject_for_an_hour,
    status,
    woken,
)

#: (end action, status before) -> (what Nova is asked for, in order; status after)
ENDS = {
    ('stop', 'ACTIVE'): (['os-stop'], 'SHUTOFF'),
    ('stop', 'ERROR'): (['os-stop'], 'SHUTOFF'),
    ('stop', 'PAUSED'): (['unpause', 'os-stop'], 'SHUTOFF'),
    ('stop', 'RESCUE'): (['unrescue', 'os-stop'], 'SHUTOFF'),
    ('stop', 'VERIFY_RESIZE'): (['confirmResize', 'os-stop'], 'SHUTOFF'),
    ('stop', 'SUSPENDED'): ([], 'SUSPENDED'),
    ('stop', 'SHELVED'): ([], 'SHELVED'),
    ('stop', 'SHELVED_OFFLOADED'): ([], 'SHELVED_OFFLOADED'),
    ('suspend', 'ACTIVE'): (['suspend'], 'SUSPENDED'),
    ('suspend', 'PAUSED'): (['unpause', 'suspend'], 'SUSPENDED'),
    ('suspend', 'SHUTOFF'): ([], 'SHUTOFF'),
    ('shelve', 'SHUTOFF'): (['shelve'], 'SHELVED_OFFLOADED'),
    ('shelve', 'PAUSED'): (['shelve'], 'SHELVED_OFFLOADED'),
    ('shelve', 'SHELVED'): (['shelveOffload'], 'SHELVED_OFFLOADED'),
    ('create_image', 'SHELVED_OFFLOADED'): ([], 'SHELVED_OFFLOADED'),
    ('create_image', 'SHUTOFF'): (['createImage', 'delete'], None),
    ('create_image', 'RESCUE'): (['unrescue', 'createImage', 'delete'], None),
    ('delete', 'PAUSED'): (['delete'], None),
    ('delete', 'ERROR'): (['delete'], None),
    ('delete', 'BUILD'): (['delete'], None),
    ('delete', 'SOFT_DELETED'): (['forceDelete'], None),
    ('nothing', 'SHUTOFF'): ([], 'SHUTOFF'),
    ('nothing', 'ERROR'): ([], 'ERROR'),
    ('nothing', 'SOFT_DELETED'): (['forceDelete'], None),
}


@pytest.mark.parametrize(('on_end', 'before'), sorted(ENDS))
def test_the_way_to_the_end(world, on_end, before):
    case = woken(world, on_end, status=before)
    case.end()
    wanted, after = ENDS[on_end, before]
    assert (asked(case), status(case)) == (wanted, after)


@pytest.mark.parametrize('noted', [True, False])
@pytest.mark.parametrize('on_end', ['suspend', 'shelve', 'create_image'])
def test_the_data_of_a_broken_server_is_not_thrown_away(world, on_end, noted):
    case = reserved(world, on_end=on_end)
    (case.woken if noted else case.wake)()
    change(case, status='ERROR')
    with pytest.raises(exceptions.Transient, match='ERROR'):
        case.end_once()
    assert asked(case) == []


@pytest.mark.parametrize('on_end', ['stop', 'create_image', 'nothing'])
def test_a_broken_server_that_never_ran_is_deleted(world, on_end):
    case = reserved(world, on_end=on_end)
    change(case, status='ERROR')
    case.end()
    assert asked(case) == ['delete']


@pytest.mark.parametrize(
    ('on_end', 'wanted'), [('stop', ['os-stop']), ('nothing', []), ('delete', ['delete'])]
)
def test_a_broken_server_whose_start_was_not_noted(world, on_end, wanted):
    """Woken by hand, or by a manager that died before it wrote that down."""
    case = reserved(world, on_end=on_end)
    case.wake()
    assert case.reservation.status == 'pending'
    change(case, status='ERROR')
    case.end()
    assert asked(case) == wanted


def test_a_server_on_its_way_is_waited_for(world):
    case = woken(world, 'stop', task_state='rebooting')
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == []
    world.state.servers[case.resource_id]['task_state'] = None
    case.end()
    assert asked(case) == ['os-stop']


def test_a_deletion_waits_for_no_task(world):
    case = woken(world, task_state='rebooting')
    case.end_once()
    assert asked(case) == ['delete']


@pytest.mark.parametrize(('on_end', 'wanted'), [('stop', ['os-stop']), ('nothing', [])])
def test_a_server_that_is_starting_is_waited_for(world, on_end, wanted):
    case = reserved(world, on_end=on_end)
    assert isinstance(case.wake_once(), PollAgain)
    change(case, status='BUILD', task_state=None, next=['BUILD', 'ACTIVE'])
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    assert (asked(case), world.awake(case.resource_id)) == (wanted, not wanted)


def test_an_image_whose_upload_is_about_to_begin_is_waited_for(world):
    case = woken(world, 'create_image')
    case.end_once()
    change(case, task_state=None, next=[])
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == ['createImage']


def test_the_lock_of_the_owner_is_undone(world):
    case = woken(world, 'delete', locked='owner')
    case.end()
    assert asked(case) == ['unlock', 'delete']


def test_the_lock_of_an_administrator_is_respected(world):
    case = woken(world, 'delete', locked='admin')
    with pytest.raises(exceptions.Transient, match='administrator'):
        case.end_once()
    assert asked(case) == []


@pytest.mark.parametrize('name', ['x' * 250, 'x' * 245 + ' yz', '\u00e4' * 255])
def test_the_image_of_a_server_with_a_long_name_has_a_shorter_one(world, name):
    case = woken(world, 'create_image', name=name)
    case.end()
    assert (asked(case), status(case)) == (['createImage', 'delete'], None)
    (image,) = world.state.images.values()
    assert f'reserved_{name}'.startswith(image['name'])
    assert len(image['name']) in (254, 255)


@pytest.mark.parametrize(
    ('name', 'left'), [('x' * 247, 247), ('x' * 255, 247), ('x' * 246 + ' yz', 246)]
)
def test_server_whose_image_nova_could_not_name_is_shelved_with_a_shorter_name(world, name, left):
    case = woken(world, 'shelve', name=name)
    case.end()
    assert (asked(case), status(case)) == (['shelve'], 'SHELVED_OFFLOADED')
    assert case.world.table[case.resource_id]['name'] == name[:left]


@pytest.mark.parametrize('code', [400, 403])
def test_end_action_that_nova_rejects_for_an_hour_is_replaced_by_the_usual_one(world, code):
    case = woken(world, 'create_image')
    world.fault('POST', '/action', code, count=3)
    reject_for_an_hour(case, 'Nova answered 40')
    wait = case.end_once()
    assert wait.reason == (
        'Nova rejects the end action create_image, so the usual one is done, delete: '
        f'Nova answered {code}: A fault that the test ordered.'
    )
    case.end()
    assert (asked(case), status(case)) == (['delete'], None)


def test_images_that_may_not_be_listed_are_rejections_too(world):
    case = woken(world, 'create_image')
    world.fault('GET', '/images', 403, count=3)
    reject_for_an_hour(case, 'Glance answered 403')
    assert 'delete: Glance answered 403: A fault' in case.end_once().reason


def test_policy_that_forbids_images_for_a_moment_deletes_no_server(world):
    case = woken(world, 'create_image')
    world.fault('POST', '/action', 403, count=9)
    rejected = 0
    while rejected < 9:
        rejected += is_rejected(case, 'Nova answered 403')
    case.end()
    assert asked(case) == ['createImage', 'delete']


def test_end_action_that_was_changed_after_rejections_is_tried(world):
    case = woken(world, 'create_image', no_images=True)
    reject_for_an_hour(case, 'Nova answered 40')
    params = {**case.reservation.params, 'on_end': 'stop'}
    case.reservation = dataclasses.replace(case.reservation, params=params)
    case.end()
    assert (asked(case), status(case)) == (['os-stop'], 'SHUTOFF')


def test_the_image_has_the_name_and_is_made_once(world):
    case = woken(world, 'create_image')
    for _ in range(3):
        case.end_once()
    case.end_once(world.plugin())
    case.end()
    (image,) = world.state.images.values()
    assert image['name'].startswith('reserved_vm-')
    assert asked(case) == ['createImage', 'delete']


def test_a_shelved_server_that_only_nova_offloads(world):
    case = woken(world, 'shelve', status='SHELVED')
    world.fault('POST', '/action', 403)
    assert case.end_once() is None


def test_a_server_that_is_about_to_be_forgotten_is_waited_for(world):
    case = woken(world, 'delete', status='DELETED')
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == []


@pytest.mark.parametrize('uploaded', [True, False])
def test_a_lost_image_is_told_and_made_again_by_another_manager(world, uploaded):
    """It was deleted, or no nova-compute uploads it any more."""
    case = woken(world, 'create_image')
    case.end_once()
    (lost,) = world.state.images
    if uploaded:
        world.state.images.clear()
    else:
        change(case, task_state=None, next=[])
    case.plugin = world.plugin()
    with pytest.raises(exceptions.Transient, match='could not create the image'):
        case.end()
    case.end()
    assert lost not in world.state.images
    assert asked(case) == ['createImage', 'createImage', 'delete']


def test_what_was_noted_as_awake_is_no_server_that_never_ran(world):
    """Also if it was noted without the time, and Nova does not report it."""
    case = woken(world, 'stop', status='ERROR', launched_at=None)
    case.end()
    assert asked(case) == ['os-stop']


@pytest.mark.parametrize(
    ('on_end', 'before', 'action'),
    [
        ('stop', 'ACTIVE', 'os-stop'),
        ('suspend', 'ACTIVE', 'suspend'),
        ('shelve', 'ACTIVE', 'shelve'),
        ('shelve', 'SHELVED', 'shelveOffload'),
        ('stop', 'PAUSED', 'unpause'),
        ('stop', 'RESCUE', 'unrescue'),
        ('stop', 'VERIFY_RESIZE', 'confirmResize'),
        ('delete', 'ACTIVE', 'delete'),
        ('delete', 'SOFT_DELETED', 'forceDelete'),
    ],
)
def test_an_action_that_nova_accepted_and_could_not_do_is_told_and_done_again(
    world, on_end, before, action
):
    case = woken(world, on_end, status=before)
    case.end_once()
    change(case, task_state=None, next=[])
    case.plugin = world.plugin()
    with pytest.raises(exceptions.Transient, match=f'is {before} after the action {action}'):
        case.end()
    case.end()
    assert asked(case)[:2] == [action, action]


def test_the_fault_of_a_deletion_is_told(world):
    case = woken(world, status='ERROR')
    case.end_once()
    change(case, task_state=None, next=[], fault={'code': 500, 'message': 'no such volume'})
    with pytest.raises(exceptions.Transient, match='is ERROR after the action delete: no such'):
        case.end()


@pytest.mark.parametrize('task', ['unshelving', 'spawning'])
@pytest.mark.parametrize(
    ('on_end', 'wanted'),
    [('stop', ['os-stop']), ('shelve', ['shelve']), ('create_image', ['createImage', 'delete'])],
)
def test_shelved_server_that_is_being_unshelved_is_waited_for(world, on_end, wanted, task):
    case = woken(world, on_end, status='SHELVED_OFFLOADED', task_state=task)
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == []
    change(case, status='ACTIVE', task_state=None)
    case.end()
    assert asked(case) == wanted


@pytest.mark.parametrize('status', ['SHELVED', 'SHELVED_OFFLOADED'])
def test_server_whose_unshelving_is_lost_is_done(world, status):
    case = woken(world, 'stop', status=status, task_state='unshelving')
    assert isinstance(case.end_once(), PollAgain)
    case.time.forward(60 * 180 - 1)
    assert isinstance(case.end_once(), PollAgain)
    case.time.forward(1)
    assert case.end_once() is None
    assert asked(case) == []


def test_server_that_is_being_unshelved_is_left_alone_with_nothing(world):
    case = woken(world, 'nothing', status='SHELVED_OFFLOADED', task_state='unshelving')
    assert case.end_once() is None
