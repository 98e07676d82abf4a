# SPDX-License-Identifier: Apache-2.0
"""Who of those that wait has enough now, and who may pass whom."""

import dataclasses
import datetime
import random
from collections.abc import Sequence

import pytest

from climate_common.dates import from_microseconds
from climate_core.calendar.model import Demand, QueuedRequest, Unit
from climate_core.calendar.unit_timeline import Entry, Timeline
from climate_core.calendar.windows import backfill

HOUR = 3_600_000_000
FAR = 100 * HOUR


def timelines(*busy: int) -> list[Timeline]:
    """Whole units, each of which is free from an hour on."""
    made = []
    for number, until in enumerate(busy, 1):
        timeline = Timeline(Unit(id=number, kind='room', pool='default', lanes=1))
        entries = [Entry(0, until * HOUR, 0, None)] if until else []
        made.append(timeline.changed(timeline.unit, added=entries))
    return made


def wanting(count: int, hours: int, latest: int = FAR) -> QueuedRequest:
    demand = Demand(kind='room', min_pieces=count, max_pieces=count)
    return QueuedRequest(
        id='lease',
        project_id='',
        demands=[demand],
        start=from_microseconds(0),
        end=from_microseconds(hours * HOUR),
        latest=datetime.timedelta(microseconds=latest),
    )


def hours(
    units: Sequence[Timeline], *waiting: QueuedRequest, looks: int = 1_000_000
) -> list[int | None]:
    found = backfill(waiting, 0, {'room': units}, random.Random(1), looks)
    return [None if each.delay is None else each.delay // HOUR for each in found]


@pytest.mark.parametrize(
    ('busy', 'waiting', 'expected'),
    [
        ([0, 0], [wanting(1, 1), wanting(1, 1), wanting(1, 1)], [0, 0, 1]),
        ([0, 2], [wanting(2, 1), wanting(1, 2)], [2, 0]),
        # It would make the first one later.
        ([0, 2], [wanting(2, 1), wanting(1, 3)], [2, 3]),
        # What has a fixed time and no room keeps nobody waiting.
        ([0, 2], [wanting(2, 1, latest=0), wanting(1, 3)], [None, 0]),
        ([5], [wanting(1, 1, latest=3 * HOUR)], [None]),
        ([1, 1, 1], [wanting(3, 1), wanting(3, 1), wanting(1, 1)], [1, 2, 3]),
    ],
)
def test_leases_that_wait_start_in_the_expected_order(
    busy: list[int], waiting: list[QueuedRequest], expected: list[int | None]
) -> None:
    assert hours(timelines(*busy), *waiting) == expected


def test_without_looks_only_the_first_two_of_a_project_are_searched() -> None:
    units = timelines(*[0] * 40)
    assert hours(units, *[wanting(1, 1)] * 4, looks=20) == [0, 0]


def test_projects_have_equal_shares_of_the_looks() -> None:
    """A search costs 10 looks: each project has 20 for its searches."""
    units = timelines(*[0] * 40)
    ours, others = (
        [dataclasses.replace(wanting(1, 1), project_id=each) for _ in range(6)] for each in 'ab'
    )
    found = backfill([*ours, *others], 0, {'room': units}, random.Random(1), 80)
    assert [each.number for each in found] == [0, 1, 6, 7]


def test_turn_says_who_is_searched_and_not_who_comes_first() -> None:
    units = timelines(*[0] * 40)
    waiting = [dataclasses.replace(wanting(1, 1), turn=each) for each in (0, 3, 2, 1)]
    found = backfill(waiting, 0, {'room': units}, random.Random(1), 20)
    assert [each.number for each in found] == [0, 3]


def test_what_one_cannot_have_is_left_for_the_next_one() -> None:
    delays = []
    for each in backfill(
        [wanting(1, 1, latest=0)] * 3, 0, {'room': timelines(0)}, random.Random(1), 1000
    ):
        delays.append(each.delay)
        each.is_taken = each.number > 0
    assert delays == [0, 0, None]
