# SPDX-License-Identifier: Apache-2.0
"""Choose units: rate candidates, choose for one search, or for several searches jointly.

Pure but for the random number generator. Times are numbers
(:mod:`climate_common.microseconds`).
"""

import dataclasses
import heapq
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from climate_core.calendar.model import Demand, Order
from climate_core.calendar.timeline import Entry, Timeline, total_amounts
from climate_core.concurrency import check_deadline

#: A search takes the best of so many units, and of so many for each piece.
SAMPLE: Final = 1000
SAMPLE_OF_PIECE: Final = 10

#: The spare of a unit, what fits, and its timeline, as in :class:`FittingUnit`.
_RatedUnit = tuple[tuple[int, int], int, Timeline]


class AllocationChoice(NamedTuple):
    """Pieces of a unit."""

    unit_id: int
    pieces: int
    lane: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search for one reservation, whose own promises are not in the timelines.

    :param start: of the time that must be free
    :param own: the units that it has by now
    :param keep: whether it must have them in the end, too; else it has them if they are free
    :param firm: whether it keeps them also if they have become too small
    :param now: what is before this time is of no use to anybody
    :param scatter: how often others were faster: so many more units are drawn from
    :param contention: unit id -> number of demands of the same request that the unit satisfies,
        this one included; units that satisfy most demands are chosen last
    """

    demand: Demand
    start: int
    end: int
    own: Mapping[int, AllocationChoice] = dataclasses.field(default_factory=dict)
    keep: bool = False
    firm: bool = False
    now: int = 0
    scatter: int = 0
    contention: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Return when that time begins that is not past."""
        return max(self.start, self.now)

    @property
    def length(self) -> int:
        """Return how long that time is, past or not."""
        return self.end - self.start

    def entry(self, pick: AllocationChoice) -> Entry:
        """Return what a timeline keeps of a pick."""
        return Entry(
            self.begin, self.end, pick.lane, total_amounts(pick.pieces, self.demand.piece)
        )


def shift_search(search: Search, delay: int) -> Search:
    """Return the same search so many microseconds later."""
    return dataclasses.replace(search, start=search.start + delay, end=search.end + delay)


class Candidate(NamedTuple):
    """A unit that has room.

    :param fits: so many pieces
    :param spare: how much it has for others: pieces for shares, and the gap around the time
    """

    timeline: Timeline
    fits: int
    spare: tuple[int, int]

    @property
    def unit_id(self) -> int:
        """Return the id of the unit."""
        return self.timeline.unit.id


def find_candidates(
    search: Search, timelines: Sequence[Timeline], rng: random.Random
) -> Iterator[Candidate]:
    """Yield the units that have room and would do: its own ones, then the best of the others.

    Of very many it is the best of a part of them that begins somewhere, then the best of the next
    part: that is quick, and two searches at the same time do not take the same one.

    :param timelines: of all units of the kind
    """
    own = [each for each in timelines if each.unit.id in search.own] if search.own else []
    yield from _matching(search, _ranked(search, own, rng))
    size = max(SAMPLE, SAMPLE_OF_PIECE * search.demand.most)
    if search.contention:
        size = max(size, len(timelines))
    first = rng.randrange(len(timelines)) if timelines else 0
    for part in range(0, len(timelines), size):
        others = _slice_around(timelines, first + part, min(size, len(timelines) - part))
        if own:
            others = [each for each in others if each.unit.id not in search.own]
        good = _matching(search, _ranked(search, others, rng))
        yield from _scatter(good, search.scatter * search.demand.most, rng)


def _slice_around(timelines: Sequence[Timeline], first: int, size: int) -> Sequence[Timeline]:
    """Return so many timelines from one on; after the last one comes the first."""
    first %= len(timelines)
    return [*timelines[first : first + size], *timelines[: max(0, first + size - len(timelines))]]


