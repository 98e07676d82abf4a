# SPDX-License-Identifier: Apache-2.0
"""The view that one transaction has of the calendar, and its changes of allocations."""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import orm

from climate_common.microseconds import from_microseconds, to_microseconds
from climate_core.calendar.index import Index
from climate_core.calendar.model import NewAllocation, Unit
from climate_core.calendar.search import TimelineSource
from climate_core.calendar.timeline import Entry, Timeline, total_amounts
from climate_core.db import calendar
from climate_core.db.calendar import StoredAllocation
from climate_core.db.engine import Stale, after_commit

#: Only its own lease changes an allocation that starts within this number of microseconds.
_SOON = 60_000_000
#: A release within this number of microseconds of its time is not late.
_ON_TIME = 5_000_000


class CalendarTransaction:
    """A snapshot of the index, and what the transaction itself has written since.

    :ivar now: the time of the snapshot
    :ivar verified: whether the snapshot contains all that was committed before
    """

    def __init__(
        self, index: Index, session: orm.Session, reader: orm.Session | None = None
    ) -> None:
        """Take a snapshot of the index.

        :param reader: another transaction that reads it, if this one has written
        """
        now, self.verified = index.refresh(reader or session)
        self.now = to_microseconds(now)
        self._index = index
        # Searches and writes use the same snapshot, whatever other threads read.
        self._snapshot = index.snapshot
        self._session = session
        self._written: dict[int, Timeline] = {}
        #: Whether the generations guarded all that is written here.
        self._guarded = True
        self._moved: dict[int, list[tuple[Entry, Entry]]] = collections.defaultdict(list)

    def verify(self) -> bool:
        """Read the changes that the snapshot lacks; return whether there were any.

        :raises climate_core.db.engine.Stale: the transaction has written, so it cannot
        """
        if self._written:
            self._index.mark_stale()
            raise Stale('the calendar must be verified')
        missed = self._index.verify(self._session)
        self.verified = True
        if missed:
            self._snapshot = self._index.snapshot
        return missed

    def timeline_source(
        self,
        own: Iterable[calendar.StoredAllocation] = (),
        excluded: int | None = None,
        needed: Iterable[tuple[int, int, int, int]] = (),
    ) -> TimelineSource:
        """Return a source of the timelines as this transaction sees them.

        :param own: allocations that they do not contain
        :param excluded: a unit that the source does not contain
        :param needed: lanes of units (unit, lane, start, end) that are in use: later allocations
            in them move to other lanes, if something is written for the unit
        :raises climate_core.db.engine.Stale: an own allocation has changed
        """
        changed = {**self._written, **self._without(own)}
        snapshot = self._snapshot
        self._moved = collections.defaultdict(list)
        for unit_id, lane, start, end in needed:
            timeline = changed[unit_id]
            moved = timeline.plan_lane_changes(lane, start, end, self.now + _SOON)
            self._moved[unit_id] += moved
            changed[unit_id] = timeline.changed(timeline.unit, *zip(*moved, strict=True))

        def of_kind(kind: str) -> Sequence[Timeline]:
            timelines = snapshot.by_kind.get(kind, ())
            if not changed and excluded is None:
                return timelines
            return [
                changed.get(each.unit.id, each) for each in timelines if each.unit.id != excluded
            ]

        return of_kind

    def source_of_units(self, unit_ids: Iterable[int]) -> TimelineSource:
        """Return a source of the timelines of some units only."""
        self._moved = collections.defaultdict(list)
        known = self._snapshot.timelines
        seen = [self._written.get(unit_id) or known.get(unit_id) for unit_id in sorted(unit_ids)]
        return lambda kind: [each for each in seen if each and each.unit.kind == kind]

    def _without(self, own: Iterable[calendar.StoredAllocation]) -> dict[int, Timeline]:
        without = collections.defaultdict(list)
        for row in own:
            without[row.unit_id].append(stored_entry(row))
        timelines = {}
        for unit_id, entries in without.items():
            timeline = self._timeline(unit_id)
            if not all(map(timeline.contains, entries)):
                raise self._stale([unit_id])
            timelines[unit_id] = timeline.changed(timeline.unit, without=entries)
        return timelines

    def write(
        self,
        gone: Sequence[calendar.StoredAllocation] = (),
        ended: Sequence[calendar.StoredAllocation] = (),
        added: Sequence[NewAllocation] = (),
    ) -> None:
        """Change allocations in at most three statements: all changes or none.

        :param ended: allocations with their new ends
        :raises climate_core.db.engine.Stale: another transaction changed the units
        """
        steps = collections.Counter(allocation.unit_id for allocation in added)
        touched = sorted({row.unit_id for row in (*gone, *ended)} | steps.keys())
        if not touched:
            return
        before = {unit_id: self._timeline(unit_id) for unit_id in touched}
        generations = {unit_id: each.unit.generation for unit_id, each in before.items()}
        if not (
            calendar.guard_units(self._session, generations, steps)
            and all(self._move(unit_id) for unit_id in steps)
            and calendar.delete_allocations(self._session, gone)
            and self._end(ended)
            and calendar.insert_allocations(self._session, _allocation_rows(added, generations))
        ):
            raise self._stale(touched)
        if not self._written:
            after_commit(self._session, self._publish)
        self._apply(gone, ended, added)

    def unit(self, unit_id: int) -> Unit:
        """Return a unit as it is here."""
        return self._timeline(unit_id).unit

    def check_starting(
        self, ends: Mapping[int, int], last: int, found: Collection[calendar.StoredAllocation]
    ) -> None:
        """Check that a statement has read all allocations that start on units.

        The index may contain allocations that are newer than the snapshot of the database.

        :param ends: id of a unit -> since when
        :param last: until when
        :param found: the result of the statement
        :raises climate_core.db.engine.Stale: the result lacks allocations
        """
        known = {
            (unit_id, each.start, each.end, each.lane)
            for unit_id, first in ends.items()
            for each in self._timeline(unit_id).entries
            if first <= each.start <= last and each.end > self.now
        }
        seen = {(each.unit_id, each.start, each.end, each.lane) for each in found}
        if known != {each for each in seen if each[2] > self.now}:
            raise self._stale(sorted(ends))

    def extensible_until(self, own: calendar.StoredAllocation, until: int) -> int:
        """Return how long an allocation can be extended beside the other allocations.

        :param until: the end at most
        """
        timeline = self._timeline(own.unit_id)
        kept = timeline.changed(timeline.unit, without=[stored_entry(own)])
        return kept.fits_until(stored_entry(own)._replace(start=max(own.end, self.now), end=until))

    def add_released(
        self, gone: Sequence[calendar.StoredAllocation], ended: Sequence[calendar.StoredAllocation]
    ) -> None:
        """Add what this transaction has released without this view.

        :param gone: as it was
        :param ended: as it is now
        """
        self._guarded = False
        self._apply(gone, ended)

    def _publish(self) -> None:
        """Pass the committed changes to the index, which then need not read them."""
        if self._guarded:
            self._index.store_committed(self._written)

    def _apply(
        self,
        gone: Sequence[calendar.StoredAllocation],
        ended: Sequence[calendar.StoredAllocation],
        added: Sequence[NewAllocation] = (),
    ) -> None:
        without: dict[int, list[Entry]] = collections.defaultdict(list)
        new: dict[int, list[Entry]] = collections.defaultdict(list)
        for own in (*gone, *ended):
            without[own.unit_id].append(stored_entry(own))
        for own in ended:
            new[own.unit_id].append(stored_entry(own))
        for allocation in added:
            new[allocation.unit_id].append(new_entry(allocation))
        for unit_id in {each.unit_id for each in added}:
            without[unit_id] += [before for before, _ in self._moved[unit_id]]
            new[unit_id] += [after for _, after in self._moved[unit_id]]
        steps = collections.Counter(each.unit_id for each in added)
        for unit_id in without.keys() | new.keys():
            timeline = self._timeline(unit_id)
            generation = timeline.unit.generation + max(1, steps[unit_id])
            unit = dataclasses.replace(timeline.unit, generation=generation)
            self._written[unit_id] = timeline.changed(unit, without[unit_id], new[unit_id])

    def _move(self, unit_id: int) -> bool:
        return all(
            calendar.change_lane(
                self._session, unit_id, from_microseconds(before.start), before.lane, after.lane
            )
            for before, after in self._moved[unit_id]
        )

    def _end(self, ended: Sequence[calendar.StoredAllocation]) -> bool:
        alike: dict[tuple[int, bool | None], list[calendar.StoredAllocation]] = (
            collections.defaultdict(list)
        )
        for each in ended:
            alike[each.end, each.released].append(each)
        return all(
            calendar.end_allocations(self._session, own, from_microseconds(end), released)
            for (end, released), own in alike.items()
        )

    def _timeline(self, unit_id: int) -> Timeline:
        found = self._written.get(unit_id) or self._snapshot.timelines.get(unit_id)
        if found is None:
            raise self._stale([unit_id])
        return found

    def _stale(self, unit_ids: Sequence[int]) -> Stale:
        self._index.mark_stale(unit_ids)
        return Stale(f'units {unit_ids[:10]}')


