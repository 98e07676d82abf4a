# SPDX-License-Identifier: Apache-2.0
"""The generation of a lease in the header ``If-Match``."""

import re

import pytest
import webob

from climate_core import exceptions
from climate_core.api.request import _IF_MATCH, expected_generation


def expected(value: str) -> int | None:
    return expected_generation(webob.Request.blank('/', headers={'If-Match': value}))


@pytest.mark.parametrize(
    ('value', 'generation'), [('"3"', 3), ('3', 3), ('W/"3"', 3), ('*', None), (' "3" ', 3)]
)
def test_if_match_names_a_generation(value: str, generation: int | None) -> None:
    assert expected(value) == generation
    assert re.search(_IF_MATCH['pattern'], value.strip())


@pytest.mark.parametrize('value', ['"3', '3"', 'W/3', 'w/"3"', 'W/"one"', '"1", "2"', '', '-1'])
def test_if_match_that_is_no_etag_of_a_lease_is_rejected(value: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        expected(value)
    assert caught.value.field == 'If-Match'
    assert not re.search(_IF_MATCH['pattern'], value)
