# SPDX-License-Identifier: Apache-2.0
"""Choosing units: orders by tables, everything else against a slow search."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from climate_core.calendar import search as calendar_search
from climate_core.calendar.model import Demand, Order
from climate_core.calendar.search import InsufficientCapacity, choose_units
from climate_core.calendar.unit_timeline import Timeline
from climate_core.lease.model import Allocation
from tests.unit.calendar import drawn, slow
from tests.unit.calendar.units import GAPS, SHARES, VCPU, demand, own_unit, search, timeline

rng = st.integers(0, 9).map(random.Random)


def chosen(
    wanted: Demand, timelines: Sequence[Timeline], number: int = 0, **more: Any
) -> Mapping[int, int]:
    found = choose_units(search(wanted, **more), timelines, random.Random(number))
    return {pick.unit_id: pick.pieces for pick in found}


@pytest.mark.parametrize(
    ('wanted', 'timelines', 'units'),
    [
        (demand(1, order=Order.FIT), GAPS, {1: 1}),
        (demand(1, 2, order=Order.PACK), GAPS, {1: 1, 2: 1}),
        (demand(1, order=Order.SPREAD), GAPS, {3: 1}),
        (demand(1, 9), GAPS, {1: 1, 2: 1, 3: 1}),
        (demand(2, matches=lambda unit: unit.id > 1), GAPS, {2: 1, 3: 1}),
        (demand(1, order=Order.FIT, piece=VCPU), SHARES, {1: 1}),
        (demand(4, order=Order.PACK, piece=VCPU), SHARES, {1: 1, 2: 2, 3: 1}),
        (
            demand(4, order=Order.PACK, piece=VCPU, max_per_unit=1),
            [*SHARES, timeline(4)],
            {1: 1, 2: 1, 3: 1, 4: 1},
        ),
        (demand(4, order=Order.SPREAD, piece=VCPU), SHARES, {1: 1, 2: 1, 3: 2}),
        (demand(7, order=Order.SPREAD, piece=VCPU), SHARES, {1: 1, 2: 2, 3: 4}),
        (demand(2, 9, piece=VCPU, single_unit=True), SHARES, {3: 4}),
        (demand(2, piece=VCPU, single_unit=True), SHARES, {2: 2}),
    ],
)
def test_order_decides_which_units_are_chosen(
    wanted: Demand, timelines: Sequence[Timeline], units: Mapping[int, int]
) -> None:
    for number in range(5):
        assert chosen(wanted, timelines, number) == units


@pytest.mark.parametrize('order', list(Order))
def test_units_that_have_to_be_woken_are_taken_last(order: Order) -> None:
    units = [timeline(1, (5, 10), (20, 30), asleep=True), timeline(2), timeline(3, asleep=True)]
    for number in range(5):
        assert chosen(demand(1, order=order), units, number) == {2: 1}
        assert chosen(demand(3, order=order), units, number) == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize('order', [Order.RANDOM, Order.FIT])
def test_equal_units_are_taken_by_chance(order: Order) -> None:
    equal = [timeline(number) for number in range(4)]
    taken = [tuple(chosen(demand(order=order), equal, number)) for number in range(50)]
    assert {*taken} == {(0,), (1,), (2,), (3,)}


def test_who_lost_races_draws_from_more_units() -> None:
    taken = [tuple(chosen(demand(), GAPS, number, scatter=2)) for number in range(50)]
    assert {*taken} == {(1,), (2,), (3,)}
    taken = [tuple(chosen(demand(), GAPS, number, scatter=1)) for number in range(50)]
    assert {*taken} == {(1,), (2,)}


def test_the_past_is_no_gap() -> None:
    # Unit 1 has been free for long, but what is past is of no use.
    timelines = [timeline(1, (25, 30)), timeline(2, (5, 9), (26, 30))]
    assert chosen(demand(), timelines, now=0) == {2: 1}
    assert chosen(demand(), timelines, now=10) == {1: 1}


def test_a_sample_is_not_all_that_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar_search, 'SAMPLE', 10)
    many = [timeline(number, *([] if number % 7 == 0 else [(0, 30)])) for number in range(100)]
    assert sum(chosen(demand(15), many).values()) == 15
    with pytest.raises(InsufficientCapacity) as missing:
        chosen(demand(16), many)
    assert missing.value.count == 15


OWN = {1: own_unit(1, 1, 2), 3: own_unit(3, 2, 5)}


@pytest.mark.parametrize(
    ('wanted', 'keep', 'units'),
    [
        (demand(3, piece=VCPU), True, {1: 1, 3: 2}),
        (demand(5, piece=VCPU), True, {1: 1, 3: 4}),
        (demand(2, piece=VCPU), True, {3: 2}),
        (demand(1, piece=VCPU), True, {3: 1}),
        # What it has stays though it would not do any more, but nothing is added to it.
        (demand(6, piece=VCPU, matches=lambda unit: unit.id == 2), True, None),
        (demand(3, 9, piece=VCPU, matches=lambda unit: unit.id == 2), True, {1: 1, 2: 2, 3: 2}),
        (demand(2, piece=VCPU, matches=lambda unit: unit.id == 2), False, {2: 2}),
        (demand(6, piece=VCPU), False, {1: 1, 2: 1, 3: 4}),
    ],
)
def test_reservation_keeps_its_own_units_and_lanes(
    wanted: Demand, keep: bool, units: Mapping[int, int] | None
) -> None:
    if units is None:
        with pytest.raises(InsufficientCapacity):
            chosen(wanted, SHARES, own=OWN, keep=keep)
        return
    found = choose_units(search(wanted, own=OWN, keep=keep), SHARES, random.Random(0))
    assert {pick.unit_id: pick.pieces for pick in found} == units
    # A lane that is open already stays the same.
    assert all(pick.lane == OWN[pick.unit_id].lane for pick in found if pick.unit_id in OWN)


@pytest.mark.parametrize('own', [own_unit(1, 2, 2), own_unit(1, 1, 0), own_unit(9, 1, 0)])
def test_own_units_that_must_stay_and_cannot(own: Allocation) -> None:
    with pytest.raises(InsufficientCapacity):
        chosen(demand(1, 9, piece=VCPU), SHARES, own={own.unit_id: own}, keep=True)


@given(drawn.timelines(), drawn.demands(), drawn.periods(), rng, st.integers(0, 2))
def test_search_agrees_with_the_slow_one(
    timelines: list[Timeline],
    wanted: Demand,
    period: tuple[int, int],
    rng: random.Random,
    scatter: int,
) -> None:
    possible = slow.most_of(wanted, *period, timelines)
    if possible < wanted.min_pieces:
        with pytest.raises(InsufficientCapacity) as missing:
            choose_units(search(wanted, *period, scatter=scatter), timelines, rng)
        assert missing.value.count == possible
        return
    picks = choose_units(search(wanted, *period, scatter=scatter), timelines, rng)
    assert sum(pick.pieces for pick in picks) == possible
    assert all(pick.pieces <= (wanted.max_per_unit or drawn.MOST) for pick in picks)
    assert len(picks) == 1 or not wanted.single_unit
    taken = {pick.unit_id for pick in picks}
    assert all(wanted.matches(each.unit) for each in timelines if each.unit.id in taken)
    for each in slow.with_picks(timelines, picks, *period, wanted.piece):
        assert not slow.wrong(each.unit, each.entries)


@given(drawn.timelines(), drawn.demands(), drawn.periods(), rng)
def test_search_among_what_was_found_finds_as_much(
    timelines: list[Timeline], wanted: Demand, period: tuple[int, int], rng: random.Random
) -> None:
    """So a transaction need not look at all units again."""
    assume(slow.most_of(wanted, *period, timelines) >= wanted.min_pieces)
    picks = choose_units(search(wanted, *period), timelines, rng)
    chosen = {pick.unit_id for pick in picks}
    among = [each for each in timelines if each.unit.id in chosen]
    again = choose_units(search(wanted, *period), among, rng)
    assert sum(pick.pieces for pick in again) == sum(pick.pieces for pick in picks)
