# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes whose own service says what they hold."""

import pytest

from climate_core import exceptions
from climate_core.api import reservations as schema
from climate_core.api import validation
from climate_core.lease.model import REPORTED

AMOUNTS = {
    'virtual:instance': {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0},
    'virtual:volume': {'volumes': 1, 'gigabytes': 7},
}


@pytest.fixture
def told(single):
    """Return a reservation of something that nobody finds, with what it holds."""
    kind = single.plugin().resource_type
    return {
        'resource_type': kind,
        'resource_id': 'abcdef01-2345-4678-9abc-def012345678',
        'amounts': AMOUNTS[kind],
    }


def reserve(single, values, roles=('service',)):
    context = single.context('alice', list(roles))
    return single.plugin().reserve(context, values)


def check(single, values):
    """Do what the API does before anybody else sees it."""
    validation.check(values, schema.of_plugin(type(single.plugin())))


def test_reserve_with_reported_amounts_sends_no_request(single, told):
    """All threads of who would be asked may wait for our answer."""
    check(single, told)
    amounts = {unit: float(amount) for unit, amount in told['amounts'].items()}
    upper = told['resource_id'].upper()
    with single.counted() as sent:
        values = {**told, 'resource_id': upper, 'amounts': amounts, 'on_end': 'delete'}
        claimed = reserve(single, values)
    assert sent == []
    # As its service knows it, and whole numbers as such.
    assert claimed.resource_id == told['resource_id']
    assert claimed.params == {'on_end': 'delete', REPORTED: True}
    assert claimed.amounts == told['amounts']
    assert {type(each) for each in claimed.amounts.values()} == {int}


@pytest.mark.parametrize('roles', [(), ('member',)])
def test_a_user_may_not_say_it(single, roles):
    values = {**single.reservable(), 'amounts': {}}
    with single.counted() as sent, pytest.raises(exceptions.BadRequest, match='service') as caught:
        reserve(single, values, roles)
    assert caught.value.field == 'amounts'
    assert sent == []


def test_service_that_reports_no_amounts(single):
    """A service that says nothing is answered as before: its API is asked."""
    values = single.reservable()
    with single.counted() as sent:
        assert reserve(single, values).amounts
    assert any(values['resource_id'] in line for line in sent)


@pytest.mark.parametrize('wrong', [-1, 1.5, '1', None, True, 2**31, 'left out'])
def test_an_amount_that_is_none(single, told, wrong):
    for unit in told['amounts']:
        amounts = {**told['amounts'], unit: wrong}
        if wrong == 'left out':
            del amounts[unit]
        with pytest.raises(exceptions.BadRequest) as caught:
            check(single, told | {'amounts': amounts})
        assert caught.value.field == f'amounts.{unit}'


def test_a_unit_that_is_not_known(single, told):
    with pytest.raises(exceptions.BadRequest) as caught:
        check(single, told | {'amounts': told['amounts'] | {'gpus': 1}})
    assert caught.value.field == 'amounts.gpus'
