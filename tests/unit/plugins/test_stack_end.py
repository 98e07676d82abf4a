# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins import stack_end
from climate_core.plugins.base import PollAgain
from tests.conformance.world import reservation_of, reserved
from tests.support.fakes import heat, nova
from tests.unit.plugins.cases import change, count_failures


def woken(stacks, on_end, **fields):
    case = reserved(stacks, on_end=on_end)
    case.woken()
    change(case, **fields)
    case.world.state.stacks[case.resource_id]['before'] = len(stacks.effects(case.resource_id))
    return case


def effects(case):
    """Return what was asked of the stack since it was woken."""
    before = case.world.state.stacks.get(case.resource_id, {}).get('before', 1)
    return case.world.effects(case.resource_id)[before:]


@pytest.mark.parametrize('fields', [{}, {'status': 'SUSPEND_COMPLETE'}])
def test_snapshot_comes_before_the_suspension(stacks, fields):
    case = woken(stacks, 'snapshot', **fields)
    case.end()
    assert effects(case) == ['snapshot', 'suspend']
    (made,) = stacks.state.stack_snapshots.values()
    name = stacks.state.stacks[case.resource_id]['stack_name']
    assert made['name'] == f'reserved_{name}_{case.reservation.id}'


def test_the_longest_name_of_a_snapshot(stacks):
    case = woken(stacks, 'snapshot', stack_name='s' * 255)
    case.end()
    (made,) = stacks.state.stack_snapshots.values()
    assert len(made['name']) == 255
    assert made['name'].endswith(f's_{case.reservation.id}')


def test_the_prefix_may_change_meanwhile(stacks):
    case = woken(stacks, 'snapshot')
    case.end_once()
    stacks.conf.set_override('snapshot_prefix', 'other_', group='virtual:stack')
    case.end()
    assert len(stacks.state.stack_snapshots) == 1


def test_the_snapshot_of_another_reservation_is_none(stacks):
    case = woken(stacks, 'snapshot')
    other = {'id': 's1', 'name': 'mine', 'stack_id': case.resource_id, 'status': 'COMPLETE'}
    stacks.state.stack_snapshots['s1'] = other
    case.end()
    assert len(stacks.state.stack_snapshots) == 2


def test_a_failed_snapshot_is_deleted_and_made_again(stacks):
    case = woken(stacks, 'snapshot', snapshot_failures=1)
    with pytest.raises(exceptions.Transient, match=r'snapshot: .*No valid host'):
        case.end()
    assert stacks.state.stack_snapshots == {}
    assert isinstance(case.end_once(), PollAgain)
    assert effects(case) == ['snapshot']
    case.end()
    assert effects(case) == ['snapshot', 'snapshot', 'suspend']
    (made,) = stacks.state.stack_snapshots.values()
    assert made['status'] == 'COMPLETE'


def test_a_snapshot_that_vanishes(stacks):
    case = woken(stacks, 'snapshot')
    case.end_once()
    stacks.state.stack_snapshots.clear()
    with pytest.raises(exceptions.Transient, match='deleted before it was complete'):
        case.end()
    case.end()
    assert len(stacks.state.stack_snapshots) == 1


def test_a_snapshot_that_is_being_made_is_waited_for(stacks):
    case = woken(stacks, 'snapshot')
    case.end_once()
    change(case, status='SNAPSHOT_COMPLETE', next=[])
    assert isinstance(case.end_once(), PollAgain)
    assert effects(case) == ['snapshot']


@pytest.mark.parametrize('on_end', ['suspend', 'snapshot'])
@pytest.mark.parametrize('status', ['UPDATE_IN_PROGRESS', 'SUSPEND_IN_PROGRESS'])
def test_what_is_done_with_a_stack_is_waited_for(stacks, on_end, status):
    case = woken(stacks, on_end, status=status)
    assert isinstance(case.end_once(), PollAgain)
    assert effects(case) == []


@pytest.mark.parametrize(
    ('on_end', 'field'),
    [('delete', 'delete_failures'), ('suspend', 'suspend_failures')],
)
def test_a_failure_says_why_and_is_tried_again(stacks, on_end, field):
    case = woken(stacks, on_end, **{field: 2})
    rests = []
    for _ in range(2):
        with pytest.raises(exceptions.Transient, match='No valid host was found'):
            case.end()
        rests.append(case.end_once().seconds)
    assert rests[0] < rests[1]
    case.end()
    assert effects(case) == [on_end] * 3
    assert stacks.ended(case.reservation)


N = stack_end.MAX_TRIES


