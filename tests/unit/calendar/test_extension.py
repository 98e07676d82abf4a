# SPDX-License-Identifier: Apache-2.0
"""Until when leases could be extended; what their users read of it: test_changed_allocations."""

import datetime
import random

import pytest

from climate_core.calendar.explain import Rejection
from climate_core.concurrency import SearchBudget
from tests.unit.calendar.units import demand, own_unit, search, timeline

SECOND = 1_000_000
#: Unit 1 is promised to others from 30.5 seconds on, unit 2 from 40 seconds on.
TIMELINES = [
    timeline(1, (30 * SECOND + 500_000, 60 * SECOND)),
    timeline(2, (40 * SECOND, 60 * SECOND)),
]


def latest(*units, until=20, end=50, keep=True, after=0, looks=100):
    """Return until when reservations of one unit each could be extended, in seconds."""
    cleaning = datetime.timedelta(seconds=after)
    searches = [
        search(
            demand(field='end_date', after=cleaning),
            10 * SECOND,
            (end + after) * SECOND,
            own={unit: own_unit(unit, 1, 0)},
            keep=keep,
        )
        for unit in units
    ]
    found = Rejection(searches, {'host': TIMELINES}, random.Random(0)).find_latest_end(
        until * SECOND, SearchBudget(looks)
    )
    return None if found is None else found / SECOND


@pytest.mark.parametrize(
    ('values', 'seconds'),
    [
        ({'units': [2]}, 40),
        # In whole seconds, and never too late.
        ({'units': [1]}, 30),
        ({'units': [1, 2]}, 30),
        ({'units': [2], 'after': 3}, 37),
        # Before the start it may move.
        ({'units': [1], 'keep': False}, 40),
        ({'units': [1, 2], 'keep': False}, 30),
        ({'units': [1], 'until': 30}, None),
        ({'units': [2], 'looks': 0}, None),
    ],
)
def test_lease_could_be_extended_until_others_have_its_units(values, seconds) -> None:
    assert latest(*values.pop('units'), **values) == seconds


def test_search_that_finds_enough_when_it_is_repeated_is_explained_all_the_same() -> None:
    """Several searches are ordered by chance, and may fail where another order would do."""
    one = demand(reservation_id='r', field='end_date', noun='hosts')
    free = search(one, 10 * SECOND, 50 * SECOND, own={1: own_unit(1, 1, 0)})
    told, parts = Rejection([free], {'host': [timeline(1)]}, random.Random(0)).explain_extension(
        0, 20 * SECOND, SearchBudget(100)
    )
    assert told.startswith('This lease cannot be extended until 1970-01-01 00:00:50 UTC: hosts')
    assert parts == ['r']
