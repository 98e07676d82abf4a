# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes that are members of a reserved stack."""

import dataclasses
import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import model
from climate_core.plugins import parent_stacks
from climate_core.plugins.base import Claimed
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_volumes import FakeVolumes
from tests.conformance.world import reservation_of, reserved
from tests.support.fakes import cinder, heat, nova

STACK = '0ea3e7b5-0000-4000-8000-000000000001'
KEPT = ('suspend', 'snapshot', 'nothing')


@pytest.fixture(params=[FakeServers, FakeVolumes])
def members(request, fake):
    """A world whose resources are members, and what Heat has of their stack."""
    made = request.param(fake)
    made.stack = heat.add(made.state, id=STACK, status='UPDATE_COMPLETE')
    return made


def member(members, **stack):
    """Reserve a member; the fields are those of its stack's reservation, None for no stack."""
    case = reserved(members, stack_id=STACK)
    members.stack['members'] = [case.resource_id]
    leader = reservation_of(Claimed(STACK, {'on_end': 'delete'}), 'virtual:stack', **stack)
    case.lease = dataclasses.replace(case.lease, reservations=(leader, case.reservation))
    return case


def table(members):
    return members.state.volumes if isinstance(members, FakeVolumes) else members.state.servers


def change(case, **fields):
    table(case.world)[case.resource_id].update(fields)


def awake(case):
    """What Heat has woken."""
    at = {'OS-SRV-USG:launched_at': '2026-01-01'}
    up = {'status': 'available', 'mark': False}
    change(case, **(up if isinstance(case.world, FakeVolumes) else {'status': 'ACTIVE', **at}))
    case.reservation = dataclasses.replace(case.reservation, status='active')
    (leader, _) = case.lease.reservations
    case.lease = dataclasses.replace(case.lease, reservations=(leader, case.reservation))
    return case


def ended(case, on_end, **fields):
    """End the stack with its action."""
    if on_end in ('suspend', 'snapshot'):
        case.world.stack['status'] = 'SUSPEND_COMPLETE'
    now = datetime.datetime.now(datetime.UTC)
    (leader, own) = case.lease.reservations
    values = {'status': 'deleted', 'woken_at': now, 'params': {'on_end': on_end}, **fields}
    leader = dataclasses.replace(leader, **values)
    case.lease = dataclasses.replace(case.lease, reservations=(leader, own))
    return case


def calls(members, call):
    """What a call asks of Nova, Cinder and Heat."""
    with members.counted() as sent:
        assert call() is None
    return [line for line in sent if '/identity' not in line]


def test_a_member_says_its_stack(members):
    values = {**members.reservable(), 'stack_id': STACK}
    assert members.plugin().reserve(members.user(), values).params['stack_id'] == STACK
    alone = {**members.reservable(), 'stack_id': None}
    assert 'stack_id' not in members.plugin().reserve(members.user(), alone).params
    assert members.plugin().schema['stack_id'] == {'type': 'string', 'format': 'uuid'}
    assert 'stack_id' not in members.plugin().changeable


@pytest.mark.parametrize('status', ['pending', 'active'])
def test_a_member_is_woken_with_its_stack(members, status):
    case = member(members, status=status)
    wake = lambda: case.wake_once()  # noqa: E731
    assert calls(members, wake) == []
    assert members.wakes(case.resource_id) == 0


@pytest.mark.parametrize(
    'stack',
    [
        {'status': 'error'},
        {'status': 'deleting'},
        {'status': 'deleted'},
        {'resource_id': 'another'},
    ],
)
def test_a_member_whose_stack_wakes_nobody_is_woken(members, stack):
    case = member(members, **stack)
    case.wake()
    assert members.awake(case.resource_id)


