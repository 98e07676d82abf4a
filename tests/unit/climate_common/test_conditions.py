# SPDX-License-Identifier: Apache-2.0
"""The grammar of conditions on hosts, which the API and the commands share."""

import pytest

from climate_common import limits


@pytest.mark.parametrize(
    ('text', 'condition'),
    [
        ('vcpus>=16', ('vcpus', '>=', '16')),
        ('vcpus>16', ('vcpus', '>', '16')),
        ('vcpus<=16', ('vcpus', '<=', '16')),
        (' gpu == True ', ('gpu', '==', 'True')),
        ('gpu!=a b', ('gpu', '!=', 'a b')),
        ('trait=!HW_A', ('trait', '=', '!HW_A')),
        ('vcpus', None),
        ('>=16', None),
        ('vcpus>=', None),
        ('vcpus>=>16', None),
        ('vcpus==!=16', None),
    ],
)
def test_parse_of_text_returns_condition(text, condition):
    assert limits.parse_condition(text) == condition
