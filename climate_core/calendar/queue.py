# SPDX-License-Identifier: Apache-2.0
"""Choose which of the leases that wait have enough now. Pure.

Each has what is free in the order in which they wait. One for which there is not enough now keeps
the earliest room that there will be for it, so that a later one may pass it only if it makes it no
later (conservative backfilling).
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from climate_core.calendar import windows
from climate_core.calendar.rooms import Search, UnitPick, shifted
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together


class QueuedLease(NamedTuple):
    """Describe what one of those that wait looks for.

    :param searches: as if it began now, or at its start date
    :param latest: by how many microseconds it may begin later; 0: its time is fixed
    """

    searches: Sequence[Search]
    latest: int = 0


def choose(
    waiting: Sequence[QueuedLease], kinds: Kinds, dice: random.Random, looks: windows.Looks
) -> Iterator[int | None]:
    """Yield of each, in order, in how many microseconds there is enough: 0 is now, None unknown.

    It ends before the last one when no looks are left: those that are not looked at wait on.
    """
    taken: dict[int, Timeline] = {}

    def remaining(kind: str) -> Sequence[Timeline]:
        timelines = kinds(kind)
        return [taken.get(each.unit.id, each) for each in timelines] if taken else timelines

    for one in waiting:
        cost = sum(len(kinds(each.demand.kind)) for each in one.searches) // windows.FASTER
        if not looks.spend(cost):
            return
        try:
            found = find_together(one.searches, remaining, dice)
        except NotFitting:
            yield _keep_room(one, remaining, taken, dice, looks) if one.latest else None
        else:
            yield 0
            _take(one.searches, found, remaining, taken)


def _keep_room(
    one: QueuedLease,
    kinds: Kinds,
    taken: dict[int, Timeline],
    dice: random.Random,
    looks: windows.Looks,
) -> int | None:
    delay = windows.next_room(one.searches, 0, kinds, one.latest, dice, looks)
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
