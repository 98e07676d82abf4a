# SPDX-License-Identifier: Apache-2.0
"""What is free of one unit, by tables."""

from typing import Any

import pytest

from climate_common.dates import FOREVER, NEVER
from climate_core.calendar.model import Unit
from climate_core.calendar.unit_timeline import Entry, Timeline

SMALL = {'vcpus': 2, 'memory_mb': 1}


def unit(**values: Any) -> Unit:
    return Unit(**{'id': 1, 'kind': 'host', 'pool': 'default', **values})


def whole(*periods: tuple[int, int]) -> Timeline:
    return Timeline.of(unit(), [Entry(*each) for each in periods])


def shared(*entries: tuple[int, int, int, int], lanes: int = 3) -> Timeline:
    """Return a unit of 8 vcpus, of which (start, end, lane, vcpus) are promised."""
    taken = [Entry(start, end, lane, {'vcpus': vcpus}) for start, end, lane, vcpus in entries]
    return Timeline.of(unit(capacity={'vcpus': 8, 'memory_mb': 100}, lanes=lanes), taken)


TWO = whole((20, 30), (10, 15))
LONG = shared((0, 100, 0, 1), (10, 20, 1, 1), (30, 40, 1, 1))


@pytest.mark.parametrize(
    ('timeline', 'start', 'end', 'gap'),
    [
        (whole(), 0, 9, (NEVER, FOREVER)),
        (TWO, 0, 10, (NEVER, 10)),
        (TWO, 0, 11, None),
        (TWO, 14, 20, None),
        (TWO, 15, 20, (15, 20)),
        (TWO, 16, 19, (15, 20)),
        (TWO, 16, 21, None),
        (TWO, 0, 99, None),
        (TWO, 30, 99, (30, FOREVER)),
        (LONG, 50, 60, None),
        (LONG, 100, 101, (100, FOREVER)),
    ],
)
def test_gap_is_what_is_free_around_a_period(
    timeline: Timeline, start: int, end: int, gap: tuple[int, int] | None
) -> None:
    assert timeline.gap(start, end) == gap
    assert timeline.fits(start, end, None) == (gap is not None)


@pytest.mark.parametrize(
    ('timeline', 'start', 'length', 'now', 'free'),
    [
        (whole(), 3, 5, NEVER, 3),
        (TWO, 0, 10, NEVER, 0),
        (TWO, 1, 10, NEVER, 30),
        (TWO, 5, 4, NEVER, 5),
        (TWO, 7, 4, NEVER, 15),
        (TWO, 16, 5, NEVER, 30),
        (TWO, 25, 1, NEVER, 30),
        (TWO, 12, 1, 15, 12),
        (TWO, 12, 8, 15, 12),
        (TWO, 12, 9, 15, 30),
    ],
)
def test_free_at_returns_the_first_time_that_is_long_enough(
    timeline: Timeline, start: int, length: int, now: int, free: int
) -> None:
    assert timeline.next_free(start, length, now) == free


@pytest.mark.parametrize(
    ('timeline', 'start', 'end', 'count'),
    [
        (shared(), 0, 9, 4),
        (shared((0, 5, 0, 4)), 0, 9, 2),
        (shared((0, 5, 0, 4)), 5, 9, 4),
        # One after the other: never both at once.
        (shared((0, 5, 0, 6), (5, 9, 0, 6)), 0, 9, 1),
        (shared((0, 6, 0, 4), (5, 9, 1, 4)), 0, 9, 0),
        (shared((0, 5, 0, 2), (0, 9, 1, 1)), 3, 4, 2),
        # A promise that has long begun.
        (LONG, 35, 36, 3),
        (LONG, 15, 35, 3),
        # Lanes: both at once, or the free one is not free all the time.
        (shared((0, 9, 0, 1), (0, 9, 1, 1), lanes=2), 3, 4, 0),
        (shared((0, 3, 0, 1), (6, 9, 1, 1), lanes=2), 0, 9, 0),
        (shared((0, 3, 0, 1), (6, 9, 0, 1), lanes=2), 0, 9, 3),
        (shared((0, 9, 2, 1), (0, 9, 1, 1), lanes=2), 3, 4, 0),
        (whole((0, 9)), 3, 4, 0),
    ],
)
def test_fits_counts_the_pieces_that_find_room(
    timeline: Timeline, start: int, end: int, count: int
) -> None:
    assert timeline.fits(start, end, SMALL) == count
    assert timeline.fits(start, end, SMALL, 1) == min(count, 1)


def test_fits_of_what_the_unit_does_not_have() -> None:
    assert shared().fits(0, 1, {'gpus': 1}) == 0
    assert shared((0, 9, 0, 9)).fits(0, 1, SMALL) == 0


@pytest.mark.parametrize(
    ('liked', 'start', 'lane'), [(None, 0, 1), (2, 0, 2), (0, 0, 1), (1, 5, 1), (None, 5, 0)]
)
def test_lane_that_is_liked_is_taken_if_it_is_free(
    liked: int | None, start: int, lane: int
) -> None:
    assert shared((0, 5, 0, 1)).find_lane(start, 9, liked) == lane


@pytest.mark.parametrize(
    ('entries', 'lanes'),
    [
        ([], {}),
        ([(8, 9, 0, 1), (6, 7, 1, 1)], {8: 1}),
        # It begins too soon, or it is in another lane, or there is no other lane.
        ([(3, 6, 0, 1)], {}),
        ([(8, 9, 1, 1)], {}),
        ([(6, 9, 0, 1), (7, 8, 1, 1), (7, 8, 2, 1)], {}),
        # The second one may have the lane that the first one takes, after it.
        ([(5, 7, 0, 1), (5, 9, 1, 1), (7, 9, 0, 1)], {5: 2, 7: 2}),
        ([(9, 10, 0, 1)], {}),
    ],
)
def test_clear_moves_promises_to_other_lanes(
    entries: list[tuple[int, int, int, int]], lanes: dict[int, int]
) -> None:
    moved = shared(*entries).plan_lane_changes(0, 2, 9, movable=4)
    assert {old.start: new.lane for old, new in moved} == lanes
    assert all(old == new._replace(lane=0) for old, new in moved)


def test_next_start_and_next_end_follow_the_entries() -> None:
    assert [LONG.next_start(time) for time in (0, 1, 31)] == [0, 10, FOREVER]
    assert [LONG.next_end(*period) for period in ((0, 5), (12, 14), (100, 200))] == [
        100,
        20,
        FOREVER,
    ]


def test_changed_timeline_has_the_added_and_not_the_removed_entries() -> None:
    added = Entry(40, 50, 0)
    changed = TWO.changed(unit(generation=1), without=[Entry(10, 15)], added=[added])
    assert changed.entries == [Entry(20, 30), added]
    assert (changed.unit.generation, changed.contains(added), TWO.contains(added)) == (
        1,
        True,
        False,
    )
    assert not changed.contains(Entry(40, 51))
