# SPDX-License-Identifier: Apache-2.0
"""The names that extra properties may have."""

import pytest

from climate_core import exceptions
from climate_core.plugins import filters


def test_names_of_properties_are_taken() -> None:
    filters.check_extra_names(['a' * 64, 'gpu:model-2.x'], {'vcpus'}, 'is known')


@pytest.mark.parametrize(
    ('name', 'told'),
    [
        ('vcpus', 'vcpus: is known; an extra property must have another name.'),
        ('1st', 'must begin with a letter'),
        ('a b', 'must begin with a letter'),
        ('a' * 65, '64 characters at most'),
    ],
)
def test_name_of_something_else_is_refused_with_its_field(name: str, told: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        filters.check_extra_names(['rack', name], {'vcpus'}, 'is known')
    assert caught.value.field == name
    assert told in str(caught.value)
