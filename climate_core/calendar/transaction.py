# SPDX-License-Identifier: Apache-2.0
"""The calendar in the memory of a process, and the view that one transaction has of it.

The index is only a cache: a change that it lacks costs a repeated search, never capacity that is
allocated twice. It reads what changed by the clock of the database. A change that took too long to
commit (:data:`climate_core.db.calendar.COMMIT_DELAY`) is only read when the guard of an allocation
fails for it, and before anything is rejected.

A transaction that reads must not have written what is read here: it may be rolled back.
"""

import collections
import copy
import dataclasses
import datetime
import functools
import json
import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import orm

from climate_common.dates import NEVER, from_microseconds, to_microseconds
from climate_core.calendar.model import Access, Entry, Timeline, Unit, entry_of, total_amounts
from climate_core.calendar.search import Timelines
from climate_core.db import calendar, sql
from climate_core.db.calendar import COMMIT_DELAY
from climate_core.db.engine import Database, Stale, after_commit
from climate_core.lease.model import Allocation

#: Only its own lease changes an allocation that starts within this number of microseconds.
_SOON = 60_000_000
#: A release within this number of microseconds of its time is not late.
_ON_TIME = 5_000_000


class Snapshot:
    """All timelines at one time, by unit id and by kind. It never changes."""

    def __init__(self, timelines: Mapping[int, Timeline]) -> None:
        self.timelines = timelines
        self.by_kind: dict[str, list[Timeline]] = {}
        self._places: dict[int, int] = {}
        for unit_id, each in timelines.items():
            of_kind = self.by_kind.setdefault(each.unit.kind, [])
            self._places[unit_id] = len(of_kind)
            of_kind.append(each)

    def changed(self, new: Mapping[int, Timeline], gone: Collection[int]) -> 'Snapshot':
        """Return a snapshot with new timelines and without deleted units."""
        timelines = {**self.timelines, **new}
        if gone or len(timelines) > len(self.timelines):
            return Snapshot({key: each for key, each in timelines.items() if key not in gone})
        # The units are the same: a search through all of them costs more than this.
        made = copy.copy(self)
        made.timelines = timelines
        made.by_kind = {kind: each.copy() for kind, each in self.by_kind.items()}
        made.__dict__.pop('totals', None)
        for unit_id, each in new.items():
            made.by_kind[each.unit.kind][self._places[unit_id]] = each
        return made

    @functools.cached_property
    def totals(self) -> calendar.Totals:
        """Return the totals that the database has of the same units."""
        units = [each.unit for each in self.timelines.values()]
        last = max((each.id for each in units), default=0)
        return calendar.Totals(len(units), last, sum(each.generation for each in units))


