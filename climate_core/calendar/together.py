# SPDX-License-Identifier: Apache-2.0
"""Choose the units for all demands of a request, none of which takes what another one has."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Final

from climate_core.calendar.rooms import Search, UnitPick
from climate_core.calendar.search import TooFew, find
from climate_core.calendar.timeline import Timeline

#: Returns the timelines of all units of a kind.
Kinds = Callable[[str], Sequence[Timeline]]
#: How many orders are tried in which searches choose.
TRIES: Final = 8


class NotFitting(Exception):
    """Not enough is free for one of the searches.

    :ivar index: which one
    :ivar count: how many pieces there are for it
    """

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index, count)
        self.index = index
        self.count = count


def find_together(
    searches: Sequence[Search], kinds: Kinds, dice: random.Random
) -> list[list[UnitPick]]:
    """Choose units for each of the searches.

    Each takes what no other one could have before it takes the rest: of whole units for two
    searches that finds whatever there is. What has too little is tried again as the first one,
    :data:`TRIES` times at most: the time that it takes is that of so many searches.

    :raises NotFitting: not enough is free; nothing is chosen
    """
    if len(searches) < 2:
        return [_find(0, each, kinds, {}, dice) for each in searches]
    order = list(range(len(searches)))
    names = {each.demand.kind for each in searches}
    rivals = {kind: _rivals(kind, searches, kinds) for kind in names}
    contested = [dataclasses.replace(each, rivals=rivals[each.demand.kind]) for each in searches]
    missing: NotFitting | None = None
    for _ in searches[:TRIES]:
        try:
            return _in_order(contested, order, kinds, dice)
        except NotFitting as exc:
            # The refusal of the first search is the one that a user understands.
            missing = missing or exc
            order.remove(exc.index)
            order.insert(0, exc.index)
    assert missing is not None, 'there are searches'  # nosec B101 # for mypy: it holds already
    raise missing


def _rivals(kind: str, searches: Sequence[Search], kinds: Kinds) -> dict[int, int]:
    """Return for how many of the searches each unit of a kind would do; for one, nothing."""
    demands = [each.demand for each in searches if each.demand.kind == kind]
    if len(demands) < 2:
        return {}
    units = [each.unit for each in kinds(kind)]
    return {unit.id: sum(each.matches(unit) for each in demands) for unit in units}


def _in_order(
    searches: Sequence[Search], order: Sequence[int], kinds: Kinds, dice: random.Random
) -> list[list[UnitPick]]:
    taken: dict[int, Timeline] = {}
    found: dict[int, list[UnitPick]] = {}
    for index in order:
        search = searches[index]
        kept = sum(pick.pieces for pick in search.own.values()) if search.keep else 0
        enough = max(search.demand.least, min(search.demand.most, kept))
        demand = dataclasses.replace(search.demand, most=enough)
        least = dataclasses.replace(search, demand=demand)
        found[index] = _find(index, least, kinds, taken, dice)
        _take(search, found[index], kinds, taken)
    # All searches have their least number by now; those that may have more share what is left.
    for index in order:
        search, picks = searches[index], found[index]
        if sum(pick.pieces for pick in picks) < search.demand.most:
            _give_back(search, picks, taken)
            own = {pick.unit_id: pick for pick in picks}
            more = dataclasses.replace(search, own=own, keep=True, rivals={})
            found[index] = _find(index, more, kinds, taken, dice)
            _take(search, found[index], kinds, taken)
    return [found[index] for index in range(len(searches))]


def _find(
    index: int,
    search: Search,
    kinds: Kinds,
    taken: dict[int, Timeline],
    dice: random.Random,
) -> list[UnitPick]:
    try:
        return find(search, _of(search, kinds, taken), dice)
    except TooFew as exc:
        raise NotFitting(index, exc.count) from exc


def _of(search: Search, kinds: Kinds, taken: dict[int, Timeline]) -> Sequence[Timeline]:
    timelines = kinds(search.demand.kind)
    return [taken.get(each.unit.id, each) for each in timelines] if taken else timelines


def _take(
    search: Search, picks: Sequence[UnitPick], kinds: Kinds, taken: dict[int, Timeline]
) -> None:
    by_id = {pick.unit_id: search.entry(pick) for pick in picks}
    for each in _of(search, kinds, taken):
        entry = by_id.get(each.unit.id)
        if entry is not None:
            taken[each.unit.id] = each.changed(each.unit, added=[entry])


def _give_back(search: Search, picks: Sequence[UnitPick], taken: dict[int, Timeline]) -> None:
    for pick in picks:
        each = taken[pick.unit_id]
        taken[pick.unit_id] = each.changed(each.unit, without=[search.entry(pick)])
