# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes that are members of a reserved stack."""

import dataclasses
import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import model
from climate_core.plugins import own_service_plugin
from climate_core.plugins.base import ReservedResource
from tests.conformance.fake_volumes import FakeVolumes
from tests.conformance.world import reservation_of, reserved
from tests.support.fakes import cinder, heat, nova
from tests.unit.plugins.cases import change

STACK = '0ea3e7b5-0000-4000-8000-000000000001'
KEPT = ('suspend', 'snapshot', 'nothing')


@pytest.fixture
def members(single):
    """Return a world whose resources are members, and what Heat has of their stack."""
    single.stack = heat.add(single.state, id=STACK, status='UPDATE_COMPLETE')
    return single


def member(members, **stack):
    """Reserve a member; the fields are those of its stack's reservation, None for no stack."""
    case = reserved(members, stack_id=STACK)
    members.stack['members'] = [case.resource_id]
    parent = reservation_of(
        ReservedResource(STACK, {'on_end': 'delete'}), 'virtual:stack', **stack
    )
    case.lease = dataclasses.replace(case.lease, reservations=(parent, case.reservation))
    return case


def awake(case):
    """Return what Heat has woken."""
    at = {'OS-SRV-USG:launched_at': '2026-01-01'}
    up = {'status': 'available', 'mark': False}
    change(case, **(up if isinstance(case.world, FakeVolumes) else {'status': 'ACTIVE', **at}))
    case.reservation = dataclasses.replace(case.reservation, status='active')
    (parent, _) = case.lease.reservations
    case.lease = dataclasses.replace(case.lease, reservations=(parent, case.reservation))
    return case


def ended(case, on_end, **fields):
    """End the stack with its action."""
    if on_end in ('suspend', 'snapshot'):
        case.world.stack['status'] = 'SUSPEND_COMPLETE'
    now = datetime.datetime.now(datetime.UTC)
    (parent, own) = case.lease.reservations
    values = {'status': 'deleted', 'woken_at': now, 'params': {'on_end': on_end}, **fields}
    parent = dataclasses.replace(parent, **values)
    case.lease = dataclasses.replace(case.lease, reservations=(parent, own))
    return case


def calls(members, call):
    """Return what a call asks of Nova, Cinder and Heat."""
    with members.counted() as sent:
        assert call() is None
    return [line for line in sent if '/identity' not in line]


def test_a_member_says_its_stack(members):
    values = {**members.reservable(), 'stack_id': STACK}
    assert members.plugin().reserve(members.user(), values).params['stack_id'] == STACK
    alone = {**members.reservable(), 'stack_id': None}
    assert 'stack_id' not in members.plugin().reserve(members.user(), alone).params
    assert members.plugin().schema['stack_id'] == {'type': 'string', 'format': 'uuid'}


@pytest.mark.parametrize('status', ['pending', 'active'])
def test_a_member_is_woken_with_its_stack(members, status):
    case = member(members, status=status)
    assert calls(members, lambda: case.wake_once()) == []
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
    (parent, own) = case.lease.reservations
    later = parent.created_at - datetime.timedelta(seconds=1)
    again = dataclasses.replace(parent, id='again', status='pending', created_at=later)
    case.lease = dataclasses.replace(case.lease, reservations=(again, parent, own))
    assert own_service_plugin.is_woken_by_heat(case.lease, case.reservation)


def test_others_are_woken_by_us(members):
    case = member(members)
    own = dataclasses.replace(case.reservation, params={'on_end': 'delete'})
    assert own_service_plugin.find_parent_stack(case.lease, own) is None
    assert not own_service_plugin.is_woken_by_heat(case.lease, own)


def test_only_a_stack_has_members(members):
    case = member(members)
    (parent, own) = case.lease.reservations
    parent = dataclasses.replace(parent, resource_type='virtual:thing')
    case.lease = dataclasses.replace(case.lease, reservations=(parent, own))
    assert own_service_plugin.find_parent_stack(case.lease, case.reservation) is None


@pytest.mark.parametrize('on_end', KEPT)
@pytest.mark.parametrize('stack', [{}, {'woken_at': None}])
def test_a_member_of_a_stack_that_was_kept_is_left_alone(members, on_end, stack):
    """Also if it woke half-way, for there may be data in it."""
    case = ended(awake(member(members)), on_end, **stack)
    asked = calls(members, lambda: case.end_once())
    assert [line.split()[0] for line in asked] == ['GET', 'GET']
    assert case.resource_id in members.table


