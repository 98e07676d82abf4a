# SPDX-License-Identifier: Apache-2.0
"""Find when there is room for what is demanded: move a window on through the time to come.

Nothing changes but when the window leaves a promise or enters one, so only these moments are
looked at, each at the one unit that it is about.
"""

import dataclasses
import heapq
import random
from collections.abc import Iterator, Sequence

from climate_core.calendar.moments import FOREVER
from climate_core.calendar.search import Search
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NoRoom, find_together

_Steps = Iterator[tuple[int, int]]


def changes(
    searches: Sequence[Search], kinds: Kinds, latest: int, dice: random.Random, steps: int
) -> Iterator[tuple[int, bool]]:
    """Yield how much later all searches begin to find enough, or cease to.

    :param latest: the most that they are delayed, in microseconds
    :param steps: give up after so many changes of single units
    :returns: delays in microseconds and whether there is room; it begins with ``(0, ...)`` if
        there is, and ends with ``(latest + 1, False)`` if there is room to the end
    """
    queue: list[tuple[int, int, int, _Steps]] = []
    counts: list[int] = []
    of: list[int] = []
    for number, search in enumerate(searches):
        for timeline in kinds(search.demand.kind):
            if timeline.unit.available and search.demand.matches(timeline.unit):
                moves = _moves(search, timeline)
                delay, count = next(moves)
                queue.append((delay, len(of), count, moves))
                of.append(number)
                counts.append(0)
    heapq.heapify(queue)
    missing = [_needed(search) for search in searches]
    room = False
    while queue and (delay := queue[0][0]) <= latest and steps > 0:
        while queue and queue[0][0] == delay:
            _, index, count, moves = queue[0]
            missing[of[index]] += counts[index] - count
            counts[index] = count
            following = next(moves, None)
            if following is None:
                heapq.heappop(queue)
            else:
                heapq.heapreplace(queue, (following[0], index, following[1], moves))
            steps -= 1
        now = max(missing, default=0) <= 0 and _together(searches, delay, kinds, dice)
        if now != room:
            room = now
            yield delay, room
    if room and steps > 0:
        yield latest + 1, False


def _needed(search: Search) -> int:
    return 1 if search.demand.one_unit else search.demand.least


def _together(searches: Sequence[Search], delay: int, kinds: Kinds, dice: random.Random) -> bool:
    if len(searches) < 2:
        return True
    try:
        find_together([_later(each, delay) for each in searches], kinds, dice)
    except NoRoom:
        return False
    return True


def _later(search: Search, delay: int) -> Search:
    return dataclasses.replace(search, start=search.start + delay, end=search.end + delay)


def _moves(search: Search, timeline: Timeline) -> _Steps:
    """Yield when the count of pieces that a unit has room for changes, and what it is then."""
    steps = _whole(search, timeline) if search.demand.piece is None else _shares(search, timeline)
    for start, count in steps:
        yield max(0, start - search.start), count


def _whole(search: Search, timeline: Timeline) -> _Steps:
    start, length = search.start, search.end - search.start
    while True:
        start = timeline.free_at(start, length, search.now)
        yield start, 1
        taken = timeline.next_start(start + length)
        if taken == FOREVER:
            return
        start = taken - length + 1
        yield start, 0


def _shares(search: Search, timeline: Timeline) -> _Steps:
    demand, start, length = search.demand, search.start, search.end - search.start
    most = demand.most if demand.most_per_unit is None else demand.most_per_unit
    while start < FOREVER:
        begin, end = max(start, search.now), start + length
        count = timeline.fits(begin, end, demand.piece, most)
        if demand.one_unit:
            count = int(count >= demand.least)
        yield start, count
        entered = timeline.next_start(end)
        left = timeline.next_end(begin, end)
        start = min(FOREVER if entered == FOREVER else entered - length + 1, left)
