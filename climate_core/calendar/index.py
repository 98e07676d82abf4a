# SPDX-License-Identifier: Apache-2.0
"""The calendar in the memory of a process.

The index is only a cache: a change that it lacks costs a repeated search, never capacity that is
allocated twice. It reads what changed by the clock of the database. A change that took too long to
commit (:data:`climate_core.db.calendar.COMMIT_DELAY`) is only read when the guard of an allocation
fails for it, and before anything is rejected.
"""

import copy
import datetime
import functools
import json
import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import orm

from climate_common.dates import NEVER, to_microseconds
from climate_core.calendar.model import Access, Unit
from climate_core.calendar.unit_timeline import Timeline, total_amounts
from climate_core.db import calendar, sql
from climate_core.db.calendar import COMMIT_DELAY


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
