# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core import exceptions
from tests.conformance.world import reserved
from tests.support.fakes import cinder, heat, nova
from tests.support.missing import find_missing
from tests.unit.plugins.cases import change


def reserve(stacks, context=None, **values):
    return stacks.plugin().reserve(context or stacks.user(), values)


def as_heat(stacks):
    return stacks.context('alice', ['service'])


def test_reserved_stack_is_counted(stacks):
    claimed = reserve(stacks, resource_id=stacks.add()['id'])
    assert claimed.amounts == {'stacks': 1}


@pytest.mark.parametrize('make', [cinder.add, nova.add])
def test_one_member_that_is_asleep_is_enough(stacks, make):
    running = nova.add(stacks.state, status='ACTIVE', hints={})
    stack = heat.add(stacks.state, members=[running['id'], make(stacks.state)['id']])
    assert reserve(stacks, resource_id=stack['id']).resource_id == stack['id']


def test_a_member_of_a_nested_stack_is_enough(stacks):
    stack = heat.add(stacks.state)
    heat.add(stacks.state, parent=stack['id'], members=[nova.add(stacks.state)['id']])
    assert reserve(stacks, resource_id=stack['id']).resource_id == stack['id']


@pytest.mark.parametrize('roles', [None, [], ['member']])
def test_nothing_of_a_stack_is_asleep(stacks, roles):
    nova.add(stacks.state)  # asleep, but not in the stack
    stack = heat.add(stacks.state, members=[nova.add(stacks.state, status='ACTIVE')['id']])
    context = stacks.context('alice', roles)
    with pytest.raises(exceptions.BadRequest, match='climate_lease_id') as caught:
        reserve(stacks, context, resource_id=stack['id'])
    assert caught.value.field == 'resource_id'


def test_heat_asks_before_there_are_members(stacks):
    stack = heat.add(stacks.state, status='CREATE_IN_PROGRESS')
    with stacks.counted() as sent:
        assert reserve(stacks, as_heat(stacks), resource_id=stack['id']).resource_id
    assert sum('/heat/' in line for line in sent) == 1


@pytest.mark.parametrize(
    ('owner', 'name', 'refused'),
    [
        ('bob', 'alice', True),
        ('alice', 'alice', False),
        (None, 'alice', False),
        ('b', None, False),
    ],
)
def test_a_stack_of_another_user_of_the_project(stacks, owner, name, refused):
    stack = stacks.add(owner=owner)
    context = stacks.context('alice')
    context.user_name = name
    if refused:
        with pytest.raises(exceptions.BadRequest, match='reserved by bob') as caught:
            reserve(stacks, context, resource_id=stack['id'])
        assert caught.value.field == 'resource_id'
    else:
        assert reserve(stacks, context, resource_id=stack['id']).resource_id == stack['id']


def test_heat_asks_for_another_user(stacks):
    """Who updates the stack of another user has it from then on."""
    stack = heat.add(stacks.state, owner='bob')
    context = as_heat(stacks)
    context.user_name = 'alice'
    assert reserve(stacks, context, resource_id=stack['id']).resource_id == stack['id']


def test_a_cloud_without_cinder(stacks):
    stacks.state.no_cinder = True
    stack = heat.add(stacks.state, members=[nova.add(stacks.state)['id']])
    assert reserve(stacks, resource_id=stack['id']).resource_id == stack['id']


def test_a_cloud_without_heat(stacks):
    stacks.state.no_heat = True
    with pytest.raises(exceptions.ServiceUnavailable, match='Heat'):
        reserve(stacks, resource_id='0ea3e7b5-0000-4000-8000-000000000000')
    assert find_missing(stacks.plugin(), []) == {}
    assert not list(stacks.plugin().list_unleased())


def test_a_nested_stack_names_its_root(stacks):
    root = stacks.add(stack_name='web')
    middle = stacks.add(parent=root['id'])
    leaf = stacks.add(parent=middle['id'])
    with pytest.raises(exceptions.BadRequest, match=f'web \\({root["id"]}\\)'):
        reserve(stacks, as_heat(stacks), resource_id=leaf['id'])


@pytest.mark.parametrize(
    'status', ['DELETE_IN_PROGRESS', 'DELETE_FAILED', 'CREATE_FAILED', 'UPDATE_FAILED']
)
def test_reserve_of_a_broken_stack_is_refused(stacks, status):
    stack = stacks.add(status=status, reason='No valid host was found.')
    with pytest.raises(exceptions.BadRequest, match=f'{status}.*No valid host'):
        reserve(stacks, as_heat(stacks), resource_id=stack['id'])


def test_a_step_costs_the_same_for_any_number_of_members(stacks):
    """Reserving, each look of the wake-up and each look of the end."""
    costs = []
    for size in (1, 40):
        members = [nova.add(stacks.state)['id'] for _ in range(size)]
        stack = heat.add(stacks.state, members=members)
        plugin, user = stacks.plugin(), stacks.user()
        with stacks.counted() as asked:
            plugin.reserve(user, {'resource_id': stack['id']})
        case = reserved(stacks, on_end='snapshot')
        case.reservation = dataclasses.replace(case.reservation, resource_id=stack['id'])
        with stacks.counted() as woken:
            case.woken()
        with stacks.counted() as ended:
            case.end()
        steps = [
            [line for line in each if '/identity' not in line] for each in (asked, woken, ended)
        ]
        costs.append([[line.split()[0] for line in each] for each in steps])
    assert costs[0] == costs[1]
    (asked, woken, _) = costs[0]
    assert (asked, woken) == (['GET'] * 4, ['GET', 'GET', 'PATCH', 'GET'])


def test_missing_finds_what_is_deleted_though_heat_shows_it(stacks):
    case = reserved(stacks)
    change(case, status='DELETE_COMPLETE')
    assert list(find_missing(stacks.plugin(), [case.reservation])) == [case.reservation.id]
