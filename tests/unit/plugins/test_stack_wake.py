# SPDX-License-Identifier: Apache-2.0
"""The start of a reserved stack."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins.base import PollAgain
from tests.conformance.world import reserved
from tests.support.fakes import heat, nova
from tests.unit.plugins.cases import change, count_failures

UPDATE = 'PATCH', '/stacks/'
RESUME = 'POST', '/actions'


def test_standby_servers_of_a_woken_stack_sleep_on(stacks):
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
    assert isinstance(case.wake_once(), PollAgain)
    assert stacks.effects(case.resource_id) == []
    change(case, status='UPDATE_COMPLETE')
    case.wake()
    assert stacks.effects(case.resource_id) == ['update']


@pytest.mark.parametrize('ours', [True, False])
def test_an_update_whose_engine_died_is_asked_for_again(stacks, ours):
    case = reserved(stacks)
    if ours:
        case.wake_once()
    asked = stacks.effects(case.resource_id)
    change(case, status='UPDATE_IN_PROGRESS', next=['UPDATE_IN_PROGRESS'] * 9)
    for _ in range(2):
        assert isinstance(case.wake_once(), PollAgain)
        assert stacks.effects(case.resource_id) == asked
        case.time.forward(300)
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
    assert isinstance(case.wake_once(), PollAgain)
    case.time.forward((3600 if doing == 'SNAPSHOT' else 600) - 60)
    assert isinstance(case.wake_once(), PollAgain)
    assert stacks.effects(case.resource_id) == []
    case.time.forward(60)
    assert isinstance(case.wake_once(), PollAgain)
    assert stacks.effects(case.resource_id) == [asked]
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_take_over_that_heat_refuses_is_asked_for_later(stacks):
    """The engine lives, and its work is long."""
    case = reserved(stacks)
    change(case, status='CHECK_IN_PROGRESS', next=['CHECK_IN_PROGRESS'] * 999)
    stacks.fault(*UPDATE, 409)
    case.wake_once()
    case.time.forward(600)
    assert 'CHECK_IN_PROGRESS' in case.wake_once().reason
    assert not stacks.state.faults
    case.time.forward(300)
    assert 'CHECK_IN_PROGRESS' in case.wake_once().reason
    assert stacks.effects(case.resource_id) == []
    case.time.forward(300)
    case.wake_once()
    assert stacks.effects(case.resource_id) == ['update']


@pytest.mark.parametrize(
    ('before', 'asked'),
    [
        # An update of its user may have been before the start: what it found asleep sleeps on.
        ({'status': 'UPDATE_COMPLETE'}, ['update']),
        ({'status': 'UPDATE_FAILED'}, ['update']),
        ({'status': 'SUSPEND_COMPLETE'}, ['resume', 'update']),
        ({'status': 'SUSPEND_COMPLETE', 'resume_failures': 1}, ['resume', 'update']),
    ],
)
def test_what_a_stack_needs_to_wake_up(stacks, before, asked):
    case = reserved(stacks)
    change(case, **before)
    case.wake()
    assert stacks.effects(case.resource_id) == asked
    assert stacks.awake(case.resource_id)


def test_another_manager_does_not_ask_again(stacks):
    case = reserved(stacks)
    case.wake()
    case.wake(stacks.plugin())
    assert stacks.effects(case.resource_id) == ['update']
    assert stacks.wakes(case.resource_id) == 1
    (update,) = [e for e in stacks.state.journal() if e['what'] == 'update']
    assert update['as'] == 'alice-id'


@pytest.mark.parametrize('after', ['CHECK_COMPLETE', 'SNAPSHOT_COMPLETE'])
def test_something_else_was_done_after_the_update(stacks, after):
    """Whether the update was complete before is not known."""
    case = reserved(stacks)
    case.wake_once()
    change(case, status=after, next=[])
    assert isinstance(case.wake_once(), PollAgain)
    case.wake()
    assert stacks.effects(case.resource_id) == ['update', 'update']
    assert stacks.awake(case.resource_id)


def test_a_failed_update_says_why_and_is_tried_again_after_a_rest(stacks):
    case = reserved(stacks)
    change(case, update_failures=2)
    rests = []
    for _ in range(2):
        with pytest.raises(exceptions.Transient, match='No valid host was found'):
            case.wake()
        rests.append(case.wake_once().seconds)
    assert rests[0] < rests[1]
    assert stacks.effects(case.resource_id) == ['update', 'update']
    case.wake()
    assert stacks.awake(case.resource_id)


def test_an_update_that_heat_takes_back(stacks):
    case = reserved(stacks)
    case.wake_once()
    change(case, status='ROLLBACK_COMPLETE', next=[], reason='Taken back.')
    with pytest.raises(exceptions.Transient, match='Taken back'):
        case.wake_once()
    case.wake()
    assert stacks.awake(case.resource_id)


def test_a_suspended_stack_that_cannot_be_resumed(stacks):
    case = reserved(stacks)
    change(case, status='SUSPEND_FAILED')
    case.wake_once()
    change(case, status='SUSPEND_FAILED', next=[], reason='It is stuck.')
    with pytest.raises(exceptions.Transient, match='It is stuck'):
        case.wake_once()


def test_a_stack_that_is_being_deleted_is_waited_for(stacks):
    """Its members are not woken as long as it is there."""
    case = reserved(stacks)
    change(case, status='DELETE_IN_PROGRESS', next=['DELETE_IN_PROGRESS'] * 99)
    assert case.wake_once().reason is None
    case.time.forward(300)
    assert 'DELETE_IN_PROGRESS' in case.wake_once().reason
    change(case, next=['DELETE_COMPLETE'])
    with pytest.raises(exceptions.Permanent, match='deleted'):
        case.wake_once()
    assert stacks.effects(case.resource_id) == []


@pytest.mark.parametrize(
    ('fields', 'refusals', 'error', 'told'),
    [
        ({'status': 'DELETE_COMPLETE'}, 0, exceptions.Permanent, 'deleted'),
        # It may be deleted again.
        (
            {'status': 'DELETE_FAILED', 'reason': 'It is in use.'},
            0,
            exceptions.Transient,
            'It is in use',
        ),
        ({}, 1, exceptions.Permanent, '403'),
    ],
)
def test_nothing_is_asked_of_a_stack_that_cannot_be_woken(stacks, fields, refusals, error, told):
    case = reserved(stacks)
    change(case, **fields)
    stacks.fault(*UPDATE, 403, count=refusals)
    with pytest.raises(error, match=told):
        case.wake_once()
    assert stacks.effects(case.resource_id) == []


@pytest.mark.parametrize('status', ['SUSPEND_COMPLETE', 'CREATE_COMPLETE'])
def test_wake_up_waits_while_heat_is_busy(stacks, status):
    case = reserved(stacks)
    change(case, status=status)
    stacks.fault(*UPDATE, 409)
    stacks.fault(*RESUME, 409)
    assert isinstance(case.wake_once(), PollAgain)
    assert stacks.effects(case.resource_id) == []
    case.wake()
    assert stacks.effects(case.resource_id)[-1] == 'update'
    assert stacks.wakes(case.resource_id) == 1


@pytest.mark.parametrize('answer', [500, 400])
def test_heat_does_not_take_the_update_now(stacks, answer):
    """400 is what Heat says, too, when a service did not answer while it looked for mistakes."""
    case = reserved(stacks)
    stacks.fault(*UPDATE, answer)
    with pytest.raises(exceptions.Transient, match='Heat'):
        case.wake_once()
    case.wake()
    assert stacks.wakes(case.resource_id) == 1


def test_a_stack_that_another_user_updated(stacks):
    """It is woken as soon as its own user has updated it."""
    case = reserved(stacks)
    change(case, creds='bob-id')
    with pytest.raises(exceptions.Transient, match='its own user must update it once'):
        case.wake_once()
    change(case, creds='alice-id')
    case.wake()
    assert stacks.wakes(case.resource_id) == 1


@pytest.mark.parametrize(
    ('fields', 'fault', 'asked'),
    [
        ({}, {'count': 99, 'after': True}, ['update']),
        ({'status': 'SUSPEND_COMPLETE'}, {'count': 99, 'after': True}, ['resume', 'update']),
        # The question was lost, not the answer.
        ({'status': 'UPDATE_COMPLETE', 'updated': 7}, {}, ['update']),
    ],
)
def test_request_whose_answer_is_lost_is_not_repeated(stacks, fields, fault, asked):
    """Heat takes longer to answer than we wait, each time."""
    case = reserved(stacks)
    change(case, **fields)
    stacks.fault(*(UPDATE if asked == ['update'] else RESUME), 0, **fault)
    assert count_failures(case.wake) == 1
    assert stacks.effects(case.resource_id) == asked
    assert stacks.wakes(case.resource_id) == 1
    assert case.wake_once() is None


def test_a_lost_answer_to_an_update_that_fails(stacks):
    case = reserved(stacks)
    change(case, update_failures=1)
    stacks.fault(*UPDATE, 504, after=True)
    with pytest.raises(exceptions.Transient, match='504'):
        case.wake()
    with pytest.raises(exceptions.Transient, match='No valid host'):
        case.wake()
    case.wake()
    assert stacks.effects(case.resource_id) == ['update', 'update']
