# SPDX-License-Identifier: Apache-2.0
"""The timeline of a unit: its allocations and its free capacity over time. Pure.

All times are numbers (:mod:`climate_common.dates`), and intervals include their start but not
their end. A timeline never changes: several threads search it.
"""

import itertools
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from climate_common.dates import FOREVER, NEVER
from climate_core.calendar.model import Unit
from climate_core.lease.model import Allocation


class Entry(NamedTuple):
    """An allocation in a timeline.

    :param amounts: the sum of all its pieces; None: the whole unit
    """

    start: int
    end: int
    lane: int = 0
    amounts: Mapping[str, int] | None = None


def total_amounts(pieces: int, piece: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """Return the sum of pieces; None: the whole unit."""
    return None if piece is None else {name: each * pieces for name, each in piece.items()}


def entry_of(allocation: Allocation) -> Entry:
    """Return the entry of an allocation in the timeline of its unit."""
    amounts = total_amounts(allocation.pieces, allocation.piece)
    return Entry(allocation.start, allocation.end, allocation.lane, amounts)


def usage_levels(entries: Iterable[Entry]) -> Iterator[tuple[int, int, Mapping[str, int]]]:
    """Yield a start, an end and the allocated amounts between them; whole units count nothing."""
    listed = list(entries)
    steps = sorted(
        (time, step, number)
        for number, each in enumerate(listed)
        for time, step in ((each.start, 1), (each.end, -1))
    )
    used: dict[str, int] = {}
    for (time, step, number), (until, *_) in itertools.pairwise([*steps, (FOREVER, 0, 0)]):
        for name, amount in (listed[number].amounts or {}).items():
            used[name] = used.get(name, 0) + step * amount
        if until > time:
            yield time, until, used


class Timeline:
    """The allocations of a unit.

    ``starts[k]`` is the first start of all that ends after ``reach[k]``, the latest end of what is
    before: so ``k = bisect_right(reach, time) - 1`` finds the first allocation that ends after a
    time, ``starts[k]`` when it starts, and ``reach[k]`` since when the unit has been free.
    Searches through many timelines do this themselves.

    :ivar longest: how long the longest gap between two allocations is
    """

    __slots__ = (
        '_amounts',
        '_ends',
        '_lanes',
        '_overcommitted_until',
        'longest',
        'reach',
        'starts',
        'unit',
    )

    def __init__(
        self,
        unit: Unit,
        starts: Sequence[int] = (),
        ends: Sequence[int] = (),
        lanes: Sequence[int] = (),
        amounts: Sequence[Mapping[str, int] | None] = (),
    ) -> None:
        """Store columns of entries, ordered by their starts."""
        self.unit = unit
        self.starts = array('q', starts)
        self.starts.append(FOREVER)
        self._ends = array('q', ends)
        # A column of equal values is not stored: there may be a million.
        self._lanes = array('H', lanes) if any(lanes) else None
        self._amounts = None if all(each is None for each in amounts) else amounts
        self.reach = array('q', (NEVER, *itertools.accumulate(ends, max)))
        gaps = map(operator.sub, starts[1:], self.reach[1:])
        self.longest = max(0, max(gaps, default=0))
        self._overcommitted_until: int | None = None

    @classmethod
    def of(cls, unit: Unit, entries: Iterable[Entry]) -> 'Timeline':
        """Return the timeline of entries in any order."""
        ordered = sorted(entries, key=operator.attrgetter('start'))
        return cls(unit, *zip(*ordered, strict=True))

    @property
    def entries(self) -> list[Entry]:
        """Return the allocations, by their starts."""
        return [self._entry(index) for index in range(len(self._ends))]

    @property
    def overcommitted_until(self) -> int:
        """Return until when the unit, which became smaller, is overcommitted.

        A unit without any capacity is only withheld for a time.
        """
        if self._overcommitted_until is None:
            capacity = self.unit.capacity
            shared = self._amounts is not None and any(capacity.values())
            ends = (
                end
                for _, end, used in usage_levels(self.entries if shared else ())
                if any(used[name] > capacity.get(name, 0) for name in used)
            )
            self._overcommitted_until = max(ends, default=NEVER)
        return self._overcommitted_until

    def changed(
        self, unit: Unit, without: Collection[Entry] = (), added: Iterable[Entry] = ()
    ) -> 'Timeline':
        """Return the timeline of a changed unit, without some allocations and with others.

        :param without: identified by start and lane, which no two allocations share
        """
        gone = {(each.start, each.lane) for each in without}
        kept = [each for each in self.entries if (each.start, each.lane) not in gone]
        return Timeline.of(unit, [*kept, *added])

    def contains(self, entry: Entry) -> bool:
        """Return whether the timeline contains an allocation."""
        first = bisect_left(self.starts, entry.start)
        last = bisect_right(self.starts, entry.start)
        return any(self._entry(index) == entry for index in range(first, last))

    def gap(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the time around an interval without allocations; None if there are any."""
        index = bisect_right(self.reach, start) - 1
        if self.starts[index] < end:
            return None
        return self.reach[index], self.starts[index]

    def next_free(self, start: int, length: int, now: int = NEVER) -> int:
        """Return the earliest time, not before ``start``, from which the whole unit is free.

        :param length: minimum duration
        :param now: allocations before this time do not matter
        """
        starts, reach = self.starts, self.reach
        index = bisect_right(reach, max(start, now)) - 1
        if starts[index] - start >= length:
            return start
        if length > self.longest:
            return reach[-1]
        index += 1
        while starts[index] - reach[index] < length:
            index += 1
        return reach[index]

    def next_start(self, time: int) -> int:
        """Return when the next allocation starts, at a time or later."""
        return self.starts[bisect_left(self.starts, time)]

    def fits(
        self, start: int, end: int, piece: Mapping[str, int] | None, most: int | None = None
    ) -> int:
        """Return how many pieces fit into an interval beside the allocations.

        :param piece: the amounts of one piece; None: the whole unit
        :param most: maximum number; an empty piece fits that often, or once
        """
        overlapping = self._overlapping(start, end)
        if piece is None:
            return 0 if overlapping else 1
        if not overlapping:
            return _fitting_pieces(self.unit.capacity, {}, piece, most)
        peak = self._peak(overlapping, start)
        if peak is None or self._free_lane(overlapping) is None:
            return 0
        return _fitting_pieces(self.unit.capacity, peak, piece, most)

    def fits_until(self, entry: Entry) -> int:
        """Return until when an entry fits beside the other allocations.

        Its lane is not checked: the entry has it already.

        :returns: its own end at most; its start if it does not fit at all
        """
        starts = {self.starts[index] for index in self._overlapping(entry.start, entry.end)}
        for end in sorted({entry.end, *starts}, reverse=True):
            if end <= entry.start:
                break
            if self.fits(entry.start, end, entry.amounts, 1):
                return end
        return entry.start

    def find_lane(self, start: int, end: int, liked: int | None = None) -> int | None:
        """Return a lane that is free in an interval; None if none is.

        :param liked: the preferred lane; else it is the lowest
        """
        return self._free_lane(self._overlapping(start, end), liked)

    def plan_lane_changes(
        self, lane: int, start: int, end: int, movable: int
    ) -> list[tuple[Entry, Entry]]:
        """Find other lanes for the allocations in a lane, as far as other lanes are free.

        :param movable: allocations that start before this time stay in their lane
        :returns: allocations as they are and as they would be
        """
        moved: list[tuple[Entry, Entry]] = []
        timeline = self.changed(self.unit, added=[Entry(start, end, lane, {})])
        for index in self._overlapping(start, end):
            old = self._entry(index)
            if old.lane == lane and old.start >= movable:
                free = timeline.find_lane(old.start, old.end)
                if free is not None:
                    new = old._replace(lane=free)
                    moved.append((old, new))
                    timeline = timeline.changed(self.unit, added=[new])
        return moved

    def ends(self, first: int, last: int) -> Iterator[int]:
        """Yield the ends of allocations between two times."""
        return (end for end in self._ends if first < end < last)

    def next_end(self, start: int, end: int) -> int:
        """Return when the first allocation of an interval ends; FOREVER if there is none."""
        return min((self._ends[index] for index in self._overlapping(start, end)), default=FOREVER)

    def _overlapping(self, start: int, end: int) -> list[int]:
        first = bisect_right(self.reach, start) - 1
        if self.starts[first] >= end:
            return []
        ends = self._ends
        last = bisect_left(self.starts, end, first)
        return [index for index in range(first, last) if ends[index] > start]

    def _free_lane(self, overlapping: Collection[int], liked: int | None = None) -> int | None:
        taken = {self._lanes[index] if self._lanes else 0 for index in overlapping}
        if liked is not None and liked not in taken:
            return liked
        return next((lane for lane in range(self.unit.lanes) if lane not in taken), None)

    def _peak(self, overlapping: Sequence[int], start: int) -> Mapping[str, int] | None:
        """Return the peak of the allocated amounts.

        :returns: None if nothing can be added: the whole unit is allocated, or no lane is free
        """
        taken = [self._amounts[index] if self._amounts else None for index in overlapping]
        if len(taken) == 1:
            return taken[0] if self.unit.lanes > 1 else None
        moments: list[tuple[int, int, int]] = []
        for number, index in enumerate(overlapping):
            moments.append((max(self.starts[index], start), 1, number))
            moments.append((self._ends[index], -1, number))
        used: dict[str, int] = {}
        peak: dict[str, int] = {}
        count = 0
        # At the same time what ends comes before what starts.
        for _, step, number in sorted(moments):
            count += step
            amounts = taken[number]
            if amounts is None or count >= self.unit.lanes:
                return None
            for name, amount in amounts.items():
                used[name] = used.get(name, 0) + step * amount
                peak[name] = max(peak.get(name, 0), used[name])
        return peak

    def _entry(self, index: int) -> Entry:
        return Entry(
            self.starts[index],
            self._ends[index],
            self._lanes[index] if self._lanes else 0,
            self._amounts[index] if self._amounts else None,
        )


def _fitting_pieces(
    capacity: Mapping[str, int],
    peak: Mapping[str, int],
    piece: Mapping[str, int],
    most: int | None,
) -> int:
    counts = [
        (capacity.get(name, 0) - peak.get(name, 0)) // amount
        for name, amount in piece.items()
        if amount > 0
    ]
    if most is not None:
        counts.append(most)
    return max(0, min(counts, default=1))


class Overcommit(NamedTuple):
    """An allocation that exceeds the capacity of its unit, which became smaller.

    :param short: name of an amount -> capacity of the unit, and the most that is allocated of it
        during this allocation
    """

    unit_id: int
    reservation_id: str
    short: Mapping[str, tuple[int, int]]


def find_overcommits(unit: Unit, rows: Sequence[Allocation], now: int) -> list[Overcommit]:
    """Return the allocations for which a unit lacks capacity beside older allocations.

    Allocations that have started come first, then the oldest.

    :param rows: all allocations of the unit that have not ended
    """
    kept = Timeline(unit)
    overcommits = []
    for row in sorted(rows, key=lambda row: (row.start > now, row.unit_generation)):
        fits = kept.fits(row.start, row.end, row.piece, row.pieces) >= row.pieces
        # A released allocation stays as it is until it is empty.
        if fits or row.piece is None or row.released:
            kept = kept.changed(unit, added=[entry_of(row)])
        else:
            short = _short_amounts(unit, rows, row)
            overcommits.append(Overcommit(unit.id, row.reservation_id, short))
    return overcommits


def _short_amounts(
    unit: Unit, rows: Sequence[Allocation], overcommitted: Allocation
) -> dict[str, tuple[int, int]]:
    peak: dict[str, int] = {}
    for start, end, used in usage_levels(map(entry_of, rows)):
        if start < overcommitted.end and end > overcommitted.start:
            peak |= {name: max(amount, peak.get(name, 0)) for name, amount in used.items()}
    has = {name: unit.capacity.get(name, 0) for name in overcommitted.piece or ()}
    return {name: (total, peak[name]) for name, total in has.items() if peak[name] > total}
