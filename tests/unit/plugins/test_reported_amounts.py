# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes whose own service says what they hold."""

import uuid

import pytest

from climate_core import exceptions
from climate_core.api import validation
from climate_core.api.schemas import reservation as schema

AMOUNTS = {
    'virtual:instance': {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0},
    'virtual:volume': {'volumes': 1, 'gigabytes': 7},
}


@pytest.fixture
def told(single):
    """A reservation of something that nobody finds, with what it holds."""
    kind = single.plugin().resource_type
    return {
        'resource_type': kind,
        'resource_id': str(uuid.uuid4()),
        'amounts': AMOUNTS[kind],
    }


def reserve(single, values, roles=('service',)):
    context = single.context('alice', list(roles))
    return single.plugin().reserve(context, values)


def check(single, values):
    """What the API does before anybody else sees it."""
    validation.check(values, schema.of_plugin(type(single.plugin())))


def test_nobody_is_asked(single, told):
    """All threads of who would be asked may wait for our answer."""
    check(single, told)
    with single.counted() as sent:
        claimed = reserve(single, told | {'on_end': 'delete'})
    assert sent == []
    assert claimed.resource_id == told['resource_id']
    assert claimed.params == {'on_end': 'delete'}
    assert claimed.amounts == told['amounts']


def test_it_is_asked_by_the_id_that_its_service_knows(single, told):
    upper = told | {'resource_id': told['resource_id'].upper()}
    assert reserve(single, upper).resource_id == told['resource_id']


def test_whole_numbers_are_kept_as_such(single, told):
    amounts = {unit: float(amount) for unit, amount in told['amounts'].items()}
    found = reserve(single, told | {'amounts': amounts}).amounts
    assert {type(each) for each in found.values()} == {int}


@pytest.mark.parametrize('roles', [(), ('member',)])
def test_a_user_may_not_say_it(single, roles):
    values = {**single.reservable(), 'amounts': {}}
    with single.counted() as sent, pytest.raises(exceptions.BadRequest, match='service') as caught:
        reserve(single, values, roles)
    assert caught.value.field == 'amounts'
    assert sent == []


def test_an_older_extension_says_nothing(single):
    """A service that says nothing is answered as before: its API is asked."""
    values = single.reservable()
    with single.counted() as sent:
        assert reserve(single, values).amounts
    assert any(values['resource_id'] in line for line in sent)


@pytest.mark.parametrize('wrong', [-1, 1.5, '1', None, True, 2**31])
def test_an_amount_that_is_none(single, told, wrong):
    for unit in told['amounts']:
        values = told | {'amounts': told['amounts'] | {unit: wrong}}
        with pytest.raises(exceptions.BadRequest) as caught:
            check(single, values)
        assert caught.value.field == f'amounts.{unit}'


def test_units_that_are_not_known_or_missing(single, told):
    with pytest.raises(exceptions.BadRequest) as caught:
        check(single, told | {'amounts': told['amounts'] | {'gpus': 1}})
    assert caught.value.field == 'amounts.gpus'
    for unit in told['amounts']:
        left = {name: each for name, each in told['amounts'].items() if name != unit}
        with pytest.raises(exceptions.BadRequest) as caught:
            check(single, told | {'amounts': left})
        assert caught.value.field == f'amounts.{unit}'
