# SPDX-License-Identifier: Apache-2.0
"""What a unit that became smaller has no room for, by tables."""

import pytest

from climate_common.dates import NEVER
from climate_core.calendar.model import Unit
from climate_core.calendar.unit_timeline import Overcommit, Timeline, entry_of, find_overcommits
from climate_core.lease.model import Allocation
from tests.unit.calendar.hall import Hall, demand, shares

NOW = 5


def promised(
    number: int, start: int, end: int, pieces: int | None, released: bool = False
) -> Allocation:
    """Return the promise of this number: the oldest one has the least."""
    piece = None if pieces is None else {'vcpus': 1, 'disk_gb': 0}
    return Allocation(1, f'r{number}', start, end, number, pieces or 1, piece, number, released)


@pytest.mark.parametrize(
    ('rows', 'found', 'until'),
    [
        ([(1, 10, 20, 3), (2, 10, 20, 1)], {}, NEVER),
        ([(1, 10, 20, 3), (2, 20, 30, 4)], {}, NEVER),
        ([(1, 10, 20, 3), (2, 10, 30, 2)], {'r2': 5}, 20),
        # The age counts, and not when it begins; but what has begun stays.
        ([(2, 10, 20, 3), (1, 15, 30, 2)], {'r2': 5}, 20),
        ([(2, 0, 20, 3), (1, 15, 30, 2)], {'r1': 5}, 20),
        ([(2, 0, 20, 5)], {'r2': 5}, 20),
        # What does not fit at all is in nobody's way.
        ([(1, 10, 20, 5), (2, 10, 20, 4)], {'r1': 9}, 20),
        ([(1, 10, 20, 2), (2, 10, 20, 3), (3, 10, 20, 2)], {'r2': 7}, 20),
        # What was given up is cleaned, and not moved.
        ([(1, 0, 20, 5, True), (2, 10, 20, 1)], {'r2': 6}, 20),
        ([(1, 10, 20, None), (2, 20, 30, 5)], {'r2': 5}, 30),
    ],
)
def test_promises_beyond_the_capacity_are_found_as_surplus(
    rows: list[tuple[int, ...]], found: dict[str, int], until: int
) -> None:
    unit = Unit(id=1, kind='host', pool='', capacity={'vcpus': 4}, lanes=9)
    own = [promised(*each) for each in rows]  # type: ignore[arg-type]
    expected = [Overcommit(1, name, {'vcpus': (4, most)}) for name, most in found.items()]
    assert find_overcommits(unit, own, NOW) == expected
    assert Timeline.of(unit, map(entry_of, own)).overcommitted_until == until


def test_unit_that_is_withheld_is_not_too_small() -> None:
    unit = Unit(id=1, kind='host', pool='', capacity={'vcpus': 0})
    assert Timeline.of(unit, [entry_of(promised(1, 10, 20, 1))]).overcommitted_until == NEVER


def test_calendar_finds_it_until_it_is_moved_or_over(hall: Hall) -> None:
    small, other = hall.units(2)
    (mine,) = hall.book(shares(3, matches=lambda each: each.id == small))
    hall.book(demand(matches=lambda each: each.id == other), start=1)
    assert hall.calendar.find_overcommits('host') == []
    hall.change_unit(small, capacity={'vcpus': 2})
    hall.calendar.refresh()
    found = [Overcommit(small, mine.reservation_id, {'vcpus': (2, 3)})]
    assert hall.calendar.find_overcommits('host') == found
    assert [each.unit_id for each in hall.move(mine, shares(3))] == [other]
    assert hall.calendar.find_overcommits('host') == []


def test_move_keeps_what_is_on_other_units_that_became_too_small(hall: Hall) -> None:
    small, smaller, other = hall.units(3)
    mine, kept = hall.book(shares(8, matches=lambda each: each.id != other))
    for unit_id in (small, smaller):
        hall.change_unit(unit_id, capacity={'vcpus': 2})
    hall.move(mine, shares(8))
    assert [row[0] for row in hall.promised()] == [kept.unit_id, other]
