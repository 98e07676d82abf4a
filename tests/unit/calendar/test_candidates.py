# SPDX-License-Identifier: Apache-2.0
"""The order of the units that have room, by tables."""

import dataclasses
import random

import pytest

from climate_core.calendar import search as calendar_search
from climate_core.calendar.model import Order
from climate_core.calendar.unit_timeline import entry_of
from tests.unit.calendar.units import GAPS, SHARES, VCPU, demand, own_unit, search, timeline


@pytest.mark.parametrize(
    ('wanted', 'more', 'timelines', 'units'),
    [
        (demand(order=Order.FIT), {}, GAPS, [(1, 1), (2, 1), (3, 1)]),
        (demand(order=Order.SPREAD), {}, GAPS, [(3, 1), (2, 1), (1, 1)]),
        (demand(order=Order.PACK, piece=VCPU), {}, SHARES, [(1, 1), (2, 2), (3, 4)]),
        # Its own units come first, and then those that fewer others can have.
        (demand(), {'own': {3: own_unit(3, 1, 0)}}, GAPS, [(3, 1), (1, 1), (2, 1)]),
        (demand(), {'contention': {1: 2, 2: 1, 3: 2}}, GAPS, [(2, 1), (1, 1), (3, 1)]),
        (demand(matches=lambda unit: unit.id == 2), {}, GAPS, [(2, 1)]),
        (demand(), {}, [timeline(1, (15, 16)), timeline(2, available=False)], []),
    ],
)
def test_rooms_yields_units_best_first(wanted, more, timelines, units) -> None:
    wanted = dataclasses.replace(wanted, order=wanted.order or Order.FIT)
    found = calendar_search.find_candidates(search(wanted, **more), timelines, random.Random(0))
    assert [(each.unit_id, each.fits) for each in found] == units


def test_shifted_search_keeps_its_length() -> None:
    joint = calendar_search.JointSearch([search(demand())], {}, random.Random(0))
    (later,) = joint.delayed(7).searches
    assert (later.start, later.end, later.length) == (17, 27, 10)


def test_entry_of_search_that_has_begun_starts_now() -> None:
    entry = entry_of(search(demand(piece=VCPU), now=12).allocation(1, 3, 2))
    assert (entry.start, entry.end, entry.lane, entry.amounts) == (12, 20, 2, {'vcpus': 3})
