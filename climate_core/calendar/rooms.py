# SPDX-License-Identifier: Apache-2.0
"""Find the units that have room for a search, the best first.

Times are numbers (:mod:`climate_core.calendar.moments`).
"""

import dataclasses
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from climate_core.calendar.model import Demand, Order
from climate_core.calendar.timeline import Entry, Timeline, amounts

#: A search takes the best of so many units, and of so many for each piece.
SAMPLE: Final = 1000
SAMPLE_OF_PIECE: Final = 10

#: The spare of a unit, what fits, and its timeline, as in :class:`FittingUnit`.
_Room = tuple[tuple[int, int], int, Timeline]


class UnitPick(NamedTuple):
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
    :param rivals: of the units that do for demands of the same request, their own one included:
        unit id -> for how many; what does for most of them is taken last
    """

    demand: Demand
    start: int
    end: int
    own: Mapping[int, UnitPick] = dataclasses.field(default_factory=dict)
    keep: bool = False
    firm: bool = False
    now: int = 0
    scatter: int = 0
    rivals: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Return when that time begins that is not past."""
        return max(self.start, self.now)

    @property
    def length(self) -> int:
        """Return how long that time is, past or not."""
        return self.end - self.start

    def entry(self, pick: UnitPick) -> Entry:
        """Return what a timeline keeps of a pick."""
        return Entry(self.begin, self.end, pick.lane, amounts(pick.pieces, self.demand.piece))


def shifted(search: Search, delay: int) -> Search:
    """Return the same search so many microseconds later."""
    return dataclasses.replace(search, start=search.start + delay, end=search.end + delay)


class FittingUnit(NamedTuple):
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


def rooms(
    search: Search, timelines: Sequence[Timeline], dice: random.Random
) -> Iterator[FittingUnit]:
    """Yield the units that have room and would do: its own ones, then the best of the others.

    Of very many it is the best of a part of them that begins somewhere, then the best of the next
    part: that is quick, and two searches at the same time do not take the same one.

    :param timelines: of all units of the kind
    """
    own = [each for each in timelines if each.unit.id in search.own] if search.own else []
    yield from _good(search, _ordered(search, own, dice))
    size = max(SAMPLE, SAMPLE_OF_PIECE * search.demand.most)
    if search.rivals:
        size = max(size, len(timelines))
    first = dice.randrange(len(timelines)) if timelines else 0
    for part in range(0, len(timelines), size):
        others = _part(timelines, first + part, min(size, len(timelines) - part))
        if own:
            others = [each for each in others if each.unit.id not in search.own]
        good = _good(search, _ordered(search, others, dice))
        yield from _scattered(good, search.scatter * search.demand.most, dice)


def _part(timelines: Sequence[Timeline], first: int, size: int) -> Sequence[Timeline]:
    """Return so many timelines from one on; after the last one comes the first."""
    first %= len(timelines)
    return [*timelines[first : first + size], *timelines[: max(0, first + size - len(timelines))]]


def _ordered(
    search: Search, timelines: Sequence[Timeline], dice: random.Random
) -> Iterable[FittingUnit]:
    whole = search.demand.piece is None
    found = _whole(search, timelines) if whole else list(_shared(search, timelines))
    if search.demand.order == Order.RANDOM:
        dice.shuffle(found)
    else:
        found.sort(key=itemgetter(0), reverse=search.demand.order == Order.SPREAD)
    found.sort(key=lambda room: room[2].unit.asleep)
    if search.rivals:
        found.sort(key=lambda room: search.rivals.get(room[2].unit.id, 0))
    # Few of them are taken.
    return (FittingUnit(timeline, fits, spare) for spare, fits, timeline in found)


def _good(search: Search, found: Iterable[FittingUnit]) -> Iterator[FittingUnit]:
    matches = search.demand.matches
    return (room for room in found if room.timeline.unit.available and matches(room.timeline.unit))


def _whole(search: Search, timelines: Iterable[Timeline]) -> list[_Room]:
    # Without a call for each: there may be ten thousand.
    begin, end, now = search.begin, search.end, search.now
    return [
        ((1, starts - max(each.reach[index], now)), 1, each)
        for each in timelines
        if (starts := each.starts[index := bisect_right(each.reach, begin) - 1]) >= end
    ]


def _shared(search: Search, timelines: Iterable[Timeline]) -> Iterator[_Room]:
    begin, end = search.begin, search.end
    for each in timelines:
        pieces = each.fits(begin, end, search.demand.piece)
        if pieces:
            gap = each.gap(begin, end)
            yield (pieces, gap[1] - max(gap[0], search.now) if gap else 0), pieces, each


def _scattered(
    found: Iterator[FittingUnit], ahead: int, dice: random.Random
) -> Iterator[FittingUnit]:
    """Yield rooms in an order that is by chance, but none much earlier than it was."""
    if not ahead:
        yield from found
        return
    drawn: list[FittingUnit] = []
    for room in found:
        drawn.append(room)
        if len(drawn) > ahead:
            yield drawn.pop(dice.randrange(len(drawn)))
    dice.shuffle(drawn)
    yield from drawn