def _ranked(
    search: Search, timelines: Sequence[Timeline], rng: random.Random
) -> Iterable[Candidate]:
    whole = search.demand.piece is None
    found = (
        _rate_whole_units(search, timelines)
        if whole
        else list(_rate_shared_units(search, timelines))
    )
    if search.demand.order == Order.RANDOM:
        rng.shuffle(found)
    else:
        found.sort(key=itemgetter(0), reverse=search.demand.order == Order.SPREAD)
    found.sort(key=lambda room: room[2].unit.asleep)
    if search.contention:
        found.sort(key=lambda room: search.contention.get(room[2].unit.id, 0))
    # Few of them are taken.
    return (Candidate(timeline, fits, spare) for spare, fits, timeline in found)


def _matching(search: Search, found: Iterable[Candidate]) -> Iterator[Candidate]:
    matches = search.demand.matches
    return (room for room in found if room.timeline.unit.available and matches(room.timeline.unit))


def _rate_whole_units(search: Search, timelines: Iterable[Timeline]) -> list[_RatedUnit]:
    # Without a call for each: there may be ten thousand.
    begin, end, now = search.begin, search.end, search.now
    return [
        ((1, starts - max(each.reach[index], now)), 1, each)
        for each in timelines
        if (starts := each.starts[index := bisect_right(each.reach, begin) - 1]) >= end
    ]


def _rate_shared_units(search: Search, timelines: Iterable[Timeline]) -> Iterator[_RatedUnit]:
    begin, end = search.begin, search.end
    for each in timelines:
        pieces = each.fits(begin, end, search.demand.piece)
        if pieces:
            gap = each.gap(begin, end)
            yield (pieces, gap[1] - max(gap[0], search.now) if gap else 0), pieces, each


def _scatter(found: Iterator[Candidate], ahead: int, rng: random.Random) -> Iterator[Candidate]:
    """Yield rooms in an order that is by chance, but none much earlier than it was."""
    if not ahead:
        yield from found
        return
    drawn: list[Candidate] = []
    for room in found:
        drawn.append(room)
        if len(drawn) > ahead:
            yield drawn.pop(rng.randrange(len(drawn)))
    rng.shuffle(drawn)
    yield from drawn


#: Whole units that are promised within so many microseconds of each other get different lanes.
LANE_MARGIN: Final = 3_600_000_000

_Chosen = Mapping[int, AllocationChoice]
_Shares = Iterator[tuple[Candidate, int]]


