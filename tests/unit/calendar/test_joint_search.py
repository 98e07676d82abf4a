# SPDX-License-Identifier: Apache-2.0
"""Choosing the units of several demands of one request."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.calendar import search as calendar_search
from climate_core.calendar.model import Demand, Order, Unit
from climate_core.calendar.search import (
    InsufficientCapacity,
    JointSearch,
)
from climate_core.calendar.unit_timeline import Timeline
from tests.unit.calendar import drawn, slow
from tests.unit.calendar.units import VCPU, demand, own_unit, search, timeline

rng = st.integers(0, 9).map(random.Random)


@given(drawn.timelines(), st.lists(drawn.demands(), min_size=2, max_size=3), drawn.periods(), rng)
def test_demands_of_a_request_do_not_take_the_same(
    timelines: list[Timeline], wanted: list[Demand], period: tuple[int, int], rng: random.Random
) -> None:
    searches = [search(each, *period) for each in wanted]
    try:
        found = JointSearch(searches, {'host': timelines}, rng).choose()
    except InsufficientCapacity:
        return
    for each, picks in zip(wanted, found, strict=True):
        assert each.min_pieces <= sum(pick.pieces for pick in picks) <= each.max_pieces
        timelines = slow.with_picks(timelines, picks, *period, each.piece)
    assert not [wrong for each in timelines if (wrong := slow.wrong(each.unit, each.entries))]


def test_demand_that_has_few_units_to_choose_from_comes_first() -> None:
    small, large = timeline(1, capacity={'vcpus': 1}), timeline(2, capacity={'vcpus': 4})
    any_unit = demand(order=Order.SPREAD, piece=VCPU)
    searches = [search(any_unit), search(demand(piece={'vcpus': 4}))]
    found = JointSearch(searches, {'host': [small, large]}, random.Random(0)).choose()
    assert [[pick.unit_id for pick in picks] for picks in found] == [[1], [2]]
    with pytest.raises(InsufficientCapacity) as missing:
        JointSearch([*searches, searches[0]], {'host': [small, large]}, random.Random(0)).choose()
    assert missing.value.index == 1


def test_demand_takes_last_what_another_one_can_have() -> None:
    # Units 2 and 3 fit best for both.
    around = [(0, 10), (20, 30)]
    timelines = [timeline(1), timeline(2, *around), timeline(3, *around), timeline(4)]
    searches = [
        search(demand(2, matches=lambda unit: unit.id < 4)),
        search(demand(2, matches=lambda unit: unit.id > 1)),
    ]
    first, second = JointSearch(searches, {'host': timelines}, random.Random(0)).choose()
    assert (first[0].unit_id, second[-1].unit_id) == (1, 4)


@pytest.mark.parametrize(('units', 'tries'), [(40, 1), (30, calendar_search.MAX_ORDERS)])
def test_many_demands_look_at_each_unit_a_few_times(units: int, tries: int) -> None:
    looks = 0

    def matches(_unit: Unit) -> bool:
        nonlocal looks
        looks += 1
        return True

    timelines = [timeline(number) for number in range(units)]
    searches = [search(demand(matches=matches)) for _ in range(40)]
    try:
        JointSearch(searches, {'host': timelines}, random.Random(0)).choose()
        assert tries == 1
    except InsufficientCapacity:
        assert tries > 1
    assert looks <= 2 * tries * len(searches) * units


@pytest.mark.parametrize('keep', [False, True])
def test_own_unit_that_another_demand_needs(keep: bool) -> None:
    timelines = [timeline(1), timeline(2)]
    own = {1: own_unit(1, 1, 0)}
    searches = [
        search(demand(), own=own, keep=keep),
        search(demand(matches=lambda unit: unit.id == 1)),
    ]
    if keep:
        with pytest.raises(InsufficientCapacity):
            JointSearch(searches, {'host': timelines}, random.Random(0)).choose()
    else:
        found = JointSearch(searches, {'host': timelines}, random.Random(0)).choose()
        assert [[pick.unit_id for pick in picks] for picks in found] == [[2], [1]]


@given(
    drawn.timelines(only_whole=True),
    st.lists(drawn.demands(only_whole=True), min_size=2, max_size=2),
    drawn.periods(),
    rng,
)
def test_whole_units_for_two_demands_are_found_if_there_are_any(
    timelines: list[Timeline], wanted: list[Demand], period: tuple[int, int], rng: random.Random
) -> None:
    searches = [search(each, *period) for each in wanted]
    try:
        JointSearch(searches, {'host': timelines}, rng).choose()
        found = True
    except InsufficientCapacity:
        found = False
    assert found == slow.can_have(wanted, *period, timelines)
