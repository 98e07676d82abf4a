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

#: Nothing of a promise that begins within so many microseconds is changed but by its own lease:
#: it may be about to begin.
_SOON = 60_000_000


class CalendarTransaction:
    """The index as it was at the first look, and what the transaction itself has written since.

    :ivar now: the time of the first look
    :ivar verified: nothing that was committed before is overlooked
    """

    def __init__(
        self, index: Index, session: orm.Session, reader: orm.Session | None = None
    ) -> None:
        """Take a snapshot of the index.

        :param reader: another transaction to read it with, if this one has written already
        """
        now, self.verified = index.refresh(reader or session)
        self.now = to_microseconds(now)
        self._index = index
        # What is searched and what is written are of one moment, whatever other threads read.
        self._snapshot = index.snapshot
        self._session = session
        self._written: dict[int, Timeline] = {}
        #: Whether the database has judged all that is written here by the generations.
        self._guarded = True
        self._moved: dict[int, list[tuple[Entry, Entry]]] = collections.defaultdict(list)

    def verify(self) -> bool:
        """Find what was overlooked; tell whether there was anything.

        :raises climate_core.db.engine.Stale: that needs a transaction that has written nothing
        """
        if self._written:
            self._index.doubt()
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
        """Return a function that returns the timelines of a kind.

        :param own: promises that they shall not have
        :param excluded: a unit that shall not be there
        :param needed: lanes of units (unit, lane, start, end) that are open: what is promised in
            them for later takes other ones, if something is written for the unit
        :raises climate_core.db.engine.Stale: such a promise is not there any more
        """
        changed = {**self._written, **self._without(own)}
        snapshot = self._snapshot
        self._moved = collections.defaultdict(list)
        for unit_id, lane, start, end in needed:
            timeline = changed[unit_id]
            moved = timeline.clear(lane, start, end, self.now + _SOON)
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

    def among(self, unit_ids: Iterable[int]) -> TimelineSource:
        """Return a function that returns the timelines of a kind, only of some units."""
        self._moved = collections.defaultdict(list)
        there = self._snapshot.timelines
        seen = [self._written.get(each) or there.get(each) for each in sorted(unit_ids)]
        return lambda kind: [each for each in seen if each and each.unit.kind == kind]

    def _without(self, own: Iterable[calendar.StoredAllocation]) -> dict[int, Timeline]:
        gone = collections.defaultdict(list)
        for each in own:
            gone[each.unit_id].append(stored_entry(each))
        found = {}
        for unit_id, entries in gone.items():
            timeline = self._timeline(unit_id)
            if not all(map(timeline.has, entries)):
                raise self._lost([unit_id])
            found[unit_id] = timeline.changed(timeline.unit, without=entries)
        return found

    def write(
        self,
        gone: Sequence[calendar.StoredAllocation] = (),
        ended: Sequence[calendar.StoredAllocation] = (),
        added: Sequence[NewAllocation] = (),
    ) -> None:
        """Change what is promised: all of it in three statements at most, or nothing.

        :param ended: what ends at the time that it says here
        :raises climate_core.db.engine.Stale: what is promised of a unit has changed meanwhile
        """
        steps = collections.Counter(each.unit_id for each in added)
        old = [*gone, *ended]
        touched = sorted({each.unit_id for each in old} | steps.keys())
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
            raise self._lost(touched)
        if not self._written:
            after_commit(self._session, self._learn)
        self._apply(gone, ended, added)

    def unit(self, unit_id: int) -> Unit:
        """Return a unit as it is here."""
        return self._timeline(unit_id).unit

    def check_starting(
        self, ends: Mapping[int, int], last: int, found: Collection[calendar.StoredAllocation]
    ) -> None:
        """Check that a statement has found all that begins on units of which this writes.

        The index may know of promises that a transaction does not see that began before them.

        :param ends: since when, by the ids of the units
        :param last: until when
        :param found: what the statement found
        :raises climate_core.db.engine.Stale: it has not
        """
        known = {
            (unit_id, each.start, each.end, each.lane)
            for unit_id, first in ends.items()
            for each in self._timeline(unit_id).entries
            if first <= each.start <= last and each.end > self.now
        }
        seen = {(each.unit_id, each.start, each.end, each.lane) for each in found}
        if known != {each for each in seen if each[2] > self.now}:
            raise self._lost(sorted(ends))

    def lasts(self, own: calendar.StoredAllocation, until: int) -> int:
        """Return how long a promise can last without taking anything from another one.

        :param until: no longer than that
        """
        timeline = self._timeline(own.unit_id)
        kept = timeline.changed(timeline.unit, without=[stored_entry(own)])
        return kept.fits_until(stored_entry(own)._replace(start=max(own.end, self.now), end=until))

    def freed(
        self, gone: Sequence[calendar.StoredAllocation], ended: Sequence[calendar.StoredAllocation]
    ) -> None:
        """Note what this transaction has freed without asking here.

        :param gone: as it was
        :param ended: as it is now
        """
        self._guarded = False
        self._apply(gone, ended)

    def _learn(self) -> None:
        """Pass what was committed to the index, so that it need not be read."""
        if self._guarded:
            self._index.learn(self._written)

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
        for promise in added:
            new[promise.unit_id].append(new_entry(promise))
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
            raise self._lost([unit_id])
        return found

    def _lost(self, unit_ids: Sequence[int]) -> Stale:
        self._index.doubt(unit_ids)
        return Stale(f'units {unit_ids[:10]}')


