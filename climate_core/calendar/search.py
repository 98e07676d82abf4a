# SPDX-License-Identifier: Apache-2.0
"""Choose units: rate candidates, choose for one search, or for several searches jointly.

Pure but for the random number generator. Times are numbers
(:mod:`climate_common.dates`).
"""

import dataclasses
import heapq
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple, Self

from climate_common.dates import delta_to_microseconds, to_microseconds
from climate_core.calendar.model import Demand, Order
from climate_core.calendar.unit_timeline import Timeline, entry_of
from climate_core.concurrency import check_deadline
from climate_core.lease.model import Allocation

#: A search takes the best of this number of units, and of this number for each piece.
SAMPLE: Final = 1000
SAMPLE_OF_PIECE: Final = 10
#: A search through this number of units takes as long as one check of a unit.
_UNITS_PER_CHECK: Final = 4

#: The timelines of all units, by kind.
Timelines = Mapping[str, Sequence[Timeline]]
#: The spare of a unit, what fits, and its timeline, as in :class:`Candidate`.
_RatedUnit = tuple[tuple[int, int], int, Timeline]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search for one reservation, whose own allocations are not in the timelines.

    :param start: of the time that must be free
    :param own: the units that the reservation has
    :param keep: whether it must keep these units; else it prefers them if they are free
    :param firm: whether it keeps units that became too small, too
    :param now: no unit can be allocated before this time
    :param scatter: number of lost races: the choice is drawn from that many times more units
    :param contention: unit id -> number of demands of the same request that the unit satisfies,
        this one included; units that satisfy most demands are chosen last
    """

    demand: Demand
    start: int
    end: int
    own: Mapping[int, Allocation] = dataclasses.field(default_factory=dict)
    keep: bool = False
    firm: bool = False
    now: int = 0
    scatter: int = 0
    contention: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Return the start, but not before now."""
        return max(self.start, self.now)

    @property
    def length(self) -> int:
        """Return the duration, past or not."""
        return self.end - self.start

    def allocation(self, unit_id: int, pieces: int, lane: int) -> Allocation:
        """Return an allocation of a unit for the time of the search."""
        demand = self.demand
        return Allocation(
            unit_id, demand.reservation_id, self.begin, self.end, lane, pieces, demand.piece
        )


def searches_for(
    now: int, demands: Sequence[Demand], start: datetime, end: datetime
) -> list[Search]:
    """Return the search of each demand, with the time that cleans its units.

    :param start: of the lease
    :param now: the time from which units can be allocated
    """
    return [
        Search(
            demand=demand,
            start=to_microseconds(start),
            end=to_microseconds(end) + delta_to_microseconds(demand.after),
            now=now,
        )
        for demand in demands
    ]


