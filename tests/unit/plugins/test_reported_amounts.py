# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes whose own service says what they hold."""

import uuid

import pytest

from climate_core import exceptions
from climate_core.api import validation
from climate_core.api.schemas import reservation as schema
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_volumes import FakeVolumes

AMOUNTS = {
    'virtual:instance': {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0},
    'virtual:volume': {'volumes': 1, 'gigabytes': 7},
}


@pytest.fixture(params=[FakeServers, FakeVolumes])
def world(request, fake):
    return request.param(fake)


@pytest.fixture
def told(world):
    """A reservation of something that nobody finds, with what it holds."""
    kind = world.plugin().resource_type
    return {
        'resource_type': kind,
        'resource_id': str(uuid.uuid4()),
        'amounts': AMOUNTS[kind],
    }


def reserve(world, values, roles=('service',)):
    context = world.context('alice')
    context.service_roles = list(roles)
    return world.plugin().reserve(context, values)


def check(world, values):
    """What the API does before anybody else sees it."""
    validation.check(values, schema.of_plugin(type(world.plugin())))


def test_nobody_is_asked(world, told):
    """All threads of who would be asked may wait for our answer."""
    check(world, told)
    with world.counted() as sent:
        claimed = reserve(world, told | {'on_end': 'delete'})
    assert sent == []
    assert claimed.resource_id == told['resource_id']
    assert claimed.params == {'on_end': 'delete'}
    assert claimed.amounts == told['amounts']


def test_it_is_asked_by_the_id_that_its_service_knows(world, told):
    upper = told | {'resource_id': told['resource_id'].upper()}
    assert reserve(world, upper).resource_id == told['resource_id']


def test_whole_numbers_are_kept_as_such(world, told):
    amounts = {unit: float(amount) for unit, amount in told['amounts'].items()}
    found = reserve(world, told | {'amounts': amounts}).amounts
    assert {type(each) for each in found.values()} == {int}


@pytest.mark.parametrize('roles', [(), ('member',)])
def test_a_user_may_not_say_it(world, roles):
    values = {**world.reservable(), 'amounts': {}}
    with world.counted() as sent, pytest.raises(exceptions.BadRequest, match='service') as caught:
        reserve(world, values, roles)
    assert caught.value.field == 'amounts'
    assert sent == []


def test_an_older_extension_says_nothing(world):
    """A service that says nothing is answered as before: its API is asked."""
    values = world.reservable()
    with world.counted() as sent:
        assert reserve(world, values).amounts
    assert any(values['resource_id'] in line for line in sent)


@pytest.mark.parametrize('wrong', [-1, 1.5, '1', None, True, 2**31])
def test_an_amount_that_is_none(world, told, wrong):
    for unit in told['amounts']:
        values = told | {'amounts': told['amounts'] | {unit: wrong}}
        with pytest.raises(exceptions.BadRequest) as caught:
            check(world, values)
        assert caught.value.field == f'amounts.{unit}'


def test_units_that_are_not_known_or_missing(world, told):
    with pytest.raises(exceptions.BadRequest) as caught:
        check(world, told | {'amounts': told['amounts'] | {'gpus': 1}})
    assert caught.value.field == 'amounts.gpus'
    for unit in told['amounts']:
        left = {name: each for name, each in told['amounts'].items() if name != unit}
        with pytest.raises(exceptions.BadRequest) as caught:
            check(world, told | {'amounts': left})
        assert caught.value.field == f'amounts.{unit}'


def test_it_is_not_changed_later(world):
    assert 'amounts' not in world.plugin().changeable