def stored_entry(own: calendar.StoredAllocation) -> Entry:
    """Return what a timeline has of a promise that was read."""
    return Entry(own.start, own.end, own.lane, total_amounts(own.pieces, own.piece))


def new_entry(promise: NewAllocation) -> Entry:
    """Return what a timeline has of a promise."""
    taken = total_amounts(promise.pieces, promise.piece)
    return Entry(to_microseconds(promise.start), to_microseconds(promise.end), promise.lane, taken)


def _allocation_rows(
    added: Sequence[NewAllocation], generations: dict[int, int]
) -> list[dict[str, Any]]:
    """Return rows; several of one unit have one generation after the other."""
    last = dict(generations)
    written = []
    for each in added:
        last[each.unit_id] += 1
        written.append({**dataclasses.asdict(each), 'unit_generation': last[each.unit_id]})
    return written


#: What is freed within so many microseconds of its time is not late.
_ON_TIME = 5_000_000


def moves_end(own: StoredAllocation, now: int, end: int, used: bool) -> bool:
    """Tell whether a promise that is freed has another end by that.

    A piece of a unit is not cleaned for longer than it was promised: others are there, too.

    :param used: whether the unit was used until now
    """
    late = used and own.end + _ON_TIME < end and end > now
    return own.end > end or (late and own.piece is None and not own.released)


def shift_next_start(
    session: orm.Session, old: Iterable[StoredAllocation], end: int
) -> tuple[list[StoredAllocation], list[StoredAllocation]]:
    """Move the starts of promises that wait for whole units to when these are free.

    :param old: what is freed, as it was
    :param end: when the units are free
    :returns: what waited, as it was and as it is
    """
    ends = {each.unit_id: each.end for each in old if each.piece is None and not each.released}
    if not ends:
        return [], []
    first, last = min(end, *ends.values()), max(end, *ends.values())
    # No promise can be added meanwhile: the generations of the units were raised, so they are
    # locked.
    waiting = calendar.allocations_starting(
        session, ends, from_microseconds(first), from_microseconds(last), lock=True
    )
    start_dates = calendar.lease_start_dates(session, waiting)
    before, after = [], []
    for each in waiting:
        old_end = ends[each.unit_id]
        # What was held up begins when its lease does, or as soon as it can. The lease may be
        # younger than what this transaction sees.
        start_date = start_dates.get(each.reservation_id)
        start = max(end, each.start if start_date is None else to_microseconds(start_date))
        if min(old_end, end) <= each.start <= max(old_end, end) and start != each.start:
            start = min(start, each.end)
            calendar.set_start(session, each, from_microseconds(start))
            before.append(each)
            after.append(each._replace(start=start))
    return before, after


def start_later(own: StoredAllocation, start: int) -> NewAllocation:
    """Return a promise that begins later, which it does not outlive."""
    return NewAllocation(
        unit_id=own.unit_id,
        reservation_id=own.reservation_id,
        start=from_microseconds(min(start, own.end)),
        end=from_microseconds(own.end),
        pieces=own.pieces,
        piece=own.piece,
        lane=own.lane,
    )