def test_a_stack_that_is_reserved_again_wakes_its_members(members):
    case = member(members, status='deleted')
    (leader, own) = case.lease.reservations
    later = leader.created_at - datetime.timedelta(seconds=1)
    again = dataclasses.replace(leader, id='again', status='pending', created_at=later)
    case.lease = dataclasses.replace(case.lease, reservations=(again, leader, own))
    assert parent_stacks.woken_by_heat(case.lease, case.reservation)


def test_others_are_woken_by_us(members):
    case = member(members)
    own = dataclasses.replace(case.reservation, params={'on_end': 'delete'})
    assert parent_stacks.leader(case.lease, own) is None
    assert not parent_stacks.woken_by_heat(case.lease, own)


def test_only_a_stack_has_members(members):
    case = member(members)
    (leader, own) = case.lease.reservations
    leader = dataclasses.replace(leader, resource_type='virtual:thing')
    case.lease = dataclasses.replace(case.lease, reservations=(leader, own))
    assert parent_stacks.leader(case.lease, case.reservation) is None


@pytest.mark.parametrize('on_end', KEPT)
def test_a_member_of_a_stack_that_was_kept_is_left_alone(members, on_end):
    case = ended(awake(member(members)), on_end)
    asked = calls(members, lambda: case.end_once())
    assert [line.split()[0] for line in asked] == ['GET', 'GET']
    assert case.resource_id in table(members)


@pytest.mark.parametrize(
    ('on_end', 'left'),
    [('suspend', 'SUSPENDED'), ('snapshot', 'SUSPENDED'), ('nothing', 'ACTIVE')],
)
def test_a_stack_that_heat_could_not_suspend(members, on_end, left):
    """Servers are suspended by themselves; a volume is as it would be."""
    case = ended(awake(member(members)), on_end)
    members.stack['status'] = 'SUSPEND_FAILED'
    case.end()
    left = 'available' if isinstance(members, FakeVolumes) else left
    assert table(members)[case.resource_id]['status'] == left


@pytest.mark.parametrize('on_end', KEPT)
def test_a_spare_of_a_stack_that_was_kept_is_deleted(members, on_end):
    case = ended(member(members), on_end)
    case.reservation = dataclasses.replace(case.reservation, status='active')
    case.end()
    assert members.gone(case.resource_id)


def test_a_member_is_gone_with_its_stack(members):
    case = ended(awake(member(members)), 'delete')
    members.destroy(case.resource_id)
    asked = calls(members, lambda: case.end_once())
    assert not any('/heat/' in line for line in asked)


def test_a_member_outlives_a_stack_that_was_deleted(members):
    """It was abandoned, say: its own end action is what remains."""
    case = ended(awake(member(members)), 'delete')
    case.end()
    assert members.gone(case.resource_id)


@pytest.mark.parametrize(
    'fields',
    [
        {'missing_resources': True},
        {'status': 'active'},
        {'status': 'error'},
        {'resource_id': 'another'},
    ],
)
def test_a_stack_that_was_not_kept_by_its_end(members, fields):
    case = ended(awake(member(members)), 'nothing', **fields)
    case.end()
    assert members.gone(case.resource_id)


@pytest.mark.parametrize('on_end', KEPT)
def test_a_member_of_a_stack_that_woke_half_way(members, on_end):
    """It was kept, for there may be data in it."""
    case = ended(awake(member(members)), on_end, woken_at=None)
    case.end()
    assert case.resource_id in table(members)


def test_a_stack_that_was_taken_out_before(members):
    """What is left in the lease is the lease's to end."""
    case = ended(awake(member(members)), 'nothing')
    (leader, _) = case.lease.reservations
    now = leader.created_at
    removal = model.new_event(case.lease.id, 'end_reservation', now, now, leader.id)
    case.lease = dataclasses.replace(case.lease, events=(removal,))
    case.end()
    assert members.gone(case.resource_id)


def test_the_member_alone_is_taken_out(members):
    case = awake(member(members, status='active'))
    case.reservation = dataclasses.replace(case.reservation, status='deleting')
    case.end()
    assert members.gone(case.resource_id)


