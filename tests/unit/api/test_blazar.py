# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.api.reservations import convert_reservation, convert_reservations

SENT = {
    'resource_type': 'virtual:instance',
    'vcpus': '',
    'memory_mb': '',
    'disk_gb': '',
    'amount': '',
    'affinity': 'None',
    'resource_properties': '["==", "$id", "x"]',
}


def test_the_filter_of_an_id_is_the_id() -> None:
    assert convert_reservation(SENT) == {
        'resource_type': 'virtual:instance',
        'resource_id': 'x',
    }


@pytest.mark.parametrize('kind', ['physical:host', 'flavor:instance', 'network'])
def test_filter_of_an_id_chooses_a_unit_of_the_calendar(kind: str) -> None:
    values = {'resource_type': kind, 'resource_properties': SENT['resource_properties']}
    assert convert_reservation(values) == values


def test_what_was_given_stays_to_be_refused() -> None:
    assert convert_reservation(SENT | {'vcpus': 2, 'on_end': 'stop'}) == {
        'resource_type': 'virtual:instance',
        'resource_id': 'x',
        'vcpus': 2,
        'on_end': 'stop',
    }


@pytest.mark.parametrize(
    'filtered',
    [
        '',
        'x',
        '["==", "$gpu", "x"]',
        '["!=", "$id", "x"]',
        '["==", "$id", 7]',
        '["and", ["==", "$id", "x"]]',
        '[' * 100_000,
        None,
        7,
    ],
)
def test_any_other_filter_stays(filtered: Any) -> None:
    values = SENT | {'resource_properties': filtered}
    assert convert_reservation(values) == values


@pytest.mark.parametrize(
    ('given', 'kept'),
    [
        ({'vcpus': 2, 'memory_mb': 1024, 'disk_gb': 0}, {}),
        # Heat, and what Blazar's command line has no value for.
        ({'vcpus': 2, 'resource_properties': None}, {}),
        ({'memory_mb': 1024, 'amount': 3}, {'amount': 3}),
    ],
)
def test_sizes_are_room_for_servers(given: dict[str, Any], kept: dict[str, Any]) -> None:
    said = {name: value for name, value in given.items() if value is not None}
    wanted = {'resource_type': 'size:instance', 'affinity': 'None', **said, **kept}
    assert convert_reservation(SENT | {'resource_properties': ''} | given) == wanted


@pytest.mark.parametrize('kind', ['instance', 'floatingip'])
def test_name_that_only_the_service_has_for_another_form_is_refused(kind: str) -> None:
    stored = {'instance': 'size:instance'}.get(kind, f'held:{kind}')
    with pytest.raises(exceptions.UnknownResourceType, match=f'is virtual:{kind}') as caught:
        convert_reservations([SENT, {'resource_type': stored, 'vcpus': 2}])
    assert (caught.value.field, caught.value.status) == ('reservations[1].resource_type', 400)


def test_sizes_of_another_type_stay() -> None:
    values = {'resource_type': 'flavor:instance', 'vcpus': 2}
    assert convert_reservation(values) == values


def test_floating_ip_with_an_id_is_one_that_is_there() -> None:
    values = {'resource_type': 'virtual:floatingip', 'resource_id': 'y'}
    assert convert_reservation(values) == {
        **values,
        'resource_type': 'held:floatingip',
    }
    promised = {'resource_type': 'virtual:floatingip', 'network_id': 'n'}
    assert convert_reservation(promised) == promised


def test_an_id_counts_more() -> None:
    values = SENT | {'resource_id': 'y'}
    assert convert_reservation(values) == values
