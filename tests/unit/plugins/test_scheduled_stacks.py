# SPDX-License-Identifier: Apache-2.0
"""Stacks of templates in leases of the kind scheduled, on a cloud with one small host."""

import pytest

from climate_core import exceptions
from climate_core.lease import views
from tests.support.fakes import flavors, hypervisors
from tests.support.kinds import kind_cell
from tests.support.stacks import EMPTY
from tests.unit.plugins.templated import Templated, wanted

SMALL = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'get_param': 'flavor'}}}
ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = {'start': '2082-12-01 14:00', 'end': '2082-12-01 15:00'}


def servers(*names):
    """Return what a reservation says that has such servers made."""
    parameters = {'flavor': {'type': 'string'}}
    resources = dict.fromkeys(names, SMALL)
    template = {**EMPTY, 'parameters': parameters, 'resources': resources}
    return wanted(template=template, parameters={'flavor': 'small'})


@pytest.fixture
def small(stacks):
    """Return an engine with a host that has room for two servers."""
    flavors.add(stacks.state, id='small')
    hypervisors.add(stacks.state, memory_mb=512 + 2 * 512)
    made = Templated(stacks)
    made.operations.services.cloud = stacks.cloud
    yield made
    made.database.dispose()


@kind_cell('New stacks', 'scheduled')
def test_filled_shortly_before_the_start_and_woken_at_it(small):
    lease_id = small.made(servers('a', 'b'), kind='scheduled')
    small.run_until_idle(minutes=54)
    assert small.lease(lease_id).status == 'PENDING'
    assert 'resources' not in small.only()['template']
    small.run_until_idle(minutes=1)
    small.look_around(3)
    assert small.members() == ['RESERVED'] * 2
    small.begin(lease_id)
    assert small.members() == ['ACTIVE'] * 2
    small.finish(lease_id)
    assert small.members() == []


def test_one_does_not_say_that_it_is_held_now(small):
    lease = small.lease(small.made(servers('a'), kind='scheduled'))
    assert views.visible_params(lease.reservations[0]) == {'name': 'web', 'on_end': 'delete'}


def test_one_that_starts_now_is_filled_at_once(small):
    lease_id = small.made(servers('a'), start='now', kind='scheduled')
    small.run_for(lease_id, 'ACTIVE')
    assert small.members() == ['ACTIVE']


def test_without_room_it_is_refused_and_nothing_is_made(small):
    with pytest.raises(exceptions.NotEnough, match='3 servers do not fit together') as caught:
        small.made(servers('a', 'b', 'c'), kind='scheduled')
    assert caught.value.field == 'reservations[0].template'
    assert not small.state.stacks
    assert not small.granted(servers('a', 'b', 'c'), kind='scheduled')
    assert small.granted(servers('a', 'b'), kind='scheduled')


def test_what_a_stack_will_take_nobody_else_is_promised(small):
    small.made(servers('a', 'b'), kind='scheduled')
    other = {**servers('a'), 'name': 'other'}
    with pytest.raises(exceptions.NotEnough) as caught:
        small.made(other, kind='scheduled')
    assert caught.value.available_from == '2082-12-01T14:00:00.000000'
    small.made(other, kind='scheduled', **LATER)


def test_a_stack_takes_its_room_after_another_one_left_its_lease(small):
    gone = {**servers('a'), 'name': 'gone'}
    stays = {**servers('a'), 'name': 'stays'}
    lease_id = small.made(gone, stays, kind='scheduled')
    first, _ = small.lease(lease_id).reservations
    small.operations.remove_reservation(small.stacks.user(), lease_id, first.id)
    small.run_until_idle()
    assert small.lease(lease_id).status == 'PENDING'
    other = {**servers('a', 'b'), 'name': 'other'}
    assert not small.granted(other, kind='scheduled')
    assert small.granted({**servers('a'), 'name': 'other'}, kind='scheduled')