class InsufficientUnits(Exception):
    """There are not enough pieces.

    :ivar count: so many there are
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def choose_units(
    search: Search, timelines: Sequence[Timeline], rng: random.Random
) -> list[AllocationChoice]:
    """Choose units for one demand.

    :param timelines: of all units of the kind, in any order
    :returns: at least as many pieces as are demanded, by unit
    :raises TooFew: there are not enough, or what it has cannot stay
    :raises climate_core.exceptions.ServiceUnavailable: the caller waits no longer
    """
    check_deadline()
    demand = search.demand
    chosen = _retained(search, timelines) if search.keep else {}
    missing = demand.most - _count_pieces(chosen)
    if missing > 0:
        found = find_candidates(search, timelines, rng)
        for room, pieces in list(_distribution(demand)(search, chosen, found, missing)):
            had = chosen.get(room.unit_id) or AllocationChoice(
                room.unit_id, 0, _choose_lane(search, room.timeline)
            )
            chosen[room.unit_id] = had._replace(pieces=had.pieces + pieces)
    if _count_pieces(chosen) < demand.least:
        raise InsufficientUnits(_count_pieces(chosen))
    return sorted(chosen.values())


def _count_pieces(chosen: _Chosen) -> int:
    return sum(pick.pieces for pick in chosen.values())


def _retained(search: Search, timelines: Sequence[Timeline]) -> dict[int, AllocationChoice]:
    """Return what stays of the reservation's own.

    What is too much is given up where there is the least of it.

    :raises TooFew: it cannot stay
    """
    too_many = _count_pieces(search.own) - search.demand.most
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
        raise InsufficientUnits(_count_pieces(staying))
    return kept


def _stays(search: Search, timeline: Timeline, pick: AllocationChoice) -> bool:
    begin, end, piece = search.begin, search.end, search.demand.piece
    return (
        timeline.lane(begin, end, pick.lane) == pick.lane
        and timeline.fits(begin, end, piece, pick.pieces) >= pick.pieces
    )


def _choose_lane(search: Search, timeline: Timeline) -> int:
    own = search.own.get(timeline.unit.id)
    liked = own.lane if own else None
    if own is None and search.demand.piece is None:
        # Not the lane of what comes right before or after: it is prepared while that one runs.
        liked = timeline.lane(search.begin - LANE_MARGIN, search.end + LANE_MARGIN)
    lane = timeline.lane(search.begin, search.end, liked)
    assert lane is not None, 'a unit without a free lane has no room'  # nosec B101 # for mypy: it holds already
    return lane


def _distribution(
    demand: Demand,
) -> Callable[[Search, _Chosen, Iterator[Candidate], int], _Shares]:
    """Return how pieces are shared out among units."""
    if demand.one_unit:
        return _choose_one_unit
    return _spread_out if demand.order == Order.SPREAD else _pack


def _max_more_pieces(search: Search, chosen: _Chosen, room: Candidate) -> int:
    """Return how many more pieces of a unit there may be."""
    own, demand = chosen.get(room.unit_id), search.demand
    most = min(room.fits, demand.most)
    if demand.most_per_unit is not None:
        most = min(most, demand.most_per_unit)
    return most - (own.pieces if own else 0)


def _pack(search: Search, chosen: _Chosen, found: Iterator[Candidate], missing: int) -> _Shares:
    for room in found:
        pieces = min(_max_more_pieces(search, chosen, room), missing)
        if pieces > 0:
            yield room, pieces
            missing -= pieces
        if not missing:
            return


def _spread_out(
    search: Search, chosen: _Chosen, found: Iterator[Candidate], missing: int
) -> _Shares:
    """Share the pieces out one by one, each to a unit that has the fewest."""
    listed = list(found)
    queue = []
    for rank, room in enumerate(listed):
        own = chosen.get(room.unit_id)
        queue.append((own.pieces if own else 0, rank, _max_more_pieces(search, chosen, room)))
    heapq.heapify(queue)
    given = [0] * len(listed)
    while missing and queue:
        pieces, rank, limit = heapq.heappop(queue)
        if given[rank] < limit:
            given[rank] += 1
            missing -= 1
            heapq.heappush(queue, (pieces + 1, rank, limit))
    yield from ((room, pieces) for room, pieces in zip(listed, given, strict=True) if pieces)


def _choose_one_unit(
    search: Search, chosen: _Chosen, found: Iterator[Candidate], missing: int
) -> _Shares:
    best: tuple[Candidate, int] | None = None
    for room in found:
        pieces = min(_max_more_pieces(search, chosen, room), missing)
        if pieces > (best[1] if best else 0) and (not chosen or room.unit_id in chosen):
            best = room, pieces
        if best and best[1] == missing:
            break
    if best:
        yield best


#: Returns the timelines of all units of a kind.
TimelineSource = Callable[[str], Sequence[Timeline]]
#: How many orders are tried in which searches choose.
MAX_ORDERS: Final = 8


class InsufficientCapacity(Exception):
    """Not enough is free for one of the searches.

    :ivar index: which one
    :ivar count: how many pieces there are for it
    """

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index, count)
        self.index = index
        self.count = count


def choose_units_jointly(
    searches: Sequence[Search], timelines_of: TimelineSource, rng: random.Random
) -> list[list[AllocationChoice]]:
    """Choose units for each of the searches.

    Each takes what no other one could have before it takes the rest: of whole units for two
    searches that finds whatever there is. What has too little is tried again as the first one,
    :data:`TRIES` times at most: the time that it takes is that of so many searches.

    :raises NotFitting: not enough is free; nothing is chosen
    """
    if len(searches) < 2:
        return [_choose(0, each, timelines_of, {}, rng) for each in searches]
    order = list(range(len(searches)))
    names = {each.demand.kind for each in searches}
    contention = {kind: _contention(kind, searches, timelines_of) for kind in names}
    contested = [
        dataclasses.replace(each, contention=contention[each.demand.kind]) for each in searches
    ]
    missing: InsufficientCapacity | None = None
    for _ in searches[:MAX_ORDERS]:
        try:
            return _in_order(contested, order, timelines_of, rng)
        except InsufficientCapacity as exc:
            # The refusal of the first search is the one that a user understands.
            missing = missing or exc
            order.remove(exc.index)
            order.insert(0, exc.index)
    assert missing is not None, 'there are searches'  # nosec B101 # for mypy: it holds already
    raise missing


def find_missing(
    searches: Sequence[Search], timelines_of: TimelineSource, rng: random.Random
) -> InsufficientCapacity | None:
    """Return for which of the searches capacity is insufficient; None for none."""
    try:
        choose_units_jointly(searches, timelines_of, rng)
    except InsufficientCapacity as exc:
        return exc
    return None


def _contention(
    kind: str, searches: Sequence[Search], timelines_of: TimelineSource
) -> dict[int, int]:
    """Return for how many of the searches each unit of a kind would do; for one, nothing."""
    demands = [each.demand for each in searches if each.demand.kind == kind]
    if len(demands) < 2:
        return {}
    units = [each.unit for each in timelines_of(kind)]
    return {unit.id: sum(each.matches(unit) for each in demands) for unit in units}


def _in_order(
    searches: Sequence[Search],
    order: Sequence[int],
    timelines_of: TimelineSource,
    rng: random.Random,
) -> list[list[AllocationChoice]]:
    taken: dict[int, Timeline] = {}
    found: dict[int, list[AllocationChoice]] = {}
    for index in order:
        search = searches[index]
        kept = sum(pick.pieces for pick in search.own.values()) if search.keep else 0
        enough = max(search.demand.least, min(search.demand.most, kept))
        demand = dataclasses.replace(search.demand, most=enough)
        least = dataclasses.replace(search, demand=demand)
        found[index] = _choose(index, least, timelines_of, taken, rng)
        _occupy(search, found[index], timelines_of, taken)
    # All searches have their least number by now; those that may have more share what is left.
    for index in order:
        search, picks = searches[index], found[index]
        if sum(pick.pieces for pick in picks) < search.demand.most:
            _vacate(search, picks, taken)
            own = {pick.unit_id: pick for pick in picks}
            more = dataclasses.replace(search, own=own, keep=True, contention={})
            found[index] = _choose(index, more, timelines_of, taken, rng)
            _occupy(search, found[index], timelines_of, taken)
    return [found[index] for index in range(len(searches))]


def _choose(
    index: int,
    search: Search,
    timelines_of: TimelineSource,
    taken: dict[int, Timeline],
    rng: random.Random,
) -> list[AllocationChoice]:
    try:
        return choose_units(search, _current_timelines(search, timelines_of, taken), rng)
    except InsufficientUnits as exc:
        raise InsufficientCapacity(index, exc.count) from exc


def _current_timelines(
    search: Search, timelines_of: TimelineSource, taken: dict[int, Timeline]
) -> Sequence[Timeline]:
    timelines = timelines_of(search.demand.kind)
    return [taken.get(each.unit.id, each) for each in timelines] if taken else timelines


def _occupy(
    search: Search,
    picks: Sequence[AllocationChoice],
    timelines_of: TimelineSource,
    taken: dict[int, Timeline],
) -> None:
    by_id = {pick.unit_id: search.entry(pick) for pick in picks}
    for each in _current_timelines(search, timelines_of, taken):
        entry = by_id.get(each.unit.id)
        if entry is not None:
            taken[each.unit.id] = each.changed(each.unit, added=[entry])


def _vacate(search: Search, picks: Sequence[AllocationChoice], taken: dict[int, Timeline]) -> None:
    for pick in picks:
        each = taken[pick.unit_id]
        taken[pick.unit_id] = each.changed(each.unit, without=[search.entry(pick)])
