# SPDX-License-Identifier: Apache-2.0
"""Search over time: windows with sufficient capacity, and backfilling of the wait queue. Pure.

The capacity of a window changes only when the window leaves an allocation or enters one. So each
unit is checked only at these times, and first when it may have capacity.

Backfilling is conservative: a lease that lacks capacity now retains the earliest capacity that it
can have, so that a later lease may pass it only if that does not delay it.
"""

import dataclasses
import heapq
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from climate_common.dates import FOREVER, delta_to_microseconds
from climate_core.calendar.model import QueuedRequest
from climate_core.calendar.search import (
    InsufficientCapacity,
    JointSearch,
    Search,
    Timelines,
    change_timelines,
    searches_for,
)
from climate_core.calendar.unit_timeline import Timeline
from climate_core.concurrency import SearchBudget
from climate_core.lease.model import Allocation


def capacity_changes(
    search: JointSearch, latest: int, budget: SearchBudget
) -> Iterator[tuple[int, bool]]:
    """Yield the delays after which capacity becomes sufficient for all searches, or ceases to be.

    :param latest: the longest delay, in microseconds
    :returns: delays in microseconds, and whether capacity is sufficient from then on; the first
        is sufficient
    """
    delay: int | None = 0
    is_sufficient = False
    cost = search.cost
    while delay is not None and delay <= latest and budget.spend(cost):
        change = _next_start(search, delay)
        if (change is not None) != is_sufficient:
            is_sufficient = not is_sufficient
            yield delay, is_sufficient
        if change is None:
            change = find_next_delay(search, delay, latest, budget)
        delay = change


def _next_start(search: JointSearch, delay: int) -> int | None:
    """Return the delay after which the units chosen now are not free; None: none are chosen."""
    later = search.delayed(delay)
    try:
        joint_choices = later.choose()
    except InsufficientCapacity:
        return None
    taken = FOREVER
    for single, choices in zip(later.searches, joint_choices, strict=True):
        chosen = {choice.unit_id for choice in choices}
        ours = (line for line in later.timelines_of(single) if line.unit.id in chosen)
        entered = min((timeline.next_start(single.end) for timeline in ours), default=FOREVER)
        taken = min(taken, entered - single.end)
    return delay + taken + 1


def find_next_delay(
    search: JointSearch, delay: int, latest: int, budget: SearchBudget
) -> int | None:
    """Return the next delay with sufficient capacity, in microseconds; None for none.

    :param delay: a delay without sufficient capacity, in microseconds
    :param latest: the longest acceptable delay, in microseconds
    """
    checks = _UnitChecks(search.delayed(delay))
    demands = [single.demand for single in search.searches]
    missing = [1 if demand.single_unit else demand.min_pieces for demand in demands]
    for later, number, more in checks.run(latest - delay, budget):
        missing[number] -= more
        if (
            later > 0
            and checks.next_check > later
            and max(missing) <= 0
            and (len(demands) < 2 or search.delayed(delay + later).find_missing() is None)
        ):
            return delay + later
    return None


class _UnitChecks:
    """Check units in the order of the times at which their free capacity may change.

    :ivar next_check: delay of the next check that may find less than now: of one search the check
        of a unit that was checked before, of several searches any check
    """

    def __init__(self, search: JointSearch) -> None:
        self._searches = search.searches
        self._timelines = [search.timelines_of(single) for single in search.searches]
        self._starts = list(accumulate(map(len, self._timelines), initial=0))
        self.next_check = 0

    def run(self, latest: int, budget: SearchBudget) -> Iterator[tuple[int, int, int]]:
        """Yield a delay, the number of a search, and how many more pieces fit from then on."""
        firsts = [
            first
            for search, timelines in zip(self._searches, self._timelines, strict=True)
            for first in _first_checks(search, timelines)
        ]
        # Numbers, and pairs only of units that were checked: there may be ten thousand units, and
        # few checks.
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
            count, following = _check_unit(self._searches[number], timeline, delay)
            if following <= latest:
                heapq.heappush(queue, (following, index))
            more = count - counts.get(index, 0)
            counts[index] = count
            several = len(self._searches) > 1
            first = firsts[waiting[-1]] if waiting and several else FOREVER
            self.next_check = min(first, queue[0][0] if queue else FOREVER)
            yield delay, number, more