class Index:
    """The latest snapshot of the calendar. Threads may share it."""

    def __init__(self) -> None:
        self._load_lock = threading.Lock()
        self._lock = threading.Lock()
        self._seen: datetime.datetime | None = None
        self._snapshot = Snapshot({})
        #: Generations of units that changed since ``_seen``, less
        #: :data:`climate_core.db.calendar.COMMIT_DELAY`, and when.
        self._recent: dict[int, tuple[datetime.datetime, int]] = {}
        self._stale_units: set[int] = set()
        self._must_verify = False
        self._known_amounts: dict[tuple[str, int], Mapping[str, int]] = {}

    def refresh(self, session: orm.Session) -> tuple[datetime.datetime, bool]:
        """Read the changes since the last time.

        One statement, and one more if something did.

        :returns: the time by the clock of the database, and whether nothing is missing
        """
        if self._seen is None:
            with self._load_lock:
                if self._seen is None:
                    return self._load(session), True
        with self._lock:
            assert self._seen is not None  # nosec B101 # for mypy: it holds already
            seen, must_verify, self._must_verify = self._seen, self._must_verify, False
            stale, self._stale_units = self._stale_units, set()
            known = {unit_id: each for unit_id, (_, each) in self._recent.items()}
        now, found = calendar.read_changed_units(session, seen, known)
        changed = [row for row in found if self._is_newer(row[0], row[1])]
        if changed:
            self._read_newer(session, changed, now)
        if stale:
            self._reload(session, stale, now)
        if must_verify:
            self.verify(session)
        with self._lock:
            self._seen = max(now, self._seen)
            horizon = self._seen - datetime.timedelta(seconds=COMMIT_DELAY)
            while self._recent and next(iter(self._recent.values()))[0] <= horizon:
                del self._recent[next(iter(self._recent))]
        return now, must_verify

    def verify(self, session: orm.Session) -> bool:
        """Read the changes that :meth:`refresh` missed; return whether there were any.

        One statement, and three more if there was.
        """
        snapshot = self._snapshot
        if calendar.read_totals(session) == snapshot.totals:
            return False
        assert self._seen is not None, 'refresh comes first'  # nosec B101 # for mypy: it holds already
        there = calendar.read_generations(session)
        have = {each.unit.id: each.unit.generation for each in snapshot.timelines.values()}
        wrong = {unit_id for unit_id, each in there.items() if have.get(unit_id) != each}
        self._reload(session, wrong | (have.keys() - there.keys()), self._seen)
        return True

    def mark_stale(self, unit_ids: Collection[int] = ()) -> None:
        """Mark units to be read again at the next refresh; without any, all are verified."""
        with self._lock:
            self._stale_units.update(unit_ids)
            self._must_verify = self._must_verify or not unit_ids

    def store_committed(self, written: Mapping[int, Timeline]) -> None:
        """Store committed changes of units whose generations were guarded."""
        with self._lock:
            assert self._seen is not None, 'refresh comes first'  # nosec B101 # for mypy: it holds already
            newer = {
                unit_id: each
                for unit_id, each in written.items()
                # A unit that was deleted concurrently stays deleted.
                if unit_id in self._snapshot.timelines
                and self._is_newer(unit_id, each.unit.generation)
            }
            self._store(newer, self._seen)

    def overcommitted_units(self, kind: str) -> list[int]:
        """Return the ids of the overcommitted units that are known."""
        seen = NEVER if self._seen is None else to_microseconds(self._seen)
        timelines = self._snapshot.by_kind.get(kind, ())
        return [each.unit.id for each in timelines if each.overcommitted_until > seen]

    @property
    def snapshot(self) -> Snapshot:
        """Return the latest snapshot."""
        return self._snapshot

    def _load(self, session: orm.Session) -> datetime.datetime:
        now = sql.read_time(session)
        # The units come first: an allocation that is written later comes with a generation that is
        # too old, and its unit is read again.
        found = calendar.read_units(session)
        new = self._build_timelines(
            found, calendar.read_all_allocations(session, [row[0] for row in found])
        )
        with self._lock:
            self._snapshot = Snapshot(new)
            self._seen = now
        return now

    def _read_newer(
        self, session: orm.Session, found: Sequence[Any], now: datetime.datetime
    ) -> None:
        """Read the allocations of units that were read because they are newer."""
        new = self._build_timelines(
            found, calendar.read_allocations(session, [row[0] for row in found])
        )
        with self._lock:
            # Another thread, whose transaction began later, may have stored them first.
            newer = {
                unit_id: each
                for unit_id, each in new.items()
                if self._is_newer(unit_id, each.unit.generation)
            }
            self._store(newer, now)

    def _reload(
        self, session: orm.Session, unit_ids: Collection[int], now: datetime.datetime
    ) -> None:
        """Read units whatever is known of them; forget deleted units."""
        found = calendar.read_units(session, unit_ids)
        new = self._build_timelines(
            found, calendar.read_allocations(session, [row[0] for row in found])
        )
        with self._lock:
            self._store(new, now, set(unit_ids) - new.keys())

    def _is_newer(self, unit_id: int, generation: int) -> bool:
        have = self._snapshot.timelines.get(unit_id)
        return have is None or generation > have.unit.generation

    def _build_timelines(
        self, found: Sequence[Any], allocations: Iterable[calendar.AllocationColumns]
    ) -> dict[int, Timeline]:
        """Return the timelines of units, from the rows of the units and their allocations."""
        made = {row[0]: Timeline(self._unit_of(row)) for row in found}
        for each in allocations:
            # An allocation of a unit that was not read is read the next time.
            if each.unit_id in made:
                unit, taken = made[each.unit_id].unit, self._amounts_of(each)
                made[unit.id] = Timeline(unit, each.starts, each.ends, each.lanes, taken)
        return made

    def _store(
        self,
        new: Mapping[int, Timeline],
        now: datetime.datetime,
        gone: Collection[int] = (),
    ) -> None:
        for unit_id in gone:
            self._recent.pop(unit_id, None)
        for unit_id, each in new.items():
            self._recent.pop(unit_id, None)
            self._recent[unit_id] = now, each.unit.generation
        self._snapshot = self._snapshot.changed(new, gone)

    def _unit_of(self, row: Any) -> Unit:
        (
            unit_id,
            generation,
            kind,
            pool,
            available,
            lanes,
            asleep,
            capacity,
            properties,
            access,
        ) = row
        return Unit(
            id=unit_id,
            kind=sys.intern(kind),
            pool=sys.intern(pool),
            available=bool(available) and lanes > 0,
            capacity=self._share_amounts(capacity),
            lanes=lanes,
            asleep=bool(asleep),
            properties=json.loads(properties, object_pairs_hook=_interned),
            access=Access.load(json.loads(access)) if access else None,
            generation=generation,
        )

    def _amounts_of(
        self, columns: calendar.AllocationColumns
    ) -> Sequence[Mapping[str, int] | None]:
        """Return the allocated amounts: the same object for the same amounts."""
        if not any(columns.piece):
            return ()
        return [
            None if piece is None else self._share_amounts(piece, count)
            for piece, count in zip(columns.piece, columns.pieces, strict=True)
        ]

    def _share_amounts(self, text: str, pieces: int = 1) -> Mapping[str, int]:
        """Return amounts from JSON: the same object for the same text, since few differ."""
        found = self._known_amounts.get((text, pieces))
        if found is None:
            found = self._known_amounts[text, pieces] = (
                total_amounts(pieces, json.loads(text)) or {}
            )
        return found


def _interned(pairs: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """Store names and texts of properties once for all units."""
    return {
        sys.intern(name): sys.intern(each) if type(each) is str else each for name, each in pairs
    }


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
