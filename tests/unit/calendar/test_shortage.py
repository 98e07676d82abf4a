# SPDX-License-Identifier: Apache-2.0
"""What is lacking at any time, by tables."""

import dataclasses
import random

import pytest

from climate_core.calendar.explain import Rejection
from climate_core.calendar.model import Shortage
from tests.unit.calendar.units import GAPS, SHARES, VCPU, demand, search, timeline


@pytest.mark.parametrize(
    ('wanted', 'timelines', 'told'),
    [
        (demand(3), GAPS, None),
        (demand(4), GAPS, 'there is capacity for 3 hosts in all, not for 4.'),
        (
            demand(pool='b', matches=lambda unit: unit.pool == 'b'),
            GAPS,
            'no host is in a pool that may be used.',
        ),
        (
            demand(
                matches=lambda _unit: False,
                find_shortage=lambda _units: Shortage('no GPU', 'traits'),
            ),
            GAPS,
            'no GPU.',
        ),
        (demand(piece={'vcpus': 5}), SHARES, 'no host has 5 vcpus; the largest has 4.'),
        (demand(13, piece=VCPU), SHARES, 'there is capacity for 12 hosts in all, not for 13.'),
        (
            demand(5, piece=VCPU, single_unit=True),
            SHARES,
            'no host has 5 vcpus; the largest has 4.',
        ),
        (
            demand(2),
            [timeline(1), timeline(2, available=False)],
            'there is capacity for 1 host in all, not for 2. '
            'More units match, but are disabled or serve ordinary servers now.',
        ),
    ],
)
def test_lacking_says_what_no_time_would_have(wanted, timelines, told) -> None:
    one = dataclasses.replace(wanted, field='min', noun='hosts')
    request = Rejection([search(one)], {'host': timelines}, random.Random(0))
    found = request.find_permanent_shortage()
    field = 'traits' if told == 'no GPU.' else None
    assert found == (None if told is None else (one, Shortage(told, field)))
