# SPDX-License-Identifier: Apache-2.0
"""Choose which of the leases that wait have enough now. Pure.

Each has what is free in the order in which they wait. One for which there is not enough now keeps
the earliest room that there will be for it, so that a later one may pass it only if it makes it no
later (conservative backfilling).
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from climate_core.calendar import windows
from climate_core.calendar.rooms import Search, UnitPick, shifted
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together

#: Leases of a project that are searched whatever they cost: those of its first turn.
_ALWAYS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class QueuedLease:
    """Describe what one of those that wait looks for.

    :param searches: as if it began now, or at its start date
    :param latest: by how many microseconds it may begin later; 0: its time is fixed
    :param turn: its place among those that are searched, if not all can be
    """

    searches: Sequence[Search]
    latest: int = 0
    project_id: str = ''
    turn: int = 0


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


def choose(
    waiting: Sequence[QueuedLease], kinds: Kinds, dice: random.Random, looks: int
) -> Iterator[SearchResult]:
    """Yield what there is for each lease that is searched, in the order in which they wait.

    Each project has the same share of the looks: one half for searches, one half to find the
    capacity that is kept for leases. A project that needs more takes nothing from other projects.
    """
    share = looks // max(1, len({each.project_id for each in waiting})) // 2
    rooms = {each.project_id: windows.SearchBudget(share) for each in waiting}
    taken: dict[int, Timeline] = {}

    def remaining(kind: str) -> Sequence[Timeline]:
        timelines = kinds(kind)
        return [taken.get(each.unit.id, each) for each in timelines] if taken else timelines

    for number in _searched(waiting, kinds, share):
        one = waiting[number]
        try:
            picks = find_together(one.searches, remaining, dice)
        except NotFitting:
            left = rooms[one.project_id]
            delay = _keep_room(one, remaining, taken, dice, left) if one.latest else None
            yield SearchResult(number, delay)
        else:
            found = SearchResult(number, 0)
            yield found
            if found.is_taken:
                _take(one.searches, picks, remaining, taken)


def _searched(waiting: Sequence[QueuedLease], kinds: Kinds, share: int) -> list[int]:
    """Return the numbers of the leases that are searched, in the order in which they wait."""
    budgets = {each.project_id: windows.SearchBudget(share) for each in waiting}
    counts = Counter[str]()
    found = []
    for number in sorted(range(len(waiting)), key=lambda each: waiting[each].turn):
        one = waiting[number]
        cost = sum(len(kinds(each.demand.kind)) for each in one.searches) // windows.FASTER
        if budgets[one.project_id].spend(cost) or counts[one.project_id] < _ALWAYS:
            counts[one.project_id] += 1
            found.append(number)
    return sorted(found)


def _keep_room(
    one: QueuedLease,
    kinds: Kinds,
    taken: dict[int, Timeline],
    dice: random.Random,
    budget: windows.SearchBudget,
) -> int | None:
    delay = windows.next_room(one.searches, 0, kinds, one.latest, dice, budget)
    if delay is not None:
        later = [shifted(each, delay) for each in one.searches]
        _take(later, find_together(later, kinds, dice), kinds, taken)
    return delay


def _take(
    searches: Sequence[Search],
    found: Sequence[Sequence[UnitPick]],
    kinds: Kinds,
    taken: dict[int, Timeline],
) -> None:
    for search, picks in zip(searches, found, strict=True):
        entries = {pick.unit_id: search.entry(pick) for pick in picks}
        for each in kinds(search.demand.kind):
            entry = entries.get(each.unit.id)
            if entry is not None:
                taken[each.unit.id] = each.changed(each.unit, added=[entry])
