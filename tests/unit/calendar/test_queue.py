# SPDX-License-Identifier: Apache-2.0
"""Who of those that wait has enough now, and who may pass whom."""

import random
from collections.abc import Sequence

import pytest

from climate_core.calendar.model import Demand, Unit
from climate_core.calendar.queue import QueuedLease, choose
from climate_core.calendar.rooms import Search
from climate_core.calendar.timeline import Entry, Timeline

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


def wanting(count: int, hours: int, latest: int = FAR) -> QueuedLease:
    demand = Demand(kind='room', least=count, most=count)
    return QueuedLease([Search(demand=demand, start=0, end=hours * HOUR)], latest)


def hours(
    units: Sequence[Timeline], *waiting: QueuedLease, looks: int = 1_000_000
) -> list[int | None]:
    found = choose(waiting, lambda _kind: units, random.Random(1), looks)
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
    busy: list[int], waiting: list[QueuedLease], expected: list[int | None]
) -> None:
    assert hours(timelines(*busy), *waiting) == expected


def test_without_looks_nobody_is_looked_at() -> None:
    units = timelines(*[0] * 40)
    assert hours(units, *[wanting(1, 1)] * 4, looks=20) == [0, 0]
