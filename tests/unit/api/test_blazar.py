# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from climate_core.api import blazar

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
    assert blazar.reservation(SENT) == {'resource_type': 'virtual:instance', 'resource_id': 'x'}


def test_what_was_given_stays_to_be_refused() -> None:
    assert blazar.reservation(SENT | {'vcpus': 2, 'on_end': 'stop'}) == {
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
    assert blazar.reservation(values) == values


def test_an_id_counts_more() -> None:
    values = SENT | {'resource_id': 'y'}
    assert blazar.reservation(values) == values
