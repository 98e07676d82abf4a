# SPDX-License-Identifier: Apache-2.0
"""When there is room, against trying every delay."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.calendar import windows
from climate_core.calendar.model import Demand, Unit
from climate_core.calendar.search import JointSearch, Search
from climate_core.calendar.unit_timeline import Entry, Timeline
from tests.unit.calendar import drawn, slow

#: Nothing changes after the last promise.
LATEST = drawn.LAST + 2


def seen(searches: list[Search], timelines: list[Timeline], looks: int = 1000) -> list[bool]:
    """Return for each delay whether there is room."""
    room, found = False, []
    left = windows.SearchBudget(looks)
    changes = dict(
        windows.capacity_changes(
            JointSearch(searches, {'host': timelines}, random.Random(0)), LATEST, left
        )
    )
    for delay in range(LATEST + 1):
        room = changes.get(delay, room)
        found.append(room)
    return found


@given(drawn.timelines(), drawn.demands(), drawn.periods(), st.integers(0, drawn.LAST))
def test_windows_of_one_demand(
    timelines: list[Timeline], wanted: Demand, period: tuple[int, int], now: int
) -> None:
    start, end = period
    # What begins before now, as the preparation of a unit, is free until then.
    now = min(now, end - 1)
    search = Search(demand=wanted, start=start, end=end, now=now)
    assert seen([search], timelines) == [
        slow.most_of(wanted, max(now, start + delay), end + delay, timelines) >= wanted.min_pieces
        for delay in range(LATEST + 1)
    ]


@given(
    drawn.timelines(only_whole=True),
    st.lists(drawn.demands(only_whole=True), min_size=2, max_size=2),
    drawn.periods(),
)
def test_windows_of_two_demands(
    timelines: list[Timeline], wanted: list[Demand], period: tuple[int, int]
) -> None:
    start, end = period
    searches = [Search(demand=each, start=start, end=end) for each in wanted]
    assert seen(searches, timelines) == [
        slow.can_have(wanted, start + delay, end + delay, timelines) for delay in range(LATEST + 1)
    ]


@pytest.mark.parametrize('piece', [None, {'vcpus': 1}])
def test_windows_do_not_mind_what_is_past(piece: dict[str, int] | None) -> None:
    unit = Unit(id=1, kind='host', pool='a', capacity={'vcpus': 1})
    busy = Timeline.of(unit, [Entry(0, 3, 0, piece), Entry(6, 8, 0, piece)])
    demand = Demand(kind='host', min_pieces=1, max_pieces=1, piece=piece)
    rooms = [
        seen([Search(demand=demand, start=2, end=5, now=now)], [busy]).index(True)
        for now in (2, 3, 4)
    ]
    # From 3 on it is free for a window that ends at 6: one that begins at 2, if that is past.
    assert rooms == [1, 0, 0]


def test_windows_are_given_up_after_so_many_looks() -> None:
    unit = Unit(id=1, kind='host', pool='a', capacity={'vcpus': 1})
    busy = Timeline.of(unit, [Entry(time, time + 1, 0, {'vcpus': 1}) for time in range(9)])
    search = Search(
        demand=Demand(kind='host', min_pieces=1, max_pieces=1, piece={'vcpus': 1}), start=0, end=2
    )
    assert seen([search], [busy], looks=20).index(True) == 9
    assert not any(seen([search], [busy], looks=5))