def _first_checks(search: Search, timelines: Sequence[Timeline]) -> list[int]:
    """Return for every unit the delay before which a check finds nothing."""
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


def _check_unit(search: Search, timeline: Timeline, delay: int) -> tuple[int, int]:
    """Return the number of pieces that fit after a delay, and the delay at which it may change."""
    demand, unit = search.demand, timeline.unit
    if not unit.available or not demand.matches(unit):
        return 0, FOREVER
    start, end = search.start + delay, search.end + delay
    begin = max(start, search.now)
    if demand.piece is None:
        free = timeline.next_free(start, search.length, search.now)
        if free > start:
            return 0, free - search.start
        count, left = 1, FOREVER
    else:
        most = demand.max_pieces if demand.max_per_unit is None else demand.max_per_unit
        count, left = timeline.fits(begin, end, demand.piece, most), timeline.next_end(begin, end)
    if demand.single_unit:
        count = int(count >= demand.min_pieces)
    entered = timeline.next_start(end) - search.length + 1
    return count, min(entered, left) - search.start


#: Leases of a project that are searched whatever they cost: the leases of its first turns.
_ALWAYS_SEARCHED = 2


@dataclasses.dataclass(slots=True)
class SearchResult:
    """The capacity that a search found for a lease.

    :param number: place of the lease in the queue
    :param delay: microseconds until there is sufficient capacity; 0: now; None: not known
    :ivar is_taken: whether the capacity that is free now is kept from the leases searched later.
        The caller sets it to False if the lease cannot have it, before the next one is searched
    """

    number: int
    delay: int | None
    is_taken: bool = True

    @property
    def seconds(self) -> float | None:
        """Return the delay in seconds."""
        return None if self.delay is None else self.delay / 1_000_000


def backfill(
    queued: Sequence[QueuedRequest],
    now: int,
    by_kind: Timelines,
    rng: random.Random,
    checks: int,
) -> Iterator[SearchResult]:
    """Yield the result for each lease that is searched, in the order of the queue.

    Each project has the same share of the checks: one half for searches, one half to find the
    capacity that is kept for leases. A project that needs more takes nothing from other projects.

    :param now: the time from which units can be allocated
    """
    share = checks // max(1, len({lease.project_id for lease in queued})) // 2
    budgets = {lease.project_id: SearchBudget(share) for lease in queued}
    remaining = dict(by_kind)
    joint = [
        JointSearch(searches_for(now, lease.demands, lease.start, lease.end), remaining, rng)
        for lease in queued
    ]
    for number in _within_budget(queued, [search.cost for search in joint], share):
        lease, search = queued[number], joint[number]
        try:
            choices = search.choose()
        except InsufficientCapacity:
            budget, latest = budgets[lease.project_id], delta_to_microseconds(lease.latest)
            delay = find_next_delay(search, 0, latest, budget) if latest else None
            if delay is not None:
                # It keeps the earliest capacity that it can have.
                later = search.delayed(delay)
                _occupy(later, later.choose(), remaining)
            yield SearchResult(number, delay)
        else:
            result = SearchResult(number, 0)
            yield result
            if result.is_taken:
                _occupy(search, choices, remaining)


def _within_budget(queued: Sequence[QueuedRequest], costs: Sequence[int], share: int) -> list[int]:
    """Return the numbers of the leases that are searched, in the order of the queue."""
    budgets = {lease.project_id: SearchBudget(share) for lease in queued}
    counts = Counter[str]()
    numbers = []
    for number in sorted(range(len(queued)), key=lambda place: queued[place].turn):
        project_id = queued[number].project_id
        if budgets[project_id].spend(costs[number]) or counts[project_id] < _ALWAYS_SEARCHED:
            counts[project_id] += 1
            numbers.append(number)
    return sorted(numbers)


def _occupy(
    search: JointSearch,
    choices: Sequence[Sequence[Allocation]],
    remaining: dict[str, Sequence[Timeline]],
) -> None:
    for single, chosen in zip(search.searches, choices, strict=True):
        kind = single.demand.kind
        remaining[kind] = change_timelines(remaining.get(kind, ()), chosen)
