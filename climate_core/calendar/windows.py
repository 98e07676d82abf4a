# SPDX-License-Identifier: Apache-2.0
"""Find when there is room for what is demanded: move a window on through the time to come.

What fits into a window changes only when it leaves a promise or enters one. So each unit is looked
at in these moments alone, and for the first time when there may be something to see.
"""

import dataclasses
import heapq
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from climate_core.calendar.moments import FOREVER
from climate_core.calendar.rooms import Search
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NoRoom, find_together


def changes(
    searches: Sequence[Search], kinds: Kinds, latest: int, dice: random.Random, looks: int
) -> Iterator[tuple[int, bool]]:
    """Yield after which delays all searches begin to find enough, or cease to.

    :param latest: the longest delay, in microseconds
    :param looks: give up after so many looks at single units
    :returns: delays in microseconds and whether there is room from then on; the first says that
        there is
    """
    watched = [
        (number, timeline)
        for number, search in enumerate(searches)
        for timeline in kinds(search.demand.kind)
    ]
    queue = [
        (delay, index)
        for index, delay in enumerate(
            delay for search in searches for delay in _first(search, kinds(search.demand.kind))
        )
        if delay <= latest
    ]
    heapq.heapify(queue)
    counts = [0] * len(watched)
    missing = [1 if each.demand.one_unit else each.demand.least for each in searches]
    room = False
    while queue and looks > 0:
        delay = queue[0][0]
        while queue and queue[0][0] == delay:
            index = queue[0][1]
            number, timeline = watched[index]
            count, following = _look(searches[number], timeline, delay)
            missing[number] += counts[index] - count
            counts[index] = count
            if following <= latest:
                heapq.heapreplace(queue, (following, index))
            else:
                heapq.heappop(queue)
            looks -= 1
        now = max(missing, default=0) <= 0 and _together(searches, delay, kinds, dice)
        if now != room:
            room = now
            yield delay, room


def _first(search: Search, timelines: Sequence[Timeline]) -> list[int]:
    """Return before which delay a look at each of the units is in vain."""
    if search.demand.piece is not None:
        return [0] * len(timelines)
    # Without a call for each: there may be ten thousand.
    start, begin, end, length = search.start, search.begin, search.end, search.length
    return [
        0
        if each.starts[index := bisect_right(each.reach, begin) - 1] >= end
        else (each.reach[-1] if length > each.longest else each.reach[index + 1]) - start
        for each in timelines
    ]


def _look(search: Search, timeline: Timeline, delay: int) -> tuple[int, int]:
    """Return what fits into the window of a delay, and after which one that may be different."""
    demand, unit = search.demand, timeline.unit
    if not unit.available or not demand.matches(unit):
        return 0, FOREVER
    start, end = search.start + delay, search.end + delay
    begin = max(start, search.now)
    if demand.piece is None:
        free = timeline.free_at(start, search.length, search.now)
        if free > start:
            return 0, free - search.start
        count, left = 1, FOREVER
    else:
        most = demand.most if demand.most_per_unit is None else demand.most_per_unit
        count, left = timeline.fits(begin, end, demand.piece, most), timeline.next_end(begin, end)
    if demand.one_unit:
        count = int(count >= demand.least)
    entered = timeline.next_start(end) - search.length + 1
    return count, min(entered, left) - search.start


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
