# SPDX-License-Identifier: Apache-2.0
"""The start of a reserved stack."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins.base import Wait
from climate_core.plugins.stack import end_steps
from tests.conformance.world import reserved
from tests.support.fakes import heat, nova

UPDATE = {'method': 'PATCH', 'path': '/stacks/', 'count': 1}
RESUME = {'method': 'POST', 'path': '/actions', 'count': 1}


def look(case):
    return case.wake_once()


def change(case, **fields):
    case.world.state.stacks[case.resource_id].update(fields)


def test_spares_sleep_on(stacks):
    spare, wanted = nova.add(stacks.state), nova.add(stacks.state)
    stack = heat.add(stacks.state, members=[spare['id'], wanted['id']], spares=[spare['id']])
    case = reserved(stacks)
    case.reservation = dataclasses.replace(case.reservation, resource_id=stack['id'])
    case.wake()
    assert (spare['status'], wanted['status']) == ('RESERVED', 'ACTIVE')


@pytest.mark.parametrize(
    'status', ['CREATE_IN_PROGRESS', 'UPDATE_IN_PROGRESS', 'SNAPSHOT_IN_PROGRESS']
)
def test_what_is_done_with_a_stack_is_waited_for(stacks, status):
    case = reserved(stacks)
    change(case, status=status)
    assert isinstance(look(case), Wait)
    assert stacks.effects(case.resource_id) == []
    change(case, status='UPDATE_COMPLETE')
    case.wake()
    assert stacks.effects(case.resource_id) == ['update']


@pytest.mark.parametrize('ours', [True, False])
def test_an_update_whose_engine_died_is_asked_for_again(stacks, ours):
    case = reserved(stacks)
    if ours:
        look(case)
    asked = stacks.effects(case.resource_id)
    change(case, status='UPDATE_IN_PROGRESS', next=['UPDATE_IN_PROGRESS'] * 9)
    for _ in range(2):
        assert isinstance(look(case), Wait)
        assert stacks.effects(case.resource_id) == asked
        case.time.forward(end_steps.HANGS / 2)
    case.wake()
    assert stacks.effects(case.resource_id) == [*asked, 'update']


@pytest.mark.parametrize(
    ('doing', 'asked'),
    [
        ('CREATE', 'update'),
        ('ROLLBACK', 'update'),
        ('CHECK', 'update'),
        ('SNAPSHOT', 'update'),
        ('SUSPEND', 'suspend'),
        ('RESUME', 'resume'),
    ],
)
def test_what_a_dead_engine_left_is_taken_over(stacks, doing, asked):
    case = reserved(stacks)
    status = f'{doing}_IN_PROGRESS'
    change(case, status=status, next=[status] * 999)
    assert isinstance(look(case), Wait)
    case.time.forward((end_steps.SNAPSHOT_HANGS if doing == 'SNAPSHOT' else end_steps.HANGS) - 60)
    assert isinstance(look(case), Wait)
    assert stacks.effects(case.resource_id) == []
    case.time.forward(60)
    assert isinstance(look(case), Wait)
    assert stacks.effects(case.resource_id) == [asked]
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_take_over_that_heat_refuses_is_asked_for_later(stacks):
    """The engine lives, and its work is long."""
    case = reserved(stacks)
    change(case, status='CHECK_IN_PROGRESS', next=['CHECK_IN_PROGRESS'] * 999)
    stacks.state.faults.append({**UPDATE, 'status': 409})
    look(case)
    case.time.forward(end_steps.HANGS)
    assert 'CHECK_IN_PROGRESS' in look(case).reason
    assert not stacks.state.faults
    case.time.forward(end_steps.HANGS / 2)
    assert 'CHECK_IN_PROGRESS' in look(case).reason
    assert stacks.effects(case.resource_id) == []
    case.time.forward(end_steps.HANGS / 2)
    look(case)
    assert stacks.effects(case.resource_id) == ['update']


def test_an_update_of_its_user_is_not_ours(stacks):
    """It may have been before the start: what it found asleep sleeps on."""
    case = reserved(stacks)
    change(case, status='UPDATE_COMPLETE')
    case.wake()
    assert stacks.awake(case.resource_id)


def test_another_manager_does_not_ask_again(stacks):
    case = reserved(stacks)
    case.wake()
    case.wake(stacks.plugin())
    assert stacks.effects(case.resource_id) == ['update']
    assert stacks.wakes(case.resource_id) == 1


@pytest.mark.parametrize('after', ['CHECK_COMPLETE', 'SNAPSHOT_COMPLETE'])
def test_something_else_was_done_after_the_update(stacks, after):
    """Whether the update was complete before is not known."""
    case = reserved(stacks)
    look(case)
    change(case, status=after, next=[])
    assert isinstance(look(case), Wait)
    case.wake()
    assert stacks.effects(case.resource_id) == ['update', 'update']
    assert stacks.awake(case.resource_id)


def test_a_failed_update_says_why_and_is_tried_again(stacks):
    case = reserved(stacks)
    change(case, update_failures=2)
    for _ in range(2):
        with pytest.raises(exceptions.Transient, match='No valid host was found'):
            case.wake()
    assert stacks.effects(case.resource_id) == ['update', 'update']
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_rest_after_each_failure(stacks):
    case = reserved(stacks)
    change(case, update_failures=2)
    rests = []
    for _ in range(2):
        with pytest.raises(exceptions.Transient):
            case.wake()
        rests.append(look(case).seconds)
    assert rests[0] < rests[1]
    assert stacks.effects(case.resource_id) == ['update', 'update']


def test_an_update_that_heat_takes_back(stacks):
    case = reserved(stacks)
    look(case)
    change(case, status='ROLLBACK_COMPLETE', next=[], reason='Taken back.')
    with pytest.raises(exceptions.Transient, match='Taken back'):
        look(case)
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_stack_that_failed_before_is_updated(stacks):
    case = reserved(stacks)
    change(case, status='UPDATE_FAILED')
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_suspended_stack_is_resumed_first(stacks):
    case = reserved(stacks)
    change(case, status='SUSPEND_COMPLETE')
    case.wake()
    assert stacks.effects(case.resource_id) == ['resume', 'update']
    assert stacks.awake(case.resource_id)


def test_a_resume_that_failed_is_followed_by_an_update(stacks):
    case = reserved(stacks)
    change(case, status='SUSPEND_COMPLETE', resume_failures=1)
    case.wake()
    assert stacks.effects(case.resource_id) == ['resume', 'update']


def test_a_suspended_stack_that_cannot_be_resumed(stacks):
    case = reserved(stacks)
    change(case, status='SUSPEND_FAILED')
    look(case)
    change(case, status='SUSPEND_FAILED', next=[], reason='It is stuck.')
    with pytest.raises(exceptions.Transient, match='It is stuck'):
        look(case)


def test_a_stack_that_is_being_deleted_is_waited_for(stacks):
    """Its members are not woken as long as it is there."""
    case = reserved(stacks)
    change(case, status='DELETE_IN_PROGRESS', next=['DELETE_IN_PROGRESS'] * 99)
    assert look(case).reason is None
    case.time.forward(end_steps.HANGS)
    assert 'DELETE_IN_PROGRESS' in look(case).reason
    change(case, next=['DELETE_COMPLETE'])
    with pytest.raises(exceptions.Permanent, match='deleted'):
        look(case)
    assert stacks.effects(case.resource_id) == []


def test_a_stack_whose_deletion_failed_may_be_deleted_again(stacks):
    case = reserved(stacks)
    change(case, status='DELETE_FAILED', reason='It is in use.')
    with pytest.raises(exceptions.Transient, match='It is in use'):
        look(case)
    assert stacks.effects(case.resource_id) == []


def test_a_deleted_stack_that_heat_still_shows(stacks):
    case = reserved(stacks)
    change(case, status='DELETE_COMPLETE')
    with pytest.raises(exceptions.Permanent, match='deleted'):
        look(case)


@pytest.mark.parametrize('status', ['SUSPEND_COMPLETE', 'CREATE_COMPLETE'])
def test_heat_is_busy(stacks, status):
    case = reserved(stacks)
    change(case, status=status)
    stacks.state.faults += [{**UPDATE, 'status': 409}, {**RESUME, 'status': 409}]
    assert isinstance(look(case), Wait)
    assert stacks.effects(case.resource_id) == []
    case.wake()
    assert stacks.effects(case.resource_id)[-1] == 'update'
    assert stacks.wakes(case.resource_id) == 1


@pytest.mark.parametrize('answer', [500, 400])
def test_heat_does_not_take_the_update_now(stacks, answer):
    """400 is what Heat says, too, when a service did not answer while it looked for mistakes."""
    case = reserved(stacks)
    stacks.state.faults.append({**UPDATE, 'status': answer})
    with pytest.raises(exceptions.Transient, match='Heat'):
        look(case)
    case.wake()
    assert stacks.wakes(case.resource_id) == 1


def test_heat_does_not_let_us(stacks):
    case = reserved(stacks)
    stacks.state.faults.append({**UPDATE, 'status': 403})
    with pytest.raises(exceptions.Permanent):
        look(case)


def test_a_stack_that_another_user_updated(stacks):
    """It is woken as soon as its own user has updated it."""
    case = reserved(stacks)
    change(case, creds='bob-id')
    with pytest.raises(exceptions.Transient, match='its own user has to update it once'):
        look(case)
    change(case, creds='alice-id')
    case.wake()
    assert stacks.wakes(case.resource_id) == 1


def until_awake(case):
    """Wake it; count what went wrong on the way."""
    count = 0
    while True:
        try:
            case.wake()
        except exceptions.Transient:
            count += 1
        else:
            return count


def test_an_answer_that_was_lost(stacks):
    """Heat takes longer to answer than we wait, each time."""
    case = reserved(stacks)
    stacks.state.faults.append({**UPDATE, 'status': 0, 'after': True, 'count': 99})
    assert until_awake(case) == 1
    assert stacks.effects(case.resource_id) == ['update']
    assert stacks.wakes(case.resource_id) == 1
    assert look(case) is None


def test_a_question_that_was_lost(stacks):
    case = reserved(stacks)
    change(case, status='UPDATE_COMPLETE', updated=7)
    stacks.state.faults.append({**UPDATE, 'status': 0})
    assert until_awake(case) == 1
    assert stacks.effects(case.resource_id) == ['update']


def test_a_lost_answer_to_an_update_that_fails(stacks):
    case = reserved(stacks)
    change(case, update_failures=1)
    stacks.state.faults.append({**UPDATE, 'status': 504, 'after': True})
    with pytest.raises(exceptions.Transient, match='504'):
        case.wake()
    with pytest.raises(exceptions.Transient, match='No valid host'):
        case.wake()
    case.wake()
    assert stacks.effects(case.resource_id) == ['update', 'update']


def test_a_resume_whose_answers_are_lost(stacks):
    case = reserved(stacks)
    change(case, status='SUSPEND_COMPLETE')
    stacks.state.faults.append({**RESUME, 'status': 0, 'after': True, 'count': 99})
    assert until_awake(case) == 1
    assert stacks.effects(case.resource_id) == ['resume', 'update']


def test_waking_is_the_owners(stacks):
    case = reserved(stacks)
    case.wake()
    (update,) = [e for e in stacks.state.journal() if e['what'] == 'update']
    assert update['as'] == 'alice-id'