def test_a_member_is_gone_with_its_stack(members):
    case = ended(awake(member(members)), 'delete')
    members.destroy(case.resource_id)
    asked = calls(members, lambda: case.end_once())
    assert not any('/heat/' in line for line in asked)


@pytest.mark.parametrize(
    ('on_end', 'fields', 'status'),
    [
        # It was abandoned, say: its own end action is what remains.
        ('delete', {}, 'UPDATE_COMPLETE'),
        ('nothing', {'missing_resources': True}, 'UPDATE_COMPLETE'),
        ('nothing', {'status': 'active'}, 'UPDATE_COMPLETE'),
        ('nothing', {'status': 'error'}, 'UPDATE_COMPLETE'),
        ('nothing', {'resource_id': 'another'}, 'UPDATE_COMPLETE'),
        ('nothing', {}, 'DELETE_IN_PROGRESS'),
        ('nothing', {}, 'DELETE_FAILED'),
        ('nothing', {}, 'DELETE_COMPLETE'),
    ],
)
def test_a_member_of_a_stack_that_was_not_kept(members, on_end, fields, status):
    members.stack['status'] = status
    case = ended(awake(member(members)), on_end, **fields)
    case.end()
    assert members.gone(case.resource_id)


def test_a_stack_that_was_taken_out_before(members):
    """What is left in the lease is the lease's to end."""
    case = ended(awake(member(members)), 'nothing')
    (parent, _) = case.lease.reservations
    now = parent.created_at
    removal = model.new_event(case.lease.id, 'end_reservation', now, now, parent.id)
    case.lease = dataclasses.replace(case.lease, events=(removal,))
    case.end()
    assert members.gone(case.resource_id)


def test_the_member_alone_is_taken_out(members):
    case = awake(member(members, status='active'))
    case.reservation = dataclasses.replace(case.reservation, status='deleting')
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
        members.fault('GET', '/heat/', status)
        with pytest.raises(exceptions.Transient):
            case.end_once()
    assert case.end_once() is None


def test_the_service_may_not_see_the_stack(members):
    """That it finds none says nothing then."""
    case = ended(awake(member(members)), 'suspend')
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    del members.state.stacks[STACK]
    members.fault('GET', '/heat/.*/services', 403)
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    assert case.resource_id in members.table


@pytest.mark.parametrize('count', [1, 40])
def test_a_kept_stack_is_looked_at_once(members, count):
    case = ended(awake(member(members)), 'nothing')
    others = [awake(member(members)) for _ in range(count - 1)]
    every = [case.reservation, *(each.reservation for each in others)]
    parent = case.lease.reservations[0]
    lease = dataclasses.replace(case.lease, reservations=(parent, *every))
    with members.counted() as sent:
        for each in every:
            assert case.plugin.end(lease, each) is None
    assert sum('/heat/' in line for line in sent) == 1
    assert {each.resource_id for each in every} <= set(members.table)


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
    assert case.resource_id in members.table


@pytest.mark.parametrize('params', [{'stack_id': STACK}, {}])
def test_a_server_in_error_has_data_if_we_started_it(world, params):
    """That a member is active says only that Heat wakes it: no data can be in it."""
    case = reserved(world)
    change(case, status='ERROR')
    params = {'on_end': 'create_image', **params}
    case.reservation = dataclasses.replace(case.reservation, status='active', params=params)
    if 'stack_id' in params:
        case.end()
        assert world.gone(case.resource_id)
    else:
        with pytest.raises(exceptions.Transient, match='ERROR'):
            case.end()


@pytest.mark.parametrize('everywhere', [True, False])
def test_servers_and_volumes_that_sleep_are_found(stacks, everywhere):
    user = stacks.cloud.service() if everywhere else stacks.cloud.user(stacks.user())
    mine = {nova.add(stacks.state)['id'], cinder.add(stacks.state)['id']}
    nova.add(stacks.state, status='ACTIVE')
    cinder.add(stacks.state, status='available')
    theirs = {nova.add(stacks.state, project_id='other-id')['id']}
    theirs |= {cinder.add(stacks.state, project_id='other-id')['id']}
    found = own_service_plugin.list_reserved_members(user, all_projects=everywhere)
    assert found == (mine | theirs if everywhere else mine)
