# SPDX-License-Identifier: Apache-2.0
"""What can have which kind: the table of the documents, cell by cell."""

import pytest

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.lease import model
from climate_core.operations import draft
from climate_core.operations.draft import Item
from tests.support.kinds import cells, kind_cell, marked
from tests.support.world import NOON

CELLS = list(cells())
_HELD = (resource_types.SERVER, resource_types.VOLUME, resource_types.STACK)
_HOSTS = (resource_types.HOST, resource_types.CAPACITY, resource_types.SIZES)
WANTED = {(resource, kind) for resource, kind, said in CELLS if said.startswith('yes')}
#: Without a test on the local cloud: its array does not fill up.
NOT_ON_THE_CLOUD = {('New volumes', 'retry')}
#: The first cell of a row -> what leases of it ask for: by type, and whether it is held already.
ASKED = {
    'Existing servers, volumes and stacks': [[each] for each in _HELD],
    'New servers': [[f'made {resource_types.SERVER}']],
    'New volumes': [[f'made {resource_types.VOLUME}']],
    'New stacks': [[f'template {resource_types.STACK}']],
    'Existing floating IPs': [[resource_types.HELD_FLOATING_IP]],
    'Floating IPs': [[resource_types.FLOATING_IP]],
    'Networks': [[resource_types.NETWORK]],
    'Hosts': [[resource_types.HOST]],
    'Capacity': [[resource_types.CAPACITY], [resource_types.SIZES]],
    'Existing servers, volumes or stacks, with hosts or capacity': [
        [host, held] for host in _HOSTS for held in _HELD
    ],
}
_OF_CALENDAR = {
    resource_types.HOST,
    resource_types.CAPACITY,
    resource_types.SIZES,
    resource_types.FLOATING_IP,
    resource_types.NETWORK,
}


def items(types: list[str]) -> list[Item]:
    found = []
    for place, kind in enumerate(types):
        unit_kind = 'host' if kind in _OF_CALENDAR else None
        made, _, shown = kind.rpartition(' ')
        params = {'made': {model.GROUP: 'group'}, 'template': {model.PARTS: {}}}.get(made, {})
        new = model.new_reservation('lease', shown, f'r{place}', params, NOON, {}, None, unit_kind)
        found.append(Item(new, {}, f'reservations[{place}]'))
    return found


def test_table_has_all_kinds_and_resources() -> None:
    assert {kind for _, kind, _ in CELLS} == set(limits.KINDS)
    assert {resource for resource, _, _ in CELLS} == set(ASKED)
    alone = {types[0] for leases in ASKED.values() for types in leases if len(types) == 1}
    assert {*_OF_CALENDAR, *_HELD} <= alone


@pytest.mark.parametrize(
    ('types', 'kind', 'said'),
    [(types, kind, said) for resource, kind, said in CELLS for types in ASKED[resource]],
)
def test_cell_of_the_table_of_kinds_is_true(types: list[str], kind: str, said: str) -> None:
    asked = items(types)
    if said.startswith('no'):
        with pytest.raises(exceptions.BadRequest) as caught:
            draft.choose_kind(kind, asked)
        assert caught.value.field == 'kind'
    else:
        assert said.startswith('yes')
        assert draft.choose_kind(kind, asked) == kind
    if 'default' in said:
        assert draft.choose_kind(None, asked) == kind
    if 'one reservation' in said:
        with pytest.raises(exceptions.BadRequest):
            draft.choose_kind(kind, asked * 2)


@pytest.mark.parametrize('asked', [[], items(ASKED['Capacity'][0])], ids=['nothing', 'capacity'])
def test_best_effort_says_that_it_is_for_hosts(asked: list[Item]) -> None:
    with pytest.raises(exceptions.BadRequest, match='must request hosts, in one reservation'):
        draft.choose_kind('best_effort', asked)


def test_retry_of_nothing_names_all_that_can_wait() -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        draft.choose_kind('retry', [])
    assert 'hosts, capacity, floating IPs or networks' in caught.value.message
    assert 'or servers or volumes that are created for it' in caught.value.message


def test_each_kind_that_a_resource_can_have_has_a_test() -> None:
    """What it does then is another test, which names its cell."""
    assert marked() == WANTED
    assert kind_cell('Hosts', 'retry')(items) is items


def test_all_other_cells_have_a_test_on_the_local_cloud() -> None:
    assert marked('cloud') == WANTED - NOT_ON_THE_CLOUD
