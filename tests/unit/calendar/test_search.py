# SPDX-License-Identifier: Apache-2.0
"""Choosing units: orders by tables, everything else against a slow search."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.calendar import rooms, together
from climate_core.calendar.model import Demand, Order, Unit
from climate_core.calendar.rooms import Search, UnitPick
from climate_core.calendar.search import TooFew, find
from climate_core.calendar.timeline import Entry, Timeline
from climate_core.calendar.together import NoRoom, find_together
from tests.unit.calendar import drawn, slow

VCPU = {'vcpus': 1}
dice = st.integers(0, 9).map(random.Random)


def timeline(number: int, *entries: tuple[int, int], **values: Any) -> Timeline:
    unit = Unit(
        **{
            'id': number,
            'kind': 'host',
            'pool': 'a',
            'capacity': {'vcpus': 4},
            'lanes': 9,
            **values,
        }
    )
    return Timeline.of(unit, [Entry(*each) for each in entries])


def demand(least: int = 1, most: int | None = None, **more: Any) -> Demand:
    return Demand(kind='host', least=least, most=most or least, **more)


def search(wanted: Demand, start: int = 10, end: int = 20, **more: Any) -> Search:
    return Search(demand=wanted, start=start, end=end, **more)


def chosen(
    wanted: Demand, timelines: Sequence[Timeline], number: int = 0, **more: Any
) -> Mapping[int, int]:
    found = find(search(wanted, **more), timelines, random.Random(number))
    return {pick.unit_id: pick.pieces for pick in found}


#: Units 1, 2, 3: free for 10, for 15, and for ever around the time.
GAPS = [timeline(3), timeline(1, (5, 10), (20, 30)), timeline(2, (0, 8), (23, 30))]
#: Units 1, 2, 3 with room for 1, 2 and 4 vcpus.
SHARES = [
    Timeline.of(timeline(number).unit, [Entry(0, 99, 0, {'vcpus': taken})])
    for number, taken in ((1, 3), (2, 2), (3, 0))
]


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
            demand(4, order=Order.PACK, piece=VCPU, most_per_unit=1),
            [*SHARES, timeline(4)],
            {1: 1, 2: 1, 3: 1, 4: 1},
        ),
        (demand(4, order=Order.SPREAD, piece=VCPU), SHARES, {1: 1, 2: 1, 3: 2}),
        (demand(7, order=Order.SPREAD, piece=VCPU), SHARES, {1: 1, 2: 2, 3: 4}),
        (demand(2, 9, piece=VCPU, one_unit=True), SHARES, {3: 4}),
        (demand(2, piece=VCPU, one_unit=True), SHARES, {2: 2}),
    ],
)
def test_order(wanted: Demand, timelines: Sequence[Timeline], units: Mapping[int, int]) -> None:
    for number in range(5):
        assert chosen(wanted, timelines, number) == units


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
    monkeypatch.setattr(rooms, 'SAMPLE', 10)
    many = [timeline(number, *([] if number % 7 == 0 else [(0, 30)])) for number in range(100)]
    assert sum(chosen(demand(15), many).values()) == 15
    with pytest.raises(TooFew) as missing:
        chosen(demand(16), many)
    assert missing.value.count == 15


OWN = {1: UnitPick(1, 1, 2), 3: UnitPick(3, 2, 5)}


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
def test_own_units(wanted: Demand, keep: bool, units: Mapping[int, int] | None) -> None:
    if units is None:
        with pytest.raises(TooFew):
            chosen(wanted, SHARES, own=OWN, keep=keep)
        return
    found = find(search(wanted, own=OWN, keep=keep), SHARES, random.Random(0))
    assert {pick.unit_id: pick.pieces for pick in found} == units
    # A lane that is open already stays the same.
    assert all(pick.lane == OWN[pick.unit_id].lane for pick in found if pick.unit_id in OWN)


@pytest.mark.parametrize('own', [UnitPick(1, 2, 2), UnitPick(1, 1, 0), UnitPick(9, 1, 0)])
def test_own_units_that_must_stay_and_cannot(own: UnitPick) -> None:
    with pytest.raises(TooFew):
        chosen(demand(1, 9, piece=VCPU), SHARES, own={own.unit_id: own}, keep=True)


@given(drawn.timelines(), drawn.demands(), drawn.periods(), dice, st.integers(0, 2))
def test_search_agrees_with_the_slow_one(
    timelines: list[Timeline],
    wanted: Demand,
    period: tuple[int, int],
    dice: random.Random,
    scatter: int,
) -> None:
    possible = slow.most_of(wanted, *period, timelines)
    if possible < wanted.least:
        with pytest.raises(TooFew) as missing:
            find(search(wanted, *period, scatter=scatter), timelines, dice)
        assert missing.value.count == possible
        return
    picks = find(search(wanted, *period, scatter=scatter), timelines, dice)
    assert sum(pick.pieces for pick in picks) == possible
    assert all(pick.pieces <= (wanted.most_per_unit or drawn.MOST) for pick in picks)
    assert len(picks) == 1 or not wanted.one_unit
    taken = {pick.unit_id for pick in picks}
    assert all(wanted.matches(each.unit) for each in timelines if each.unit.id in taken)
    for each in slow.with_picks(timelines, picks, *period, wanted.piece):
        assert not slow.wrong(each.unit, each.entries)


@given(drawn.timelines(), st.lists(drawn.demands(), min_size=2, max_size=3), drawn.periods(), dice)
def test_demands_of_a_request_do_not_take_the_same(
    timelines: list[Timeline], wanted: list[Demand], period: tuple[int, int], dice: random.Random
) -> None:
    searches = [search(each, *period) for each in wanted]
    try:
        found = find_together(searches, lambda _kind: timelines, dice)
    except NoRoom:
        return
    for each, picks in zip(wanted, found, strict=True):
        assert each.least <= sum(pick.pieces for pick in picks) <= each.most
        timelines = slow.with_picks(timelines, picks, *period, each.piece)
    assert not [wrong for each in timelines if (wrong := slow.wrong(each.unit, each.entries))]


def test_demand_that_has_few_units_to_choose_from_comes_first() -> None:
    small, large = timeline(1, capacity={'vcpus': 1}), timeline(2, capacity={'vcpus': 4})
    any_unit = demand(order=Order.SPREAD, piece=VCPU)
    searches = [search(any_unit), search(demand(piece={'vcpus': 4}))]
    found = find_together(searches, lambda _kind: [small, large], random.Random(0))
    assert [[pick.unit_id for pick in picks] for picks in found] == [[1], [2]]
    with pytest.raises(NoRoom) as missing:
        find_together([*searches, searches[0]], lambda _kind: [small, large], random.Random(0))
    assert missing.value.index == 1


def test_demand_takes_last_what_another_one_can_have() -> None:
    # Units 2 and 3 fit best for both.
    around = [(0, 10), (20, 30)]
    timelines = [timeline(1), timeline(2, *around), timeline(3, *around), timeline(4)]
    searches = [
        search(demand(2, matches=lambda unit: unit.id < 4)),
        search(demand(2, matches=lambda unit: unit.id > 1)),
    ]
    first, second = find_together(searches, lambda _kind: timelines, random.Random(0))
    assert (first[0].unit_id, second[-1].unit_id) == (1, 4)


@pytest.mark.parametrize(('units', 'tries'), [(40, 1), (30, together.TRIES)])
def test_many_demands_look_at_each_unit_a_few_times(units: int, tries: int) -> None:
    looks = 0

    def matches(_unit: Unit) -> bool:
        nonlocal looks
        looks += 1
        return True

    timelines = [timeline(number) for number in range(units)]
    searches = [search(demand(matches=matches)) for _ in range(40)]
    try:
        find_together(searches, lambda _kind: timelines, random.Random(0))
        assert tries == 1
    except NoRoom:
        assert tries > 1
    assert looks <= 2 * tries * len(searches) * units


@pytest.mark.parametrize('keep', [False, True])
def test_own_unit_that_another_demand_needs(keep: bool) -> None:
    timelines = [timeline(1), timeline(2)]
    own = {1: UnitPick(1, 1, 0)}
    searches = [
        search(demand(), own=own, keep=keep),
        search(demand(matches=lambda unit: unit.id == 1)),
    ]
    if keep:
        with pytest.raises(NoRoom):
            find_together(searches, lambda _kind: timelines, random.Random(0))
    else:
        found = find_together(searches, lambda _kind: timelines, random.Random(0))
        assert [[pick.unit_id for pick in picks] for picks in found] == [[2], [1]]


@given(
    drawn.timelines(only_whole=True),
    st.lists(drawn.demands(only_whole=True), min_size=2, max_size=2),
    drawn.periods(),
    dice,
)
def test_whole_units_for_two_demands_are_found_if_there_are_any(
    timelines: list[Timeline], wanted: list[Demand], period: tuple[int, int], dice: random.Random
) -> None:
    searches = [search(each, *period) for each in wanted]
    try:
        find_together(searches, lambda _kind: timelines, dice)
        found = True
    except NoRoom:
        found = False
    assert found == slow.can_have(wanted, *period, timelines)
