# SPDX-License-Identifier: Apache-2.0
"""Choose the units for what is demanded. Pure, but for the dice.

Times are numbers (:mod:`climate_core.calendar.moments`).
"""

import dataclasses
import heapq
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from climate_core.calendar.model import Demand, Order
from climate_core.calendar.timeline import Entry, Timeline, amounts


class Pick(NamedTuple):
    """Pieces of a unit."""

    unit_id: int
    pieces: int
    lane: int


class Room(NamedTuple):
    """A unit that has room.

    :param fits: so many pieces
    :param spare: how much it is worth to others: a gap for whole units, pieces for shares
    """

    timeline: Timeline
    fits: int
    spare: tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What one reservation looks for. Its own promises are not in the timelines.

    :param start: of the time that must be free
    :param own: the units that it has by now
    :param keep: whether it must have them in the end, too; else it has them if they are free
    :param now: what is before this time is of no use to anybody
    :param scatter: how often others were faster: so many more units are drawn from
    """

    demand: Demand
    start: int
    end: int
    own: Mapping[int, Pick] = dataclasses.field(default_factory=dict)
    keep: bool = False
    now: int = 0
    scatter: int = 0

    @property
    def begin(self) -> int:
        """Return when that time begins that is not past."""
        return max(self.start, self.now)

    def entry(self, pick: Pick) -> Entry:
        """Return what a timeline keeps of a pick."""
        return Entry(self.begin, self.end, pick.lane, amounts(pick.pieces, self.demand.piece))


def find(search: Search, timelines: Sequence[Timeline], dice: random.Random) -> list[Pick] | None:
    """Choose units for one demand.

    :param timelines: of all units of the kind, in any order
    :returns: at least as many pieces as are demanded, by unit; None if there are not enough
    """
    demand = search.demand
    kept = _kept(search, timelines) if search.keep else []
    if kept is None:
        return None
    missing = demand.most - sum(pick.pieces for pick in kept)
    if missing <= 0:
        return kept
    chosen = {pick.unit_id: pick for pick in kept}
    rooms = _ordered(search, chosen, rooms_of(search, timelines, dice), dice)
    share = _one_unit if demand.one_unit else _spread if _spreads(demand) else _packed
    for room, pieces in share(search, chosen, rooms):
        unit_id = room.timeline.unit.id
        lane = _lane(search, room.timeline)
        if unit_id in chosen:
            pieces, lane = pieces + chosen[unit_id].pieces, chosen[unit_id].lane
        chosen[unit_id] = Pick(unit_id, pieces, lane)
    if sum(pick.pieces for pick in chosen.values()) < demand.least:
        return None
    return sorted(chosen.values())


def rooms_of(search: Search, timelines: Sequence[Timeline], dice: random.Random) -> Iterable[Room]:
    """Return the units that have room, whatever their properties are."""
    # From a unit by chance on, since equal ones keep their order: two searches at the same time
    # shall not take the same one.
    first = dice.randrange(len(timelines)) if timelines else 0
    turned = [*timelines[first:], *timelines[:first]]
    begin, end = search.begin, search.end
    if search.demand.piece is None:
        return [
            Room(each, 1, (_gap(each.reach[index], each.starts[index], search.now), 0))
            for each in turned
            if each.starts[index := bisect_right(each.reach, begin) - 1] >= end
        ]
    return _shared_rooms(search, turned)


def count(search: Search, timelines: Sequence[Timeline], dice: random.Random) -> int:
    """Tell how many pieces there would be, however many are demanded at least."""
    any_number = dataclasses.replace(search.demand, least=0)
    found = find(dataclasses.replace(search, demand=any_number), timelines, dice)
    return sum(pick.pieces for pick in found or ())


def _gap(begin: int, end: int, now: int) -> int:
    return end - (begin if begin > now else now)


def _shared_rooms(search: Search, timelines: Iterable[Timeline]) -> Iterator[Room]:
    for each in timelines:
        pieces = each.fits(search.begin, search.end, search.demand.piece)
        if pieces:
            around = each.gap(search.begin, search.end)
            gap = _gap(*around, search.now) if around else 0
            yield Room(each, pieces, (pieces, gap))


def _kept(search: Search, timelines: Sequence[Timeline]) -> list[Pick] | None:
    """Return what stays of the reservation's own; None if it cannot stay.

    What is too much is given up where there is the least of it.
    """
    demand = search.demand
    by_id = {each.unit.id: each for each in timelines if each.unit.id in search.own}
    if len(by_id) < len(search.own):
        return None
    too_many = sum(pick.pieces for pick in search.own.values()) - demand.most
    kept = []
    for pick in sorted(search.own.values(), key=lambda pick: (pick.pieces, -pick.unit_id)):
        less = min(pick.pieces, max(0, too_many))
        too_many -= less
        if less < pick.pieces:
            kept.append(pick._replace(pieces=pick.pieces - less))
    for pick in kept:
        each = by_id[pick.unit_id]
        lane = each.lane(search.begin, search.end, pick.lane)
        room = each.fits(search.begin, search.end, demand.piece, pick.pieces)
        if lane != pick.lane or room < pick.pieces:
            return None
    return sorted(kept)


def _ordered(
    search: Search, chosen: Mapping[int, Pick], rooms: Iterable[Room], dice: random.Random
) -> Iterator[Room]:
    """Yield the rooms of units that would do, the best first."""
    demand, own = search.demand, search.own
    whole = demand.piece is None
    ordered = [room for room in rooms if not (whole and room.timeline.unit.id in chosen)]
    if demand.order == Order.RANDOM:
        dice.shuffle(ordered)
    else:
        ordered.sort(key=_spare, reverse=demand.order == Order.SPREAD)
    if own:
        ordered.sort(key=lambda room: room.timeline.unit.id not in own)
    good = (
        room
        for room in ordered
        if room.timeline.unit.available and demand.matches(room.timeline.unit)
    )
    return _scattered(good, search.scatter * demand.most, dice) if search.scatter else good


def _spare(room: Room) -> tuple[int, int]:
    return room[2]


def _scattered(rooms: Iterator[Room], ahead: int, dice: random.Random) -> Iterator[Room]:
    """Yield rooms in an order that is by chance, but none much later than before."""
    drawn: list[Room] = []
    for room in rooms:
        drawn.append(room)
        if len(drawn) > ahead:
            yield drawn.pop(dice.randrange(len(drawn)))
    dice.shuffle(drawn)
    yield from drawn


def _lane(search: Search, timeline: Timeline) -> int:
    own = search.own.get(timeline.unit.id)
    lane = timeline.lane(search.begin, search.end, own.lane if own else None)
    assert lane is not None, 'a unit without a free lane has no room'
    return lane


_Shares = Iterator[tuple[Room, int]]


def _spreads(demand: Demand) -> bool:
    return demand.order == Order.SPREAD and demand.piece is not None


def _limit(search: Search, chosen: Mapping[int, Pick], room: Room) -> int:
    """Return how many more pieces of a unit there may be."""
    own, demand = chosen.get(room.timeline.unit.id), search.demand
    most = min(room.fits, demand.most)
    if demand.most_per_unit is not None:
        most = min(most, demand.most_per_unit)
    return most - (own.pieces if own else 0)


def _packed(search: Search, chosen: Mapping[int, Pick], rooms: Iterator[Room]) -> _Shares:
    missing = search.demand.most - sum(pick.pieces for pick in chosen.values())
    for room in rooms:
        pieces = min(_limit(search, chosen, room), missing)
        if pieces > 0:
            yield room, pieces
            missing -= pieces
        if not missing:
            return


def _spread(search: Search, chosen: Mapping[int, Pick], rooms: Iterator[Room]) -> _Shares:
    """Share the pieces out one by one, each to a unit that has the fewest."""
    missing = search.demand.most - sum(pick.pieces for pick in chosen.values())
    queue: list[tuple[int, int, int]] = []
    listed = list(rooms)
    for rank, room in enumerate(listed):
        own = chosen.get(room.timeline.unit.id)
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


def _one_unit(search: Search, chosen: Mapping[int, Pick], rooms: Iterator[Room]) -> _Shares:
    best: tuple[Room, int] | None = None
    for room in rooms:
        if chosen and room.timeline.unit.id not in chosen:
            continue
        pieces = _limit(search, chosen, room)
        if pieces > (best[1] if best else 0):
            best = room, pieces
        if pieces == search.demand.most:
            break
    if best:
        yield best
