# SPDX-License-Identifier: Apache-2.0
"""What stays in any status is repaired, or its lease says why it waits."""

from collections.abc import Callable

import pytest

from climate_core import exceptions
from climate_core.plugins.base import PollAgain
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.conformance.world import Case, reserved
from tests.unit.plugins.cases import change, woken

#: More than the longest limit.
HOURS = 13
#: End actions of servers under which most statuses lead to another one.
KEEPING = ('stop', 'shelve', 'suspend', 'create_image')
TASKS = (
    *('image_snapshot', 'image_uploading', 'shelving', 'shelving_offloading', 'unshelving'),
    *('rebuilding', 'rebuild_spawning', 'rescuing', 'unrescuing', 'powering-off', 'powering-on'),
    *('suspending', 'resuming', 'pausing', 'unpausing', 'rebooting', 'updating_password'),
    *('migrating', 'resize_prep', 'resize_migrating', 'resize_finish', 'resize_reverting'),
    *('deleting', 'soft-deleting', 'scheduling', 'networking', 'spawning'),
)
#: Those in which cinder works on a volume (cinder/objects/fields.py VolumeStatus).
WORKING = (
    *('creating', 'downloading', 'deleting', 'attaching', 'detaching', 'reserved', 'in-use'),
    *('extending', 'retyping', 'uploading', 'backing-up', 'restoring-backup', 'reverting'),
    'unmanaging',
)
ACTIONS = ('CREATE', 'UPDATE', 'ROLLBACK', 'SUSPEND', 'RESUME', 'SNAPSHOT', 'CHECK', 'DELETE')


def become_of(case: Case, look: Callable[[], PollAgain | None]) -> str | None:
    """Return what becomes of a resource that nobody works on: the repair, or the last reason."""
    reason = None
    for _ in range(4):
        try:
            wait = look()
        except exceptions.PluginFailure as exc:
            return str(exc)
        if wait is None or wait.repair:
            return 'repaired' if wait else 'done'
        reason = wait.reason
        case.time.forward(3600 * HOURS)
    return reason


def stay(case: Case, **fields: object) -> None:
    """Let a resource be so, whatever time goes by."""
    change(case, **{'next': [], **fields})


@pytest.mark.parametrize('on_end', KEEPING)
@pytest.mark.parametrize('task', TASKS)
def test_task_of_a_server_at_the_end_has_a_limit(
    world: FakeServers, on_end: str, task: str
) -> None:
    case = woken(world, on_end)
    stay(case, task_state=task)
    assert become_of(case, case.end_once) == 'repaired'


@pytest.mark.parametrize('on_end', ['delete', 'nothing', *KEEPING])
@pytest.mark.parametrize('task', [None, 'spawning', 'deleting'])
@pytest.mark.parametrize('status', ['BUILD', 'DELETED'])
def test_server_that_is_half_there_at_the_end_has_a_limit(
    world: FakeServers, on_end: str, status: str, task: str | None
) -> None:
    case = reserved(world, on_end=on_end)
    stay(case, status=status, task_state=task)
    assert become_of(case, case.end_once) in ('repaired', 'done')


@pytest.mark.parametrize('task', [None, *TASKS])
@pytest.mark.parametrize('status', ['BUILD', 'RESERVED'])
def test_server_that_is_busy_at_the_start_has_a_limit(
    world: FakeServers, status: str, task: str | None
) -> None:
    case = reserved(world)
    stay(case, status=status, task_state=task)
    # One that only waits is woken.
    if (status, task) != ('RESERVED', None):
        assert become_of(case, case.wake_once) == 'repaired'


@pytest.mark.parametrize('on_end', ['delete', *KEEPING])
def test_server_in_a_cell_that_does_not_answer_is_left_to_an_administrator(
    world: FakeServers, on_end: str
) -> None:
    case = reserved(world, on_end=on_end)
    stay(case, status='UNKNOWN')
    for look in (case.wake_once, case.end_once):
        assert 'must run: nova-manage cell_v2 list_cells' in (become_of(case, look) or '')


@pytest.mark.parametrize('status', ['creating', 'downloading'])
def test_volume_that_nobody_creates_at_the_start_has_a_limit(
    volumes: FakeVolumes, status: str
) -> None:
    case = reserved(volumes)
    stay(case, status=status)
    assert become_of(case, case.wake_once) == 'repaired'


def test_volume_in_a_status_of_which_nothing_is_known_is_left_to_an_administrator(
    volumes: FakeVolumes,
) -> None:
    case = woken(volumes)
    stay(case, status='managing')
    told = become_of(case, case.end_once) or ''
    assert f'must run: openstack volume set --state error {case.resource_id}' in told


@pytest.mark.parametrize('on_end', ['delete', 'backup', 'snapshot', 'detach'])
@pytest.mark.parametrize('status', WORKING)
def test_volume_on_which_nobody_works_at_the_end_has_a_limit(
    volumes: FakeVolumes, on_end: str, status: str
) -> None:
    case = woken(volumes, on_end)
    stay(case, status=status)
    assert become_of(case, case.end_once) == 'repaired'


@pytest.mark.parametrize('on_end', ['delete', 'suspend', 'snapshot'])
@pytest.mark.parametrize('action', ACTIONS)
def test_stack_on_which_nobody_works_at_the_end_has_a_limit(
    stacks: FakeStacks, on_end: str, action: str
) -> None:
    case = woken(stacks, on_end)
    status = f'{action}_IN_PROGRESS'
    stay(case, status=status, next=[status] * 99)
    assert become_of(case, case.end_once) in ('repaired', 'done')


@pytest.mark.parametrize('action', ACTIONS)
def test_stack_on_which_nobody_works_at_the_start_has_a_limit(
    stacks: FakeStacks, action: str
) -> None:
    case = reserved(stacks)
    status = f'{action}_IN_PROGRESS'
    stay(case, status=status, next=[status] * 99)
    assert become_of(case, case.wake_once) == 'repaired'
