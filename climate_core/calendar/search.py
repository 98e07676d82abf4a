# SPDX-License-Identifier: Apache-2.0
"""Choose the units for what one reservation demands. Pure, but for the dice."""

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from climate_core.calendar.model import Demand, Order
from climate_core.calendar.rooms import FittingUnit, Search, UnitPick, rooms
from climate_core.calendar.timeline import Timeline
from climate_core.concurrency import check_deadline

#: Whole units that are promised within so many microseconds of each other get different lanes.
NEAR: Final = 3_600_000_000

_Chosen = Mapping[int, UnitPick]
_Shares = Iterator[tuple[FittingUnit, int]]


class TooFew(Exception):
    """There are not enough pieces.

    :ivar count: so many there are
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def find(search: Search, timelines: Sequence[Timeline], dice: random.Random) -> list[UnitPick]:
    """Choose units for one demand.

    :param timelines: of all units of the kind, in any order
    :returns: at least as many pieces as are demanded, by unit
    :raises TooFew: there are not enough, or what it has cannot stay
    :raises climate_core.exceptions.ServiceUnavailable: the caller waits no longer
    """
    check_deadline()
    demand = search.demand
    chosen = _kept(search, timelines) if search.keep else {}
    missing = demand.most - _sum(chosen)
    if missing > 0:
        found = rooms(search, timelines, dice)
        for room, pieces in list(_share(demand)(search, chosen, found, missing)):
            had = chosen.get(room.unit_id) or UnitPick(
                room.unit_id, 0, _lane(search, room.timeline)
            )
            chosen[room.unit_id] = had._replace(pieces=had.pieces + pieces)
    if _sum(chosen) < demand.least:
        raise TooFew(_sum(chosen))
    return sorted(chosen.values())


def _sum(chosen: _Chosen) -> int:
    return sum(pick.pieces for pick in chosen.values())


def _kept(search: Search, timelines: Sequence[Timeline]) -> dict[int, UnitPick]:
    """Return what stays of the reservation's own.

    What is too much is given up where there is the least of it.

    :raises TooFew: it cannot stay
    """
    too_many = _sum(search.own) - search.demand.most
    kept = {}
    for pick in sorted(search.own.values(), key=lambda pick: (pick.pieces, -pick.unit_id)):
        less = min(pick.pieces, max(0, too_many))
        too_many -= less
        if less < pick.pieces:
            kept[pick.unit_id] = pick._replace(pieces=pick.pieces - less)
    staying = {
        each.unit.id: kept[each.unit.id]
        for each in timelines
        if each.unit.id in kept and (search.firm or _stays(search, each, kept[each.unit.id]))
    }
    if len(staying) < len(kept):
        raise TooFew(_sum(staying))
    return kept


def _stays(search: Search, timeline: Timeline, pick: UnitPick) -> bool:
    begin, end, piece = search.begin, search.end, search.demand.piece
    return (
        timeline.lane(begin, end, pick.lane) == pick.lane
        and timeline.fits(begin, end, piece, pick.pieces) >= pick.pieces
    )


def _lane(search: Search, timeline: Timeline) -> int:
    own = search.own.get(timeline.unit.id)
    liked = own.lane if own else None
    if own is None and search.demand.piece is None:
        # Not the lane of what comes right before or after: it is prepared while that one runs.
        liked = timeline.lane(search.begin - NEAR, search.end + NEAR)
    lane = timeline.lane(search.begin, search.end, liked)
    assert lane is not None, 'a unit without a free lane has no room'  # nosec B101 # for mypy: it holds already
    return lane


def _share(
    demand: Demand,
) -> Callable[[Search, _Chosen, Iterator[FittingUnit], int], _Shares]:
    """Return how pieces are shared out among units."""
    if demand.one_unit:
        return _one_unit
    return _spread if demand.order == Order.SPREAD else _packed


def _limit(search: Search, chosen: _Chosen, room: FittingUnit) -> int:
    """Return how many more pieces of a unit there may be."""
    own, demand = chosen.get(room.unit_id), search.demand
    most = min(room.fits, demand.most)
    if demand.most_per_unit is not None:
        most = min(most, demand.most_per_unit)
    return most - (own.pieces if own else 0)


def _packed(
    search: Search, chosen: _Chosen, found: Iterator[FittingUnit], missing: int
) -> _Shares:
    for room in found:
        pieces = min(_limit(search, chosen, room), missing)
        if pieces > 0:
            yield room, pieces
            missing -= pieces
        if not missing:
            return


def _spread(
    search: Search, chosen: _Chosen, found: Iterator[FittingUnit], missing: int
) -> _Shares:
    """Share the pieces out one by one, each to a unit that has the fewest."""
    listed = list(found)
    queue = []
    for rank, room in enumerate(listed):
        own = chosen.get(room.unit_id)
        queue.append((own.pieces if own else 0, rank, _limit(search, chosen, room)))
    heapq.heapify(queue)
    given = [0] * len(listed)
    while missing and queue:
        pieces, rank, limit = heapq.heappop(queue)
        if given[rank] < limit:
            given[rank] += 1
            missing -= 1
            heapq.heappush(queue, (pieces + 1, rank, limit))
    yield from ((room, pieces) for room, pieces in zip(listed, given, strict=True) if pieces)


def _one_unit(
    search: Search, chosen: _Chosen, found: Iterator[FittingUnit], missing: int
) -> _Shares:
    best: tuple[FittingUnit, int] | None = None
    for room in found:
        pieces = min(_limit(search, chosen, room), missing)
        if pieces > (best[1] if best else 0) and (not chosen or room.unit_id in chosen):
            best = room, pieces
        if best and best[1] == missing:
            break
    if best:
        yield best
