# SPDX-License-Identifier: Apache-2.0
"""Values of requests about what operators register."""

from typing import Any

import pytest

from climate_core import exceptions
from climate_core.api import registered_units


def test_values_may_be_under_a_name_of_their_own() -> None:
    given = {'name': 'a', 'values': {'name': 'b', 'gpu': 'yes'}}
    assert registered_units.flatten_values(given) == {'name': 'b', 'gpu': 'yes'}


@pytest.mark.parametrize('wrong', [True, None, 'a', ['a'], 1])
def test_values_that_are_no_object_are_refused(wrong: Any) -> None:
    with pytest.raises(exceptions.BadRequest) as refused:
        registered_units.flatten_values({'values': wrong})
    assert refused.value.field == 'values'