def stored_entry(own: calendar.StoredAllocation) -> Entry:
    """Return the entry of a stored allocation in a timeline."""
    return Entry(own.start, own.end, own.lane, total_amounts(own.pieces, own.piece))


def new_entry(allocation: NewAllocation) -> Entry:
    """Return the entry of a new allocation in a timeline."""
    taken = total_amounts(allocation.pieces, allocation.piece)
    return Entry(
        to_microseconds(allocation.start), to_microseconds(allocation.end), allocation.lane, taken
    )


def _allocation_rows(
    added: Sequence[NewAllocation], generations: dict[int, int]
) -> list[dict[str, Any]]:
    """Return the rows; the rows of a unit have consecutive generations."""
    last = dict(generations)
    rows = []
    for allocation in added:
        last[allocation.unit_id] += 1
        generation = last[allocation.unit_id]
        rows.append({**dataclasses.asdict(allocation), 'unit_generation': generation})
    return rows


def moves_end(row: StoredAllocation, now: int, end: int, used: bool) -> bool:
    """Return whether the end of an allocation changes when it is released.

    A piece of a unit is not cleaned for longer than allocated: other pieces are in use, too.

    :param used: whether the unit was used until now
    """
    late = used and row.end + _ON_TIME < end and end > now
    return row.end > end or (late and row.piece is None and not row.released)