class Candidate(NamedTuple):
    """A unit with free capacity.

    :param fits: number of pieces that fit
    :param spare: what it has left: pieces of shares, and the gap around the time
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
    """Yield the units that satisfy a search: first the units it has, then the best of the rest.

    Of very many units the best of a random part come first, then the best of the next part. That
    is quick, and concurrent searches choose different units.

    :param timelines: of all units of the kind
    """
    own = [each for each in timelines if each.unit.id in search.own] if search.own else []
    yield from _matching(search, _ranked(search, own, rng))
    size = max(SAMPLE, SAMPLE_OF_PIECE * search.demand.max_pieces)
    if search.contention:
        size = max(size, len(timelines))
    first = rng.randrange(len(timelines)) if timelines else 0
    for part in range(0, len(timelines), size):
        others = _slice_around(timelines, first + part, min(size, len(timelines) - part))
        if own:
            others = [each for each in others if each.unit.id not in search.own]
        good = _matching(search, _ranked(search, others, rng))
        yield from _scatter(good, search.scatter * search.demand.max_pieces, rng)


def _slice_around(timelines: Sequence[Timeline], first: int, size: int) -> Sequence[Timeline]:
    """Return a number of timelines from a place on; after the last timeline comes the first."""
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
    found.sort(key=lambda candidate: candidate[2].unit.asleep)
    if search.contention:
        found.sort(key=lambda candidate: search.contention.get(candidate[2].unit.id, 0))
    # A generator, since few candidates are used.
    return (Candidate(timeline, fits, spare) for spare, fits, timeline in found)


def _matching(search: Search, found: Iterable[Candidate]) -> Iterator[Candidate]:
    matches = search.demand.matches
    return (
        candidate
        for candidate in found
        if candidate.timeline.unit.available and matches(candidate.timeline.unit)
    )


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
    """Yield candidates in random order, but none much earlier than before."""
    if not ahead:
        yield from found
        return
    drawn: list[Candidate] = []
    for candidate in found:
        drawn.append(candidate)
        if len(drawn) > ahead:
            yield drawn.pop(rng.randrange(len(drawn)))
    rng.shuffle(drawn)
    yield from drawn


#: Allocations of a whole unit within this number of microseconds get different lanes.
LANE_MARGIN: Final = 3_600_000_000

_Choices = Mapping[int, Allocation]
_Shares = Iterator[tuple[Candidate, int]]


class InsufficientCapacity(Exception):
    """Capacity is insufficient for a search.

    :ivar index: the place of the search among searches for a joint choice
    :ivar count: number of pieces that are free for it
    """

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index, count)
        self.index = index
        self.count = count


def choose_units(
    search: Search, timelines: Sequence[Timeline], rng: random.Random
) -> list[Allocation]:
    """Choose units for one search.

    :param timelines: of all units of the kind, in any order
    :returns: at least the demanded number of pieces, by unit
    :raises InsufficientCapacity: too few are free, or the search cannot keep what it has
    :raises climate_core.exceptions.ServiceUnavailable: the deadline of the caller has passed
    """
    check_deadline()
    demand = search.demand
    chosen = _retained(search, timelines) if search.keep else {}
    missing = demand.max_pieces - _count_pieces(chosen)
    if missing > 0:
        candidates = find_candidates(search, timelines, rng)
        distribute = _spread_out if demand.order == Order.SPREAD else _pack
        if demand.single_unit:
            distribute = _choose_one_unit
        for candidate, pieces in list(distribute(search, chosen, candidates, missing)):
            unit_id = candidate.unit_id
            had = chosen.get(unit_id)
            lane = had.lane if had else _choose_lane(search, candidate.timeline)
            more = pieces + (had.pieces if had else 0)
            chosen[unit_id] = search.allocation(unit_id, more, lane)
    if _count_pieces(chosen) < demand.min_pieces:
        raise InsufficientCapacity(0, _count_pieces(chosen))
    return sorted(chosen.values())


def _count_pieces(chosen: _Choices) -> int:
    return sum(choice.pieces for choice in chosen.values())


def _retained(search: Search, timelines: Sequence[Timeline]) -> dict[int, Allocation]:
    """Return what the reservation keeps of its units.

    Surplus pieces are released first from the units that have the fewest.

    :raises InsufficientCapacity: it cannot keep them
    """
    too_many = _count_pieces(search.own) - search.demand.max_pieces
    kept = {}
    for choice in sorted(search.own.values(), key=lambda choice: (choice.pieces, -choice.unit_id)):
        less = min(choice.pieces, max(0, too_many))
        too_many -= less
        if less < choice.pieces:
            kept[choice.unit_id] = search.allocation(
                choice.unit_id, choice.pieces - less, choice.lane
            )
    staying = {
        each.unit.id: kept[each.unit.id]
        for each in timelines
        if each.unit.id in kept and (search.firm or _stays(search, each, kept[each.unit.id]))
    }
    if len(staying) < len(kept):
        raise InsufficientCapacity(0, _count_pieces(staying))
    return kept


def _stays(search: Search, timeline: Timeline, choice: Allocation) -> bool:
    begin, end, piece = search.begin, search.end, search.demand.piece
    return (
        timeline.find_lane(begin, end, choice.lane) == choice.lane
        and timeline.fits(begin, end, piece, choice.pieces) >= choice.pieces
    )


def _choose_lane(search: Search, timeline: Timeline) -> int:
    own = search.own.get(timeline.unit.id)
    liked = own.lane if own else None
    if own is None and search.demand.piece is None:
        # Not the lane of the allocation right before or after: that runs during the preparation.
        liked = timeline.find_lane(search.begin - LANE_MARGIN, search.end + LANE_MARGIN)
    lane = timeline.find_lane(search.begin, search.end, liked)
    assert lane is not None, 'a unit without a free lane is no candidate'  # nosec B101 # for mypy: it holds already
    return lane


def _max_more_pieces(search: Search, chosen: _Choices, candidate: Candidate) -> int:
    """Return how many more pieces of a unit may be chosen."""
    own, demand = chosen.get(candidate.unit_id), search.demand
    most = min(candidate.fits, demand.max_pieces)
    if demand.max_per_unit is not None:
        most = min(most, demand.max_per_unit)
    return most - (own.pieces if own else 0)


def _pack(
    search: Search, chosen: _Choices, candidates: Iterator[Candidate], missing: int
) -> _Shares:
    for candidate in candidates:
        pieces = min(_max_more_pieces(search, chosen, candidate), missing)
        if pieces > 0:
            yield candidate, pieces
            missing -= pieces
        if not missing:
            return


def _spread_out(
    search: Search, chosen: _Choices, candidates: Iterator[Candidate], missing: int
) -> _Shares:
    """Distribute the pieces one by one, always to a unit that has the fewest."""
    listed = list(candidates)
    queue = []
    for rank, candidate in enumerate(listed):
        own = chosen.get(candidate.unit_id)
        queue.append((own.pieces if own else 0, rank, _max_more_pieces(search, chosen, candidate)))
    heapq.heapify(queue)
    given = [0] * len(listed)
    while missing and queue:
        pieces, rank, limit = heapq.heappop(queue)
        if given[rank] < limit:
            given[rank] += 1
            missing -= 1
            heapq.heappush(queue, (pieces + 1, rank, limit))
    yield from (
        (candidate, pieces) for candidate, pieces in zip(listed, given, strict=True) if pieces
    )


def _choose_one_unit(
    search: Search, chosen: _Choices, candidates: Iterator[Candidate], missing: int
) -> _Shares:
    best: tuple[Candidate, int] | None = None
    for candidate in candidates:
        pieces = min(_max_more_pieces(search, chosen, candidate), missing)
        if pieces > (best[1] if best else 0) and (not chosen or candidate.unit_id in chosen):
            best = candidate, pieces
        if best and best[1] == missing:
            break
    if best:
        yield best


#: Maximum number of orders in which searches choose.
MAX_ORDERS: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class JointSearch:
    """The searches of a request, none of which takes a unit that another one chose.

    :param by_kind: the timelines in which all of them search
    """

    searches: Sequence[Search]
    by_kind: Timelines
    rng: random.Random

    @property
    def cost(self) -> int:
        """Return what a choice costs of a budget: it checks all units, but quickly."""
        units = sum(len(self.timelines_of(search)) for search in self.searches)
        return units // _UNITS_PER_CHECK

    def timelines_of(self, search: Search) -> Sequence[Timeline]:
        """Return the timelines in which one of the searches searches."""
        return self.by_kind.get(search.demand.kind, ())

    def delayed(self, delay: int) -> Self:
        """Return the same searches after a delay in microseconds."""
        later = [
            dataclasses.replace(search, start=search.start + delay, end=search.end + delay)
            for search in self.searches
        ]
        return dataclasses.replace(self, searches=later)

    def choose(self) -> list[list[Allocation]]:
        """Choose units for each search.

        A search prefers units that no other search can use: for two searches for whole units that
        finds any solution. A search that lacks capacity goes first in the next order, of at most
        :data:`MAX_ORDERS`.

        :raises InsufficientCapacity: nothing is chosen
        """
        searches = self.searches
        if len(searches) < 2:
            return [self._choose(0, search, self.by_kind) for search in searches]
        order = list(range(len(searches)))
        kinds = {search.demand.kind for search in searches}
        contention = {kind: self._count_contention(kind) for kind in kinds}
        contested = [
            dataclasses.replace(search, contention=contention[search.demand.kind])
            for search in searches
        ]
        missing: InsufficientCapacity | None = None
        for _ in searches[:MAX_ORDERS]:
            try:
                return self._choose_in_order(contested, order)
            except InsufficientCapacity as exc:
                # Users understand the error of the first order.
                missing = missing or exc
                order.remove(exc.index)
                order.insert(0, exc.index)
        assert missing is not None, 'there are searches'  # nosec B101 # for mypy: it holds already
        raise missing

    def find_missing(self) -> InsufficientCapacity | None:
        """Return for which of the searches capacity is insufficient; None for none."""
        try:
            self.choose()
        except InsufficientCapacity as exc:
            return exc
        return None

    def _count_contention(self, kind: str) -> dict[int, int]:
        """Return the number of searches that each unit of a kind satisfies; nothing for one."""
        demands = [search.demand for search in self.searches if search.demand.kind == kind]
        if len(demands) < 2:
            return {}
        units = [timeline.unit for timeline in self.by_kind.get(kind, ())]
        return {unit.id: sum(demand.matches(unit) for demand in demands) for unit in units}

    def _choose_in_order(
        self, searches: Sequence[Search], order: Sequence[int]
    ) -> list[list[Allocation]]:
        remaining = dict(self.by_kind)
        chosen: dict[int, list[Allocation]] = {}
        for index in order:
            search = searches[index]
            kind = search.demand.kind
            kept = _count_pieces(search.own) if search.keep else 0
            enough = max(search.demand.min_pieces, min(search.demand.max_pieces, kept))
            demand = dataclasses.replace(search.demand, max_pieces=enough)
            least = dataclasses.replace(search, demand=demand)
            chosen[index] = self._choose(index, least, remaining)
            remaining[kind] = change_timelines(remaining.get(kind, ()), chosen[index])
        # All searches have their least number; searches that may have more share what is left.
        for index in order:
            search, choices = searches[index], chosen[index]
            kind = search.demand.kind
            if sum(choice.pieces for choice in choices) < search.demand.max_pieces:
                remaining[kind] = change_timelines(remaining[kind], without=choices)
                own = {choice.unit_id: choice for choice in choices}
                more = dataclasses.replace(search, own=own, keep=True, contention={})
                chosen[index] = self._choose(index, more, remaining)
                remaining[kind] = change_timelines(remaining[kind], chosen[index])
        return [chosen[index] for index in range(len(searches))]

    def _choose(self, index: int, search: Search, by_kind: Timelines) -> list[Allocation]:
        try:
            return choose_units(search, by_kind.get(search.demand.kind, ()), self.rng)
        except InsufficientCapacity as exc:
            raise InsufficientCapacity(index, exc.count) from exc


def change_timelines(
    timelines: Sequence[Timeline],
    added: Iterable[Allocation] = (),
    without: Iterable[Allocation] = (),
) -> list[Timeline]:
    """Return the timelines of units with other allocations."""
    new = {allocation.unit_id: [entry_of(allocation)] for allocation in added}
    old = {allocation.unit_id: [entry_of(allocation)] for allocation in without}
    return [
        timeline.changed(
            timeline.unit, old.get(timeline.unit.id, ()), new.get(timeline.unit.id, ())
        )
        if timeline.unit.id in new or timeline.unit.id in old
        else timeline
        for timeline in timelines
    ]