@pytest.mark.parametrize('status', ['DELETE_IN_PROGRESS', 'DELETE_FAILED', 'DELETE_COMPLETE'])
def test_a_kept_stack_that_is_deleted_since(members, status):
    members.stack['status'] = status
    case = ended(awake(member(members)), 'nothing')
    case.end()
    assert members.gone(case.resource_id)


def test_a_kept_stack_that_is_gone_since(members):
    case = ended(awake(member(members)), 'nothing')
    members.state.drop('stacks', STACK, {'what': 'stack gone', 'id': STACK})
    case.end()
    assert members.gone(case.resource_id)


def test_heat_does_not_answer(members):
    case = ended(awake(member(members)), 'nothing')
    for status in (503, 403):
        fault = {'method': 'GET', 'path': '/heat/', 'status': status, 'count': 1}
        members.state.faults.append(fault)
        with pytest.raises(exceptions.Transient):
            case.end_once()
    assert case.end_once() is None


def test_the_service_may_not_see_the_stack(members):
    """That it finds none says nothing then."""
    case = ended(awake(member(members)), 'suspend')
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    del members.state.stacks[STACK]
    fault = {'method': 'GET', 'path': '/heat/.*/services', 'status': 403, 'count': 1}
    members.state.faults.append(fault)
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    assert case.resource_id in table(members)


@pytest.mark.parametrize('count', [1, 40])
def test_a_kept_stack_is_looked_at_once(members, count):
    case = ended(awake(member(members)), 'nothing')
    others = [awake(member(members)) for _ in range(count - 1)]
    every = [case.reservation, *(each.reservation for each in others)]
    leader = case.lease.reservations[0]
    lease = dataclasses.replace(case.lease, reservations=(leader, *every))
    with members.counted() as sent:
        for each in every:
            assert case.plugin.end(lease, each) is None
    assert sum('/heat/' in line for line in sent) == 1
    assert {each.resource_id for each in every} <= set(table(members))


def test_another_owner_looks_again(members):
    case = ended(awake(member(members)), 'nothing')
    case.end()
    another = dataclasses.replace(case.lease, trust_id=members.trust())
    asked = calls(members, lambda: case.plugin.end(another, case.reservation))
    assert sum('/heat/' in line for line in asked) == 1


def test_the_owner_is_no_more(members):
    case = ended(awake(member(members)), 'suspend')
    members.trusts.delete(case.lease.trust_id)
    case.end()
    assert case.resource_id in table(members)


def test_a_member_in_error_that_heat_never_started(world):
    """That its reservation is active says only that Heat wakes it: no data can be in it."""
    case = member_in_error(world, {'on_end': 'create_image', 'stack_id': STACK})
    case.end()
    assert world.gone(case.resource_id)


def test_a_server_in_error_that_we_started(world):
    case = member_in_error(world, {'on_end': 'create_image'})
    with pytest.raises(exceptions.Transient, match='ERROR'):
        case.end()


def member_in_error(world, params):
    case = reserved(world)
    world.state.servers[case.resource_id]['status'] = 'ERROR'
    case.reservation = dataclasses.replace(case.reservation, status='active', params=params)
    return case


@pytest.mark.parametrize('everywhere', [True, False])
def test_who_is_asleep(stacks, everywhere):
    user = stacks.cloud.service() if everywhere else stacks.cloud.user(stacks.user())
    mine = {nova.add(stacks.state)['id'], cinder.add(stacks.state)['id']}
    nova.add(stacks.state, status='ACTIVE')
    cinder.add(stacks.state, status='available')
    theirs = {nova.add(stacks.state, project_id='other-id')['id']}
    theirs |= {cinder.add(stacks.state, project_id='other-id')['id']}
    found = parent_stacks.asleep(user, every_project=everywhere)
    assert found == (mine | theirs if everywhere else mine)