@pytest.mark.parametrize(
    ('failures', 'tried', 'asked', 'left'),
    [
        ({'suspend_failures': 99}, N, ['suspend'] * N, 'SUSPEND_FAILED'),
        ({'snapshot_failures': 99}, N, ['snapshot'] * N + ['suspend'], 'SUSPEND_COMPLETE'),
        (
            {'snapshot_failures': 99, 'suspend_failures': 99},
            2 * N,
            ['snapshot'] * N + ['suspend'] * N,
            'SUSPEND_FAILED',
        ),
        ({'delete_failures': 9}, 9, ['delete'] * 10, None),
    ],
)
def test_all_but_a_deletion_is_given_up_after_so_many_tries(stacks, failures, tried, asked, left):
    """A suspension is left to the members then, and a snapshot is left out."""
    case = woken(stacks, next(iter(failures)).removesuffix('_failures'), **failures)
    assert count_failures(case.end) == tried
    assert effects(case) == asked
    assert stacks.state.stacks.get(case.resource_id, {}).get('status') == left
    assert stacks.state.stack_snapshots == {}


def test_suspension_that_is_refused_is_left_to_the_members(stacks):
    case = woken(stacks, 'suspend')
    stacks.fault('POST', '/actions', 403, 99)
    assert count_failures(case.end) == N


@pytest.mark.parametrize('on_end', ['suspend', 'snapshot'])
@pytest.mark.parametrize(
    'status', ['UPDATE_IN_PROGRESS', 'SUSPEND_IN_PROGRESS', 'SNAPSHOT_IN_PROGRESS']
)
def test_what_hangs_at_the_end_is_taken_over(stacks, on_end, status):
    case = woken(stacks, on_end, status=status, next=[status] * 999)
    slow = status == 'SNAPSHOT_IN_PROGRESS'
    case.time.forward(1)
    case.end_once()
    case.time.forward((3600 if slow else 600) - 60)
    case.end_once()
    assert effects(case) == []
    case.time.forward(60)
    case.end_once()
    assert effects(case) == ['suspend']
    case.end()
    assert stacks.state.stacks[case.resource_id]['status'] == 'SUSPEND_COMPLETE'


def test_our_own_snapshot_that_hangs(stacks):
    """Heat does not delete it, either."""
    case = woken(stacks, 'snapshot')
    case.end_once()
    change(case, next=['SNAPSHOT_IN_PROGRESS'] * 999)
    case.end_once()
    case.time.forward(3600 - 60)
    case.end_once()
    assert effects(case) == ['snapshot']
    case.time.forward(60)
    case.end()
    assert effects(case) == ['snapshot', 'suspend']
    (left,) = stacks.state.stack_snapshots.values()
    assert left['status'] == 'IN_PROGRESS'


def test_a_snapshot_that_no_engine_makes_is_told_then_left(stacks):
    """An engine died before it showed in the stack what it does."""
    case = woken(stacks, 'snapshot')
    case.end_once()
    change(case, status='CREATE_COMPLETE', next=[])
    assert case.end_once().reason is None
    case.time.forward(1800)
    assert 'snapshot of the stack has been IN_PROGRESS without a change' in case.end_once().reason
    case.time.forward(1800 - 60)
    case.end_once()
    assert effects(case) == ['snapshot']
    case.time.forward(60)
    assert case.end_once().repair == 'suspend'
    case.end()
    assert effects(case) == ['snapshot', 'suspend']
    assert stacks.state.stacks[case.resource_id]['status'] == 'SUSPEND_COMPLETE'


@pytest.mark.parametrize('on_end', ['suspend', 'snapshot'])
def test_heat_is_busy_at_the_end(stacks, on_end):
    case = woken(stacks, on_end)
    path = '/actions' if on_end == 'suspend' else '/snapshots'
    stacks.state.faults.append({'method': 'POST', 'path': path, 'status': 409, 'count': 2})
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    assert stacks.ended(case.reservation)


@pytest.mark.parametrize('on_end', ['delete', 'suspend', 'snapshot', 'nothing'])
def test_a_deletion_by_the_user_is_waited_for(stacks, on_end):
    case = woken(stacks, on_end, status='DELETE_IN_PROGRESS', next=['DELETE_IN_PROGRESS'] * 2)
    assert isinstance(case.end_once(), PollAgain)
    assert isinstance(case.end_once(), PollAgain)
    change(case, next=['DELETE_COMPLETE'])
    assert case.end_once() is None
    assert effects(case) == []


def test_a_deletion_whose_engine_died_is_asked_for_again(stacks):
    case = woken(stacks, 'delete', status='DELETE_IN_PROGRESS', next=['DELETE_IN_PROGRESS'] * 99)
    for _ in range(2):
        assert isinstance(case.end_once(), PollAgain)
        case.time.forward(300)
    assert effects(case) == []
    assert isinstance(case.end_once(), PollAgain)
    assert effects(case) == ['delete']
    case.end()
    assert effects(case) == ['delete']


def test_a_hung_deletion_of_a_stack_that_another_user_updated(stacks):
    hung = ['DELETE_IN_PROGRESS'] * 60
    case = woken(stacks, 'delete', creds='bob-id', status='DELETE_IN_PROGRESS', next=hung)
    case.end()
    assert effects(case) == ['delete']
    assert stacks.gone(case.resource_id)


