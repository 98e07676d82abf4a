# SPDX-License-Identifier: Apache-2.0
"""Units and what is promised of them, in the memory of a process.

Only a cache: what it has missed costs a search that is repeated, never a promise that is made
twice. It reads what changed by the clock of the database. A change that took too long to commit
(:data:`climate_core.db.calendar.LATE`) is not noticed then, but when the guard of a promise fails
for it, and before anything is refused.

A transaction that reads must not have written what is read here: it may be rolled back.
"""

import dataclasses
import datetime
import itertools
import json
import operator
import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import orm

from climate_core.calendar.model import Unit
from climate_core.calendar.timeline import Entry, Timeline, amounts
from climate_core.db import calendar, utcnow
from climate_core.db.calendar import LATE

_UNIT_ID = operator.itemgetter(0)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """All timelines at one time, by the ids of the units and by their kinds. It never changes."""

    timelines: Mapping[int, Timeline]
    kinds: Mapping[str, Sequence[Timeline]]

    @classmethod
    def of(cls, timelines: Mapping[int, Timeline]) -> 'Snapshot':
        kinds: dict[str, list[Timeline]] = {}
        for each in timelines.values():
            kinds.setdefault(each.unit.kind, []).append(each)
        return cls(timelines, kinds)

    def totals(self) -> calendar.Totals:
        """Return what the database says of the same units."""
        units = [each.unit for each in self.timelines.values()]
        last = max((each.id for each in units), default=0)
        return calendar.Totals(len(units), last, sum(each.generation for each in units))


class Index:
    """Reads snapshots of the calendar. Any thread may use it."""

    def __init__(self) -> None:
        self._first = threading.Lock()
        self._lock = threading.Lock()
        self._seen: datetime.datetime | None = None
        self._snapshot = Snapshot({}, {})
        #: Generations of units that changed since :data:`LATE` before ``_seen``, and when.
        self._recent: dict[int, tuple[datetime.datetime, int]] = {}
        self._doubtful: set[int] = set()
        self._doubted = False
        self._texts: dict[Any, Any] = {}

    def refresh(self, session: orm.Session) -> tuple[datetime.datetime, bool]:
        """Read what changed since the last time.

        One statement, and one more if something did.

        :returns: the time by the clock of the database, and whether that was all that there is
        """
        if self._seen is None:
            with self._first:
                if self._seen is None:
                    return self._load(session), True
        with self._lock:
            assert self._seen is not None
            seen, doubted, self._doubted = self._seen, self._doubted, False
            doubtful, self._doubtful = self._doubtful, set()
            known = {unit_id: each for unit_id, (_, each) in self._recent.items()}
        now, found = calendar.changed(session, seen, known)
        changed = [row for row in found if self._is_newer(row[0], row[1])]
        if changed:
            self._read(session, changed, now)
        if doubtful:
            self._reload(session, doubtful, now)
        if doubted:
            self.verify(session)
        with self._lock:
            self._seen = max(now, self._seen)
            horizon = self._seen - datetime.timedelta(seconds=LATE)
            while self._recent and next(iter(self._recent.values()))[0] <= horizon:
                del self._recent[next(iter(self._recent))]
        return now, doubted

    def verify(self, session: orm.Session) -> None:
        """Look for what :meth:`refresh` has missed. One statement, and three if there is some."""
        snapshot = self._snapshot
        if calendar.totals(session) == snapshot.totals():
            return
        assert self._seen is not None, 'refresh comes first'
        there = calendar.generations(session)
        have = {each.unit.id: each.unit.generation for each in snapshot.timelines.values()}
        wrong = {unit_id for unit_id, each in there.items() if have.get(unit_id) != each}
        self._reload(session, wrong | (have.keys() - there.keys()), self._seen)

    def doubt(self, unit_ids: Collection[int] = ()) -> None:
        """Have units read again at the next refresh; without any, all of them verified."""
        with self._lock:
            self._doubtful.update(unit_ids)
            self._doubted = self._doubted or not unit_ids

    @property
    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        return self._snapshot

    def _load(self, session: orm.Session) -> datetime.datetime:
        now = utcnow.read(session)
        # The units come first: a promise that is made after that is read with a generation that
        # is too old, and its unit is read again.
        found = calendar.units(session)
        promised = calendar.promises(session, [row[0] for row in found], all_between=True)
        new = self._made(found, promised)
        with self._lock:
            self._snapshot = Snapshot.of(new)
            self._seen = now
        return now

    def _read(self, session: orm.Session, found: Sequence[Any], now: datetime.datetime) -> None:
        """Read what is promised of units that were read as newer ones."""
        promised = calendar.promises(session, sorted(row[0] for row in found))
        new = self._made(found, promised)
        with self._lock:
            # Others may have been faster, whose transaction began later.
            newer = {
                unit_id: each
                for unit_id, each in new.items()
                if self._is_newer(unit_id, each.unit.generation)
            }
            self._store(newer, now)

    def _reload(
        self, session: orm.Session, unit_ids: Collection[int], now: datetime.datetime
    ) -> None:
        """Read units whatever is known of them; those that are gone vanish."""
        found = calendar.units(session, unit_ids)
        new = self._made(found, calendar.promises(session, sorted(row[0] for row in found)))
        with self._lock:
            self._store(new, now, set(unit_ids) - new.keys())

    def _is_newer(self, unit_id: int, generation: int) -> bool:
        have = self._snapshot.timelines.get(unit_id)
        return have is None or generation > have.unit.generation

    def _made(self, found: Sequence[Any], promised: Iterable[Any]) -> dict[int, Timeline]:
        units = {row[0]: self._unit(row) for row in found}
        groups = itertools.groupby(promised, _UNIT_ID)
        entries = {unit_id: [self._entry(row) for row in group] for unit_id, group in groups}
        return {
            unit_id: Timeline(each, entries.get(unit_id, ())) for unit_id, each in units.items()
        }

    def _store(
        self,
        new: Mapping[int, Timeline],
        now: datetime.datetime,
        gone: Collection[int] = (),
    ) -> None:
        timelines = {**self._snapshot.timelines, **new}
        for unit_id in gone:
            timelines.pop(unit_id, None)
            self._recent.pop(unit_id, None)
        for unit_id, each in new.items():
            self._recent.pop(unit_id, None)
            self._recent[unit_id] = now, each.unit.generation
        self._snapshot = Snapshot.of(timelines)

    def _unit(self, row: Any) -> Unit:
        unit_id, generation, kind, pool, available, lanes, capacity, properties = row
        return Unit(
            id=unit_id,
            kind=sys.intern(kind),
            pool=sys.intern(pool),
            available=bool(available) and lanes > 0,
            capacity=self._shared(capacity),
            lanes=lanes,
            properties=json.loads(properties, object_pairs_hook=_interned),
            generation=generation,
        )

    def _entry(self, row: Any) -> Entry:
        _, start, end, lane, pieces, piece = row
        if piece is None:
            return Entry(start, end, lane)
        key = piece, pieces
        made = self._texts.get(key)
        if made is None:
            made = self._texts[key] = amounts(pieces, json.loads(piece))
        return Entry(start, end, lane, made)

    def _shared(self, text: str) -> Any:
        """Return what JSON says, the same object for the same text: there are few of them."""
        return self._texts.setdefault(text, json.loads(text))


def _interned(pairs: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """Keep names and texts of properties once for all units."""
    return {
        sys.intern(name): sys.intern(each) if type(each) is str else each for name, each in pairs
    }
