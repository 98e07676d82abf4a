# SPDX-License-Identifier: Apache-2.0
"""What a dead engine of Heat left undone is repaired: another engine is asked to go on."""

import pytest

from climate_core import exceptions
from tests.conformance.world import reserved
from tests.unit.plugins.cases import change, woken

#: The action that hangs -> what is asked for at the start of a lease.
AT_START = {
    'CREATE': 'update',
    'UPDATE': 'update',
    'RESUME': 'resume',
    'SUSPEND': 'suspend',
    'DELETE': 'delete',
}
METHODS = {'update': 'PATCH', 'delete': 'DELETE', 'suspend': 'POST', 'resume': 'POST'}


def hang(case, action):
    status = f'{action}_IN_PROGRESS'
    change(case, status=status, next=[status] * 999)


@pytest.fixture(params=[*AT_START, 'DELETE at the end', 'UPDATE at the end'])
def hung(request, stacks):
    """Return a stack that hangs, a look at it, and what is asked for when it counts as lost."""
    action, _, at_end = request.param.partition(' ')
    on_end = 'delete' if action == 'DELETE' else 'suspend'
    case = (woken if at_end else reserved)(stacks, on_end=on_end)
    hang(case, action)
    look = case.end_once if at_end else case.wake_once
    return case, look, on_end if at_end else AT_START[action]


def test_what_hangs_is_told_then_repaired(hung):
    case, look, repair = hung
    before = case.world.effects(case.resource_id)
    for seconds in (250, 20):
        assert look().reason is None
        case.time.forward(seconds)
    told = look().reason
    assert ' without a change for 5 minutes. It counts as lost after 10' in told
    assert ('UPDATE_IN_PROGRESS (Heat updates a stack to start' in told) == ('UPDATE_IN' in told)
    case.time.forward(300)
    wait = look()
    assert (wait.repair, 'another engine' in wait.reason) == (repair, True)
    assert case.world.effects(case.resource_id) == [*before, repair]


def test_a_stack_of_which_a_resource_changes_is_not_lost(hung):
    case, look, _ = hung
    before = case.world.effects(case.resource_id)
    for number in range(5):
        change(case, event=f'event-{number}')
        assert look().repair is None
        case.time.forward(500)
    assert case.world.effects(case.resource_id) == before


def test_where_heat_refuses_the_reason_says_what_to_type(hung):
    case, look, repair = hung
    look()
    case.time.forward(600)
    # A deletion is asked for with the rights of the service, too.
    refused = {'path': '/stacks/', 'status': 403, 'count': 2 if repair == 'delete' else 1}
    case.world.state.faults.append({**refused, 'method': METHODS[repair]})
    with pytest.raises(exceptions.Transient, match=f'must run: openstack stack {repair}'):
        look()
    assert look().repair is None


@pytest.mark.parametrize('is_refused', [True, False])
@pytest.mark.parametrize('minutes', [10, 1])
def test_members_end_by_themselves_when_a_deletion_hangs_again_and_again(
    stacks, minutes, is_refused
):
    stacks.conf.set_override('lost_action_minutes', minutes, group='virtual:stack')
    case = woken(stacks, 'delete')
    hang(case, 'DELETE')
    case.end_once()
    for repeats in (1, 2, 3):
        case.time.forward(60 * minutes)
        if is_refused:
            refused = {'path': '/stacks/', 'status': 403, 'count': 2, 'method': 'DELETE'}
            case.world.state.faults.append(refused)
            with pytest.raises(exceptions.Transient, match='must run: openstack stack delete'):
                case.end_once()
        else:
            assert case.end_once().repair == 'delete'
        assert case.reservation.progress['failures'] == repeats
        if not is_refused:
            hang(case, 'DELETE')
            case.end_once()


def test_what_is_asked_for_after_a_loss_and_fails_counts_as_a_failure(stacks):
    case = woken(stacks, 'suspend')
    hang(case, 'UPDATE')
    case.end_once()
    case.time.forward(600)
    change(case, suspend_failures=1)
    assert case.end_once().repair == 'suspend'
    with pytest.raises(exceptions.Transient, match='could not suspend'):
        case.end_once()
