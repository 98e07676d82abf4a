# SPDX-License-Identifier: Apache-2.0
"""What a calendar has to answer, found by looking at every moment: slow and obviously right."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from climate_core.calendar.model import Demand, Unit
from climate_core.calendar.unit_timeline import Entry, Timeline, total_amounts
from climate_core.lease.model import Allocation

Piece = Mapping[str, int] | None


def wrong(unit: Unit, entries: Sequence[Entry]) -> str | None:
    """Tell what is wrong with what is promised of a unit, if anything is."""
    for moment in range(
        min((e.start for e in entries), default=0), max((e.end for e in entries), default=0)
    ):
        there = [e for e in entries if e.start <= moment < e.end]
        if len(there) > 1 and any(e.amounts is None for e in there):
            return f'a whole unit is shared at {moment}'
        if len({e.lane for e in there}) < len(there) or any(e.lane >= unit.lanes for e in there):
            return f'lanes at {moment}'
        for name, capacity in unit.capacity.items():
            if sum((e.amounts or {}).get(name, 0) for e in there) > capacity:
                return f'{name} at {moment}'
    return None


def fits(timeline: Timeline, start: int, end: int, piece: Piece, most: int) -> int:
    """Count the pieces that can be added, in any lane."""
    found = 0
    for count in range(1, (1 if piece is None else most) + 1):
        added = (
            Entry(start, end, lane, total_amounts(count, piece))
            for lane in range(timeline.unit.lanes)
        )
        if all(wrong(timeline.unit, [*timeline.entries, each]) for each in added):
            break
        found = count
    return found


def most_of(demand: Demand, start: int, end: int, timelines: Iterable[Timeline]) -> int:
    """Count the pieces that a demand could have at most."""
    per_unit = demand.max_pieces if demand.max_per_unit is None else demand.max_per_unit
    each = [
        fits(timeline, start, end, demand.piece, min(demand.max_pieces, per_unit))
        for timeline in timelines
        if timeline.unit.available and demand.matches(timeline.unit)
    ]
    return min(demand.max_pieces, max(each, default=0) if demand.single_unit else sum(each))


def can_have(
    demands: Sequence[Demand], start: int, end: int, timelines: Sequence[Timeline]
) -> bool:
    """Tell whether there are whole units for all demands together, by trying all ways."""
    free = [each.unit for each in timelines if fits(each, start, end, None, 1)]
    ways = itertools.product((None, *range(len(demands))), repeat=len(free))
    return any(
        all(
            sum(
                taker == number and unit.available and demand.matches(unit)
                for taker, unit in zip(way, free, strict=True)
            )
            >= demand.min_pieces
            for number, demand in enumerate(demands)
        )
        for way in ways
    )


def with_picks(
    timelines: Sequence[Timeline],
    picks: Iterable[Allocation],
    start: int,
    end: int,
    piece: Piece,
) -> list[Timeline]:
    """Return timelines with what was chosen."""
    added = {
        each.unit_id: Entry(start, end, each.lane, total_amounts(each.pieces, piece))
        for each in picks
    }
    return [
        each.changed(each.unit, added=[added[each.unit.id]]) if each.unit.id in added else each
        for each in timelines
    ]
