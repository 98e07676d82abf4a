# SPDX-License-Identifier: Apache-2.0
"""Find until when a lease could be extended that cannot be extended as far as is asked. Pure."""

import dataclasses
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from climate_core.calendar import windows
from climate_core.calendar.model import ReservationDemand
from climate_core.calendar.moments import duration
from climate_core.calendar.rooms import Search
from climate_core.calendar.together import Kinds, NotFitting, find_together

#: Times are shown in whole seconds, and must not be shown as later than they are.
_SECOND: Final = 1_000_000


def latest_end(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    kinds: Kinds,
    dice: random.Random,
    until: int,
    looks: windows.Looks,
) -> int | None:
    """Return a later end that a lease could have, the latest that is found.

    :param searches: for the time with the end that is asked for, which is too late
    :param until: when the lease ends as it is
    :returns: None: it cannot end any later, or all looks are taken
    """
    afters = [duration(one.after) for one in wanted]
    ends: set[int] = set()
    for search, after in zip(searches, afters, strict=True):
        for each in kinds(search.demand.kind):
            starts = each.starts
            first, last = bisect_right(starts, until + after), bisect_left(starts, search.end)
            ends.update((start - after) // _SECOND * _SECOND for start in starts[first:last])

    def fits(end: int) -> bool:
        shorter = [
            dataclasses.replace(search, end=end + after)
            for search, after in zip(searches, afters, strict=True)
        ]
        try:
            find_together(shorter, kinds, dice)
        except NotFitting:
            return False
        return True

    # What fits until one time fits until all earlier ones.
    times = sorted(end for end in ends if end > until)
    cost = sum(len(kinds(each.demand.kind)) for each in searches) // windows.FASTER
    found, first, last = None, 0, len(times)
    while first < last and looks.spend(cost):
        middle = (first + last) // 2
        if fits(times[middle]):
            found, first = times[middle], middle + 1
        else:
            last = middle
    return found