def test_a_stack_that_is_filled_takes_it_no_more(small):
    """What is in it is what Placement has."""
    small.made(servers('a', 'b'), kind='scheduled')
    small.time.forward(minutes=55)
    small.look_around(3)
    assert small.members() == ['RESERVED'] * 2
    assert small.granted({**servers('a', 'b'), 'name': 'other'}, kind='scheduled')


def test_dates_are_changed_only_if_there_will_be_room(small):
    small.made({**servers('a', 'b'), 'name': 'other'}, kind='scheduled', **LATER)
    lease_id = small.made(servers('a'), kind='scheduled')
    with pytest.raises(exceptions.NotEnough):
        small.move_as_alice(lease_id, end_date='2082-12-01 14:30')
    small.move_as_alice(lease_id, start_date='2082-12-01 13:30')
    small.time.forward(minutes=80)
    small.run_until_idle()
    assert small.members() == []
    small.time.forward(minutes=5)
    small.look_around(3)
    assert small.members() == ['RESERVED']


def test_room_that_another_user_took_is_told_and_nothing_left(small):
    lease_id = small.made(servers('a', 'none'), kind='scheduled')
    small.time.forward(minutes=55)
    small.look_around(10)
    lease = small.lease(lease_id)
    assert (lease.status, [each.status for each in lease.reservations]) == ('ERROR', ['error'])
    assert 'No valid host was found' in lease.status_reason
    assert small.members() == []
    assert not small.state.stacks


def test_request_that_is_repeated_must_find_room_too(small):
    """The placeholder is there, its lease is not."""
    user, plugin, asked = small.stacks.user(), small.plugins['virtual:stack'], servers(*'abc')
    plugin.make(user, ID, asked, plugin.reserve(user, asked))
    with pytest.raises(exceptions.NotEnough, match='3 servers do not fit together'):
        small.made(asked, id=ID, kind='scheduled')


@pytest.mark.parametrize(
    ('server', 'told'),
    [
        ({'type': 'OS::Nova::Server'}, 'The flavor of a is known only when the stack is created'),
        ({'type': 'OS::Nova::Server', 'properties': {'flavor': 'x'}}, 'There is no flavor x'),
        ({'type': 'OS::Nova::Server', 'properties': {'flavor': 'numa'}}, 'NUMA'),
    ],
)
def test_what_is_not_known_is_refused_and_named(small, server, told):
    flavors.add(small.state, id='numa', extra_specs={'hw:numa_nodes': '2'})
    template = {**EMPTY, 'resources': {'a': server}}
    with pytest.raises(exceptions.BadRequest, match=told) as caught:
        small.made(wanted(template=template, parameters={}), kind='scheduled')
    assert caught.value.field == 'reservations[0].template'
    assert not small.state.stacks
    # The calendar of nobody else depends on that.
    small.made(wanted(template=template, parameters={}))


def test_a_stack_without_servers_needs_no_room(small):
    lease_id = small.made(wanted(template=EMPTY, parameters={}), kind='scheduled')
    assert small.lease(lease_id).kind == 'scheduled'


@pytest.mark.parametrize(
    ('values', 'kind', 'field', 'told'),
    [
        ({'hold': 'start'}, 'scheduled', 'reservations[0].hold', 'must be left out'),
        ({}, 'retry', 'kind', 'immediate or scheduled, not retry'),
        ({}, 'best_effort', 'kind', 'must request hosts'),
    ],
)
def test_kinds_that_a_stack_cannot_have(small, values, kind, field, told):
    with pytest.raises(exceptions.BadRequest, match=told) as caught:
        small.made({**servers('a'), **values}, kind=kind)
    assert caught.value.field == field
    assert not small.state.stacks


def test_stacks_and_servers_of_one_request_must_fit_together(small):
    image = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
    small.state.images[image] = {'id': image, 'status': 'active', 'project_id': 'demo-id'}
    server = {
        'resource_type': 'virtual:instance',
        'server': {'name': 'w', 'count': 2, 'flavorRef': 'small', 'imageRef': image},
    }
    small.made(server, kind='scheduled', **LATER)
    with pytest.raises(exceptions.NotEnough):
        small.made(server, {**servers('a'), 'name': 'more'}, kind='scheduled')
