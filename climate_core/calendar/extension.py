# SPDX-License-Identifier: Apache-2.0
"""Explain until when a lease could be extended that cannot be extended so far. Pure."""

import dataclasses
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from climate_common import words
from climate_core.calendar import named, windows
from climate_core.calendar.model import ReservationDemand
from climate_core.calendar.moments import duration, text
from climate_core.calendar.rooms import Search
from climate_core.calendar.together import Kinds, NotFitting, find_together

#: Times are shown in whole seconds, and must not be shown as later than they are.
_SECOND: Final = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Extension:
    """Search later ends of a lease.

    :param until: when the lease ends as it is
    :param budget: how much may still be searched
    """

    kinds: Kinds
    dice: random.Random
    until: int
    budget: windows.SearchBudget

    def explain(
        self, wanted: Sequence[ReservationDemand], searches: Sequence[Search], refused: int
    ) -> tuple[str, list[str]]:
        """Return until when a lease, and each part of it that is in the way, could be extended.

        :param searches: for the time with the end that is asked for, which is too late
        :param refused: the search that found too little
        :returns: sentences, and the ids of the reservations that cannot be extended so far
        """
        # The dice may have found now what they did not find before.
        found = self._in_the_way(searches) or [refused]
        parts = []
        for index in found:
            one, search = wanted[index], searches[index]
            latest = self.latest_end([one], [search])
            names = named.taken(search, self.kinds, own=True)
            noun = one.noun.removesuffix('s') if len(names) == 1 else one.noun
            what = f'{noun} {words.listed(names)}' if names else noun
            longer = 'not be kept any longer'
            if latest is not None:
                longer = f'be kept until {text(latest)}'
            parts.append(f'{what} (reservation {one.reservation_id}) could {longer}')
        end = text(searches[found[0]].end - duration(wanted[found[0]].after))
        told = f'This lease cannot be extended until {end}: {"; ".join(parts)}.'
        whole = self.latest_end(wanted, searches)
        if whole is not None:
            told += f' This lease could be extended until {text(whole)}.'
        return told, [wanted[index].reservation_id for index in found]

    def _in_the_way(self, searches: Sequence[Search]) -> list[int]:
        """Return which of the searches there must not be for the others to find enough."""
        found: list[int] = []
        left = list(range(len(searches)))
        while left:
            missing = self._missing([searches[index] for index in left])
            if missing is None:
                break
            found.append(left.pop(missing))
        return sorted(found)

    def latest_end(
        self, wanted: Sequence[ReservationDemand], searches: Sequence[Search]
    ) -> int | None:
        """Return a later end that a lease could have, the latest that is found.

        :param searches: for the time with the end that is asked for, which is too late
        :returns: None: it cannot end any later, or all looks are taken
        """
        afters = [duration(one.after) for one in wanted]
        ends: set[int] = set()
        for search, after in zip(searches, afters, strict=True):
            for each in self.kinds(search.demand.kind):
                first = bisect_right(each.starts, self.until + after)
                starts = each.starts[first : bisect_left(each.starts, search.end)]
                ends.update((start - after) // _SECOND * _SECOND for start in starts)
        # What fits until one time fits until all earlier ones.
        times = sorted(end for end in ends if end > self.until)
        cost = sum(len(self.kinds(each.demand.kind)) for each in searches) // windows.FASTER
        found, first, last = None, 0, len(times)
        while first < last and self.budget.spend(cost):
            middle = (first + last) // 2
            shorter = [
                dataclasses.replace(search, end=times[middle] + after)
                for search, after in zip(searches, afters, strict=True)
            ]
            if self._missing(shorter) is None:
                found, first = times[middle], middle + 1
            else:
                last = middle
        return found

    def _missing(self, searches: Sequence[Search]) -> int | None:
        """Return which of the searches finds too little; None if all find enough."""
        try:
            find_together(searches, self.kinds, self.dice)
        except NotFitting as exc:
            return exc.index
        return None