def shift_next_start(
    session: orm.Session, released: Iterable[StoredAllocation], end: int
) -> tuple[list[StoredAllocation], list[StoredAllocation]]:
    """Move the starts of allocations that wait for whole units to when the units are free.

    :param released: what is released, as it was
    :param end: when the units are free
    :returns: the waiting allocations, as they were and as they are
    """
    ends = {row.unit_id: row.end for row in released if row.piece is None and not row.released}
    if not ends:
        return [], []
    first, last = min(end, *ends.values()), max(end, *ends.values())
    # No allocation can be added concurrently: the units are locked, since their generations were
    # raised.
    waiting = calendar.allocations_starting(
        session, ends, from_microseconds(first), from_microseconds(last), lock=True
    )
    start_dates = calendar.lease_start_dates(session, waiting)
    before, after = [], []
    for row in waiting:
        old_end = ends[row.unit_id]
        # A delayed allocation starts with its lease, or as soon as possible. The lease may be
        # newer than the snapshot of this transaction.
        start_date = start_dates.get(row.reservation_id)
        start = max(end, row.start if start_date is None else to_microseconds(start_date))
        if min(old_end, end) <= row.start <= max(old_end, end) and start != row.start:
            start = min(start, row.end)
            calendar.set_start(session, row, from_microseconds(start))
            before.append(row)
            after.append(row._replace(start=start))
    return before, after


def start_later(row: StoredAllocation, start: int) -> NewAllocation:
    """Return an allocation that starts later, but not after its end."""
    return NewAllocation(
        unit_id=row.unit_id,
        reservation_id=row.reservation_id,
        start=from_microseconds(min(start, row.end)),
        end=from_microseconds(row.end),
        pieces=row.pieces,
        piece=row.piece,
        lane=row.lane,
    )
