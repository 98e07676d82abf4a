# SPDX-License-Identifier: Apache-2.0
"""Find when there is room for demands: move a window on through the time to come.

What fits into a window changes only when it leaves a promise or enters one. So each unit is looked
at in these moments alone, and for the first time when there may be something to see.
"""

import heapq
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from climate_core.calendar.moments import FOREVER
from climate_core.calendar.rooms import Search, shifted
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together
from climate_core.concurrency import check_deadline

#: A search through units takes as long as looks at so many fewer.
FASTER = 4


class SearchBudget:
    """Limit the cost of a search.

    :ivar left: the number of units that may still be checked
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, count: int = 1) -> bool:
        """Spend a part; tell whether there was any left.

        :raises climate_core.exceptions.ServiceUnavailable: the caller waits no longer
        """
        check_deadline()
        self.left -= count
        return self.left + count > 0


def changes(
    searches: Sequence[Search],
    kinds: Kinds,
    latest: int,
    dice: random.Random,
    budget: SearchBudget,
) -> Iterator[tuple[int, bool]]:
    """Yield after which delays all searches begin to find enough, or cease to.

    :param latest: the longest delay, in microseconds
    :returns: delays in microseconds and whether there is room from then on; the first says that
        there is
    """
    delay: int | None = 0
    room = False
    cost = sum(len(kinds(each.demand.kind)) for each in searches) // FASTER
    while delay is not None and delay <= latest and budget.spend(cost):
        change = _next_start(searches, delay, kinds, dice)
        if (change is not None) != room:
            room = not room
            yield delay, room
        if change is None:
            change = next_room(searches, delay, kinds, latest, dice, budget)
        delay = change


def _next_start(
    searches: Sequence[Search], delay: int, kinds: Kinds, dice: random.Random
) -> int | None:
    """Return after which delay what is found now is not free any more; None: nothing is found."""
    later = [shifted(each, delay) for each in searches]
    try:
        found = find_together(later, kinds, dice)
    except NotFitting:
        return None
    taken = FOREVER
    for search, picks in zip(later, found, strict=True):
        chosen = {pick.unit_id for pick in picks}
        ours = (each for each in kinds(search.demand.kind) if each.unit.id in chosen)
        entered = min((each.next_start(search.end) for each in ours), default=FOREVER)
        taken = min(taken, entered - search.end)
    return delay + taken + 1


def next_room(
    searches: Sequence[Search],
    delay: int,
    kinds: Kinds,
    latest: int,
    dice: random.Random,
    budget: SearchBudget,
) -> int | None:
    """Return the next delay at which there is enough, in microseconds; None if there is none.

    :param delay: of when there is not, in microseconds
    :param latest: the longest delay that would do, in microseconds
    """
    watched = _Watched([shifted(each, delay) for each in searches], kinds)
    missing = [1 if each.demand.one_unit else each.demand.least for each in searches]
    for later, number, more in watched.looks(latest - delay, budget):
        missing[number] -= more
        if (
            later > 0
            and watched.next_look > later
            and max(missing) <= 0
            and _together(searches, delay + later, kinds, dice)
        ):
            return delay + later
    return None


class _Watched:
    """Looks at units in the order of the moments at which something may change.

    :ivar next_look: the delay of the next look that may find less than there is now: of one
        search a look at a unit that was looked at before, of several each of them
    """

    def __init__(self, searches: Sequence[Search], kinds: Kinds) -> None:
        self._searches = searches
        self._timelines = [kinds(each.demand.kind) for each in searches]
        self._starts = list(accumulate(map(len, self._timelines), initial=0))
        self.next_look = 0

    def looks(self, latest: int, budget: SearchBudget) -> Iterator[tuple[int, int, int]]:
        """Yield delays, for which search it is, and how many more pieces fit from then on."""
        firsts = [
            first
            for search, timelines in zip(self._searches, self._timelines, strict=True)
            for first in _first(search, timelines)
        ]
        # Numbers, and no pairs but of units that were looked at: there may be ten thousand units,
        # and few looks.
        waiting = sorted(range(len(firsts)), key=firsts.__getitem__, reverse=True)
        queue: list[tuple[int, int]] = []
        counts: dict[int, int] = {}
        while (queue or waiting) and budget.spend():
            if waiting and (not queue or firsts[waiting[-1]] <= queue[0][0]):
                index = waiting.pop()
                delay = firsts[index]
            else:
                delay, index = heapq.heappop(queue)
            if delay > latest:
                return
            number = bisect_right(self._starts, index) - 1
            timeline = self._timelines[number][index - self._starts[number]]
            count, following = _look(self._searches[number], timeline, delay)
            if following <= latest:
                heapq.heappush(queue, (following, index))
            more = count - counts.get(index, 0)
            counts[index] = count
            several = len(self._searches) > 1
            first = firsts[waiting[-1]] if waiting and several else FOREVER
            self.next_look = min(first, queue[0][0] if queue else FOREVER)
            yield delay, number, more


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
        find_together([shifted(each, delay) for each in searches], kinds, dice)
    except NotFitting:
        return False
    return True
