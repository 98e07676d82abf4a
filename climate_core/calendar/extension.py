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


def explain(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    kinds: Kinds,
    dice: random.Random,
    until: int,
    looks: windows.Looks,
    refused: int,
) -> tuple[str, list[str]]:
    """Return until when a lease, and each part of it that is in the way, could be extended.

    Parameters as of :func:`latest_end`.

    :param refused: the search that found too little
    :returns: sentences, and the ids of the reservations that cannot be extended so far
    """
    # The dice may have found now what they did not find before.
    found = _in_the_way(searches, kinds, dice) or [refused]
    parts = []
    for index in found:
        one, search = wanted[index], searches[index]
        latest = latest_end([one], [search], kinds, dice, until, looks)
        names = named.taken(search, kinds, own=True)
        noun = one.noun.removesuffix('s') if len(names) == 1 else one.noun
        what = f'{noun} {words.listed(names)}' if names else noun
        longer = 'not be kept any longer' if latest is None else f'be kept until {text(latest)}'
        parts.append(f'{what} (reservation {one.reservation_id}) could {longer}')
    end = text(searches[found[0]].end - duration(wanted[found[0]].after))
    told = f'This lease cannot be extended until {end}: {"; ".join(parts)}.'
    whole = latest_end(wanted, searches, kinds, dice, until, looks)
    if whole is not None:
        told += f' This lease could be extended until {text(whole)}.'
    return told, [wanted[index].reservation_id for index in found]


def _in_the_way(searches: Sequence[Search], kinds: Kinds, dice: random.Random) -> list[int]:
    """Return which of the searches there must not be for the others to find enough."""
    found: list[int] = []
    left = list(range(len(searches)))
    while left:
        try:
            find_together([searches[index] for index in left], kinds, dice)
        except NotFitting as exc:
            found.append(left.pop(exc.index))
        else:
            break
    return sorted(found)


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