@pytest.mark.parametrize(
    ('on_end', 'status'),
    [
        *((each, 'DELETE_FAILED') for each in ('delete', 'suspend', 'snapshot', 'nothing')),
        ('delete', 'UPDATE_IN_PROGRESS'),
    ],
)
def test_deletion_that_failed_is_asked_again_and_waits_for_no_update(stacks, on_end, status):
    case = woken(stacks, on_end, status=status)
    case.end()
    assert effects(case) == ['delete']
    assert stacks.gone(case.resource_id)


@pytest.mark.parametrize(
    ('on_end', 'status'),
    [
        ('delete', 'DELETE_COMPLETE'),
        ('suspend', 'DELETE_COMPLETE'),
        ('suspend', 'SUSPEND_COMPLETE'),
    ],
)
def test_nothing_is_asked_of_a_stack_that_is_ended_already(stacks, on_end, status):
    case = woken(stacks, on_end, status=status)
    assert case.end_once() is None
    assert effects(case) == []


def test_a_stack_that_vanishes_between_look_and_deletion(stacks):
    case = woken(stacks, 'delete')
    stacks.fault('DELETE', '/stacks/', 404)
    assert case.end_once() is None


@pytest.mark.parametrize(
    ('fields', 'user'), [({}, 'alice-id'), ({'creds': 'bob-id'}, 'climate-id')]
)
def test_stack_that_another_user_updated_is_deleted_by_the_service(stacks, fields, user):
    case = woken(stacks, 'delete', **fields)
    case.end()
    assert stacks.gone(case.resource_id)
    (entry,) = [e for e in stacks.state.journal() if e['what'] == 'delete']
    assert entry['as'] == user


@pytest.mark.parametrize('trust', [True, False])
def test_a_deletion_that_the_service_may_not_ask_for_either(stacks, trust):
    case = woken(stacks, 'delete')
    if not trust:
        case.lease = dataclasses.replace(case.lease, trust_id=None)
    stacks.fault('DELETE', '/stacks/', 403, 2 if trust else 1)
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    assert not stacks.state.faults
    case.end()
    assert stacks.gone(case.resource_id)


def test_what_heat_refuses_is_tried_again(stacks):
    case = woken(stacks, 'suspend')
    stacks.fault('POST', '/actions', 403)
    with pytest.raises(exceptions.Transient):
        case.end_once()
    case.end()
    assert stacks.ended(case.reservation)


def test_a_reservation_that_is_taken_out_has_run(stacks):
    case = woken(stacks, 'suspend')
    now = case.reservation.created_at
    case.reservation = dataclasses.replace(case.reservation, status='deleting', woken_at=now)
    case.end()
    assert stacks.ended(case.reservation)


def with_members(case, *statuses):
    """Let servers of these statuses be members in the lease."""
    made = []
    for status in statuses:
        server = nova.add(case.world.state, status=status)
        claimed = dataclasses.replace(
            case.world.plugin().reserve(case.world.user(), {'resource_id': case.resource_id}),
            resource_id=server['id'],
            params={'on_end': 'delete', 'stack_id': case.resource_id},
        )
        made.append(reservation_of(claimed, 'virtual:instance'))
    case.lease = dataclasses.replace(case.lease, reservations=(case.reservation, *made))


@pytest.mark.parametrize('trust', [True, False])
@pytest.mark.parametrize(
    ('statuses', 'kept'),
    [(['RESERVED'], False), (['RESERVED', 'ACTIVE'], True), (['ERROR', 'RESERVED'], True)],
)
def test_a_stack_that_woke_half_way_is_ended_as_asked(stacks, statuses, kept, trust):
    case = reserved(stacks, on_end='suspend')
    with_members(case, *statuses)
    if not trust:
        stacks.trusts.delete(case.lease.trust_id)
    case.end()
    assert stacks.gone(case.resource_id) is not kept


def test_others_in_the_lease_do_not_count(stacks):
    case = reserved(stacks, on_end='suspend')
    with_members(case, 'ACTIVE')
    other = heat.add(stacks.state)
    (stack, member) = case.lease.reservations
    member = dataclasses.replace(member, params={'on_end': 'delete', 'stack_id': other['id']})
    case.lease = dataclasses.replace(case.lease, reservations=(stack, member))
    case.end()
    assert stacks.gone(case.resource_id)


@pytest.mark.parametrize('status', ['UPDATE_IN_PROGRESS', 'ROLLBACK_IN_PROGRESS'])
def test_a_stack_whose_lease_is_taken_out_goes_on(stacks, status):
    case = reserved(stacks, on_end='nothing')
    change(case, status=status)
    assert case.end_once() is None
    assert not stacks.gone(case.resource_id)


@pytest.mark.parametrize(
    ('on_end', 'statuses'), [('nothing', ['RESERVED']), ('suspend', []), ('delete', [])]
)
def test_a_stack_that_sleeps_is_deleted_in_the_middle_of_an_update(stacks, on_end, statuses):
    case = reserved(stacks, on_end=on_end)
    with_members(case, *statuses)
    change(case, status='UPDATE_IN_PROGRESS')
    case.end()
    assert stacks.gone(case.resource_id)
