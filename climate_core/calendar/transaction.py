# SPDX-License-Identifier: Apache-2.0
"""The view that one transaction has of the calendar: read, allocate, release.

A transaction that reads must not have written what is read here: it may be rolled back.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import orm

from climate_common.dates import from_microseconds, to_microseconds
from climate_core.calendar.index import Index, Snapshot
from climate_core.calendar.model import Unit
from climate_core.calendar.search import Timelines
from climate_core.calendar.unit_timeline import Entry, Timeline, entry_of
from climate_core.db import calendar
from climate_core.db.engine import Database, Stale, after_commit
from climate_core.lease.model import Allocation

#: Only its own lease changes an allocation that starts within this number of microseconds.
_SOON = 60_000_000
#: A release within this number of microseconds of its time is not late.
_ON_TIME = 5_000_000


class CalendarTransaction:
    """Read and change the calendar within one transaction of the database.

    A transaction has only one: the index must not read what the transaction has written, which
    may be rolled back.

    :ivar session: of the transaction
    """

    def __init__(self, index: Index, database: Database, session: orm.Session) -> None:
        self.session = session
        self._index = index
        self._database = database
        # Searches and writes use the same snapshot, whatever other threads read.
        self._snapshot: Snapshot | None = None
        self._now = 0
        self._is_verified = False
        self._written: dict[int, Timeline] = {}
        #: What was released before the snapshot was taken: as it was, and as it is.
        self._released: list[tuple[Sequence[Allocation], Sequence[Allocation]]] = []
        #: Whether the generations guarded all that is written here.
        self._guarded = True
        self._moved: dict[int, list[tuple[Entry, Entry]]] = collections.defaultdict(list)

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot of the index; the first time it is taken, see :meth:`Index.refresh`.

        A transaction that only releases needs none.
        """
        if self._snapshot is None:
            if self._released:
                with self._database.reader() as other:
                    now, self._is_verified = self._index.refresh(other)
            else:
                now, self._is_verified = self._index.refresh(self.session)
            self._now = to_microseconds(now)
            self._snapshot = self._index.snapshot
            for deleted, ended in self._released:
                self._add_released(deleted, ended)
        return self._snapshot

    @property
    def now(self) -> int:
        """Return the time of the snapshot."""
        _ = self.snapshot
        return self._now

    def verify(self) -> bool:
        """Read the changes that the snapshot lacks; return whether there were any.

        :raises climate_core.db.engine.Stale: the transaction has written, so it cannot
        """
        _ = self.snapshot
        if self._written:
            self._index.mark_stale()
            raise Stale('the calendar must be verified')
        missed = self._index.verify(self.session)
        self._is_verified = True
        if missed:
            self._snapshot = self._index.snapshot
        return missed

    def read_missed(self) -> bool:
        """Verify the snapshot unless it is verified; return whether it lacked changes."""
        return not self._is_verified and self.verify()

    def timelines(
        self,
        own: Iterable[Allocation] = (),
        excluded: int | None = None,
        needed: Iterable[tuple[int, int, int, int]] = (),
        forced_available: Collection[int] = (),
    ) -> Timelines:
        """Return the timelines as this transaction sees them.

        :param own: allocations that they do not contain
        :param excluded: a unit that is left out
        :param needed: lanes of units (unit, lane, start, end) that are in use: later allocations
            in them move to other lanes, if something is written for the unit
        :param forced_available: units that are available, whatever the snapshot says
        :raises climate_core.db.engine.Stale: an own allocation has changed
        """
        snapshot = self.snapshot
        changed = {**self._written, **self._without(own)}
        self._moved = collections.defaultdict(list)
        for unit_id, lane, start, end in needed:
            timeline = changed[unit_id]
            moved = timeline.plan_lane_changes(lane, start, end, self._now + _SOON)
            self._moved[unit_id] += moved
            changed[unit_id] = timeline.changed(timeline.unit, *zip(*moved, strict=True))
        for unit_id in forced_available:
            closed = changed.get(unit_id) or snapshot.timelines.get(unit_id)
            if closed is not None:
                unit = dataclasses.replace(closed.unit, available=True)
                changed[unit_id] = closed.changed(unit)

        by_kind: dict[str, Sequence[Timeline]] = dict(snapshot.by_kind)
        for kind in {timeline.unit.kind for timeline in changed.values()} & by_kind.keys():
            by_kind[kind] = [changed.get(line.unit.id, line) for line in by_kind[kind]]
        if excluded is not None and excluded in snapshot.timelines:
            kind = snapshot.timelines[excluded].unit.kind
            by_kind[kind] = [line for line in by_kind[kind] if line.unit.id != excluded]
        return by_kind

    def timelines_of_units(self, unit_ids: Iterable[int]) -> Timelines:
        """Return the timelines of some units only."""
        self._moved = collections.defaultdict(list)
        known = self.snapshot.timelines
        by_kind = collections.defaultdict[str, list[Timeline]](list)
        for unit_id in sorted(unit_ids):
            timeline = self._written.get(unit_id) or known.get(unit_id)
            if timeline is not None:
                by_kind[timeline.unit.kind].append(timeline)
        return by_kind

    def _without(self, own: Iterable[Allocation]) -> dict[int, Timeline]:
        without = collections.defaultdict(list)
        for row in own:
            without[row.unit_id].append(entry_of(row))
        timelines = {}
        for unit_id, entries in without.items():
            timeline = self._timeline(unit_id)
            if not all(map(timeline.contains, entries)):
                raise self._stale([unit_id])
            timelines[unit_id] = timeline.changed(timeline.unit, without=entries)
        return timelines

    def write(
        self,
        deleted: Sequence[Allocation] = (),
        ended: Sequence[Allocation] = (),
        added: Sequence[Allocation] = (),
    ) -> None:
        """Change allocations in at most three statements: all changes or none.

        :param ended: allocations with their new ends
        :raises climate_core.db.engine.Stale: another transaction changed the units
        """
        steps = collections.Counter(allocation.unit_id for allocation in added)
        touched = sorted({row.unit_id for row in (*deleted, *ended)} | steps.keys())
        if not touched:
            return
        generations = {unit_id: self._timeline(unit_id).unit.generation for unit_id in touched}
        if not (
            calendar.guard_units(self.session, generations, steps)
            and all(self._move(unit_id) for unit_id in steps)
            and calendar.delete_allocations(self.session, deleted)
            and self._end(ended)
            and calendar.insert_allocations(self.session, _with_generations(added, generations))
        ):
            raise self._stale(touched)
        if not self._written:
            after_commit(self.session, self._publish)
        self._apply(deleted, ended, added)

    def release(self, used: Mapping[str, Collection[int]], begin: int, end: int) -> None:
        """Release the allocations of reservations; see :meth:`.Calendar.release`.

        :param end: when their units are cleaned
        """
        own = calendar.allocations_of_reservations(self.session, used, late=True)
        deleted = [row for row in own if row.start >= begin]
        old = [
            row
            for row in own
            if row.start < begin
            and _moves_end(row, begin, end, row.unit_id in used[row.reservation_id])
        ]
        if not deleted and not old:
            return
        ended = [row._replace(end=end) for row in old]
        calendar.raise_generations(self.session, {row.unit_id for row in (*deleted, *ended)})
        calendar.delete_allocations(self.session, deleted)
        for released in (True, None):
            alike = [row for row in ended if bool(row.released) is bool(released)]
            calendar.end_allocations(self.session, alike, from_microseconds(end), released)
        waiting, earlier = _shift_next_start(self.session, old, end)
        deleted, ended = [*deleted, *waiting], [*ended, *earlier]
        if self._snapshot is None:
            self._released.append((deleted, ended))
        else:
            self._add_released(deleted, ended)

    def unit(self, unit_id: int) -> Unit:
        """Return a unit as it is here."""
        return self._timeline(unit_id).unit

    def check_starting(
        self, ends: Mapping[int, int], last: int, found: Collection[Allocation]
    ) -> None:
        """Check that a statement has read all allocations that start on units.

        The index may contain allocations that are newer than the snapshot of the database.

        :param ends: id of a unit -> since when
        :param last: until when
        :param found: the result of the statement
        :raises climate_core.db.engine.Stale: the result lacks allocations
        """
        known = {
            (unit_id, entry.start, entry.end, entry.lane)
            for unit_id, first in ends.items()
            for entry in self._timeline(unit_id).entries
            if first <= entry.start <= last and entry.end > self.now
        }
        read = {(row.unit_id, row.start, row.end, row.lane) for row in found}
        if known != {key for key in read if key[2] > self.now}:
            raise self._stale(sorted(ends))

    def extensible_until(self, own: Allocation, until: int) -> int:
        """Return how long an allocation can be extended beside the other allocations.

        :param until: the end at most
        """
        timeline, entry = self._timeline(own.unit_id), entry_of(own)
        kept = timeline.changed(timeline.unit, without=[entry])
        return kept.fits_until(entry._replace(start=max(own.end, self.now), end=until))

    def _add_released(self, deleted: Sequence[Allocation], ended: Sequence[Allocation]) -> None:
        """Add what this transaction has released, which no generation guarded."""
        self._guarded = False
        self._apply(deleted, ended)

    def _publish(self) -> None:
        """Pass the committed changes to the index, which then need not read them."""
        if self._guarded:
            self._index.store_committed(self._written)

    def _apply(
        self,
        deleted: Sequence[Allocation],
        ended: Sequence[Allocation],
        added: Sequence[Allocation] = (),
    ) -> None:
        without: dict[int, list[Entry]] = collections.defaultdict(list)
        new: dict[int, list[Entry]] = collections.defaultdict(list)
        for allocation in (*deleted, *ended):
            without[allocation.unit_id].append(entry_of(allocation))
        for allocation in (*ended, *added):
            new[allocation.unit_id].append(entry_of(allocation))
        steps = collections.Counter(allocation.unit_id for allocation in added)
        for unit_id in steps:
            without[unit_id] += [before for before, _ in self._moved[unit_id]]
            new[unit_id] += [after for _, after in self._moved[unit_id]]
        for unit_id in without.keys() | new.keys():
            timeline = self._timeline(unit_id)
            generation = timeline.unit.generation + max(1, steps[unit_id])
            unit = dataclasses.replace(timeline.unit, generation=generation)
            self._written[unit_id] = timeline.changed(unit, without[unit_id], new[unit_id])

    def _move(self, unit_id: int) -> bool:
        return all(
            calendar.change_lane(
                self.session, unit_id, from_microseconds(before.start), before.lane, after.lane
            )
            for before, after in self._moved[unit_id]
        )

    def _end(self, ended: Sequence[Allocation]) -> bool:
        alike = collections.defaultdict[tuple[int, bool | None], list[Allocation]](list)
        for row in ended:
            alike[row.end, row.released].append(row)
        return all(
            calendar.end_allocations(self.session, own, from_microseconds(end), released)
            for (end, released), own in alike.items()
        )

    def _timeline(self, unit_id: int) -> Timeline:
        timeline = self._written.get(unit_id) or self.snapshot.timelines.get(unit_id)
        if timeline is None:
            raise self._stale([unit_id])
        return timeline

    def _stale(self, unit_ids: Sequence[int]) -> Stale:
        self._index.mark_stale(unit_ids)
        return Stale(f'units {unit_ids[:10]}')


def _with_generations(
    added: Sequence[Allocation], generations: Mapping[int, int]
) -> list[Allocation]:
    """Return allocations with their generations, which are consecutive of a unit."""
    last = dict(generations)
    numbered = []
    for allocation in added:
        last[allocation.unit_id] += 1
        numbered.append(allocation._replace(unit_generation=last[allocation.unit_id]))
    return numbered


def _moves_end(row: Allocation, now: int, end: int, used: bool) -> bool:
    """Return whether the end of an allocation changes when it is released.

    A piece of a unit is not cleaned for longer than allocated: other pieces are in use, too.

    :param used: whether the unit was used until now
    """
    late = used and row.end + _ON_TIME < end and end > now
    return row.end > end or (late and row.piece is None and not row.released)


def _shift_next_start(
    session: orm.Session, released: Iterable[Allocation], end: int
) -> tuple[list[Allocation], list[Allocation]]:
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
