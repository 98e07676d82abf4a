# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core import exceptions
from climate_core.plugins.base import Wait
from climate_core.plugins.server import end_steps
from tests.conformance.world import reserved

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


def woken(world, on_end, **fields):
    case = reserved(world, on_end=on_end)
    case.woken()
    world.state.servers[case.resource_id].update(fields)
    return case


def asked(case):
    return [each for each in case.world.effects(case.resource_id) if each != 'wake_up']


def look(case):
    return case.end_once()


@pytest.mark.parametrize(('on_end', 'before'), sorted(ENDS))
def test_the_way_to_the_end(world, on_end, before):
    case = woken(world, on_end, status=before)
    case.end()
    wanted, after = ENDS[on_end, before]
    assert asked(case) == wanted
    server = world.state.servers.get(case.resource_id)
    assert (server and server['status']) == after


def test_each_end_action_has_its_steps():
    names = {name for name, _ in end_steps.CHOICES}
    assert set(end_steps.STEPS) == names - {'delete', 'nothing'}


@pytest.mark.parametrize('on_end', ['suspend', 'shelve', 'create_image'])
def test_the_data_of_a_broken_server_is_not_thrown_away(world, on_end):
    case = woken(world, on_end, status='ERROR')
    with pytest.raises(exceptions.Transient, match='ERROR'):
        look(case)
    assert asked(case) == []


@pytest.mark.parametrize('on_end', ['stop', 'create_image', 'nothing'])
def test_a_broken_server_that_never_ran_is_deleted(world, on_end):
    case = reserved(world, on_end=on_end)
    world.state.servers[case.resource_id]['status'] = 'ERROR'
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
    world.state.servers[case.resource_id]['status'] = 'ERROR'
    case.end()
    assert asked(case) == wanted


@pytest.mark.parametrize('on_end', ['suspend', 'shelve', 'create_image'])
def test_the_data_of_a_server_whose_start_was_not_noted_is_kept(world, on_end):
    case = reserved(world, on_end=on_end)
    case.wake()
    world.state.servers[case.resource_id]['status'] = 'ERROR'
    with pytest.raises(exceptions.Transient, match='ERROR'):
        look(case)
    assert asked(case) == []


def test_a_server_on_its_way_is_waited_for(world):
    case = woken(world, 'stop', task_state='rebooting')
    assert isinstance(look(case), Wait)
    assert asked(case) == []
    world.state.servers[case.resource_id]['task_state'] = None
    case.end()
    assert asked(case) == ['os-stop']


def test_a_server_that_is_starting_is_waited_for(world):
    case = reserved(world, on_end='stop')
    assert isinstance(case.wake_once(), Wait)
    world.state.servers[case.resource_id].update(status='BUILD', task_state=None, next=['ACTIVE'])
    case.end()
    assert asked(case) == ['os-stop']


def test_the_lock_of_the_owner_is_undone(world):
    case = woken(world, 'delete', locked='owner')
    case.end()
    assert asked(case) == ['unlock', 'delete']


def test_the_lock_of_an_administrator_is_respected(world):
    case = woken(world, 'delete', locked='admin')
    with pytest.raises(exceptions.Transient, match='administrator'):
        look(case)
    assert asked(case) == []


def test_the_image_has_the_name_and_is_made_once(world):
    case = woken(world, 'create_image')
    for _ in range(3):
        look(case)
    case.end_once(world.plugin())
    case.end()
    (image,) = world.state.images.values()
    name = world.state.images[image['id']]['name']
    assert name.startswith('reserved_vm-')
    assert asked(case) == ['createImage', 'delete']


def test_an_image_that_could_not_be_made(world):
    case = woken(world, 'create_image')
    look(case)
    world.state.images.clear()
    with pytest.raises(exceptions.Transient, match='image'):
        case.end()
    case.end()
    assert asked(case) == ['createImage', 'createImage', 'delete']


def test_a_shelved_server_that_only_nova_offloads(world):
    case = woken(world, 'shelve', status='SHELVED')
    world.state.faults.append({'method': 'POST', 'path': '/action', 'status': 403, 'count': 1})
    assert look(case) is None


def test_a_refusal_is_tried_again(world):
    """The end frees capacity: it is never given up."""
    case = woken(world, 'delete')
    world.state.faults.append({'method': 'DELETE', 'path': '/servers', 'status': 403, 'count': 1})
    with pytest.raises(exceptions.Transient, match='403'):
        look(case)
    case.end()
    assert asked(case) == ['delete']


def test_a_deletion_is_asked_for_once(world):
    case = woken(world, 'delete')
    look(case)
    world.state.servers[case.resource_id]['next'] = []
    assert isinstance(look(case), Wait)
    assert asked(case) == ['delete']


def test_a_server_that_is_about_to_be_forgotten_is_waited_for(world):
    case = woken(world, 'delete', status='DELETED')
    assert isinstance(look(case), Wait)
    assert asked(case) == []


def test_an_image_that_nobody_uploads_any_more(world):
    case = woken(world, 'create_image')
    look(case)
    world.state.servers[case.resource_id].update(task_state=None, next=[])
    (lost,) = world.state.images
    with pytest.raises(exceptions.Transient, match='image'):
        case.end()
    assert lost not in world.state.images
    case.end()
    assert asked(case) == ['createImage', 'createImage', 'delete']


def test_a_lost_image_is_told_and_made_again_by_another_manager(world):
    case = woken(world, 'create_image')
    look(case)
    world.state.servers[case.resource_id].update(task_state=None, next=[])
    (lost,) = world.state.images
    case.plugin = world.plugin()
    with pytest.raises(exceptions.Transient, match='could not make the image'):
        case.end()
    case.end()
    assert lost not in world.state.images
    assert asked(case) == ['createImage', 'createImage', 'delete']


def test_what_was_noted_as_awake_is_no_server_that_never_ran(world):
    """Also if it was noted without the time, by an older version, and Nova does not say it."""
    case = woken(world, 'stop', status='ERROR', launched_at=None)
    case.end()
    assert asked(case) == ['os-stop']
