# SPDX-License-Identifier: Apache-2.0
"""What is shown of the flavors of reservations, and what is taken back from clients."""

import json
from typing import Any

import pytest

from climate_common.resource_types import CAPACITY
from climate_core.lease import model, views
from climate_hosts import flavors, hosts
from tests.support.leases import NOON

SOURCE = {
    'id': 'm1',
    'name': 'm1.small',
    'vcpus': 2,
    'ram': 2048,
    'disk': 20,
    'swap': 64,
    'OS-FLV-EXT-DATA:ephemeral': 5,
    'extra_specs': {'quota:cpu_shares': '5'},
    'links': [],
    'description': 'for a project that nobody else may know',
}
ONE, TWO = '["==", "$rack", "7"]', '[">=", "$vcpus", "16"]'


def shown(hidden: bool = False, **params: Any) -> dict[str, Any]:
    """Return what is shown of a reservation of capacity."""
    params = {'flavor_id': 'm1', **flavors.source_params(SOURCE, hidden), **params}
    one = model.new_reservation('lease', CAPACITY, 'thing', params, NOON, unit_kind=hosts.KIND)
    found = views.common_reservation(one)
    assert found.pop('flavor_id') == one.id
    return found


def test_source_is_shown_as_blazar_shows_it() -> None:
    found = shown()
    assert (found['vcpus'], found['memory_mb'], found['disk_gb']) == (2, 2048, 20)
    source = {key: SOURCE[key] for key in SOURCE if key not in ('links', 'description')}
    assert json.loads(found['resource_properties']) == source


def test_extra_specs_that_the_user_must_not_see_are_not_shown() -> None:
    source = json.loads(shown(hidden=True)['resource_properties'])
    assert (source['id'], source['extra_specs']) == ('m1', {})
    assert 'cpu_shares' not in str(shown(hidden=True))


@pytest.mark.parametrize(
    ('given', 'joined'),
    [
        (('', ''), ''),
        ((ONE, ''), ONE),
        (('', TWO), TWO),
        ((None, TWO), TWO),
        ((ONE, TWO), f'["and", {ONE}, {TWO}]'),
    ],
)
def test_conditions_are_shown_in_the_other_field(given: tuple[Any, Any], joined: str) -> None:
    found = shown(hypervisor_properties=given[0], resource_properties=given[1])
    assert found['hypervisor_properties'] == joined


def test_source_that_a_client_sends_back_is_dropped() -> None:
    values = {'amount': 2, 'resource_properties': shown()['resource_properties']}
    assert flavors.drop_shown(values) == {'amount': 2}


@pytest.mark.parametrize('given', [ONE, '', '[]', 'x', None, '[' * 100_000])
def test_conditions_of_a_request_stay(given: str | None) -> None:
    values = {'amount': 2, 'resource_properties': given}
    assert flavors.drop_shown(values) == values
    assert flavors.drop_shown({'amount': 2}) == {'amount': 2}
