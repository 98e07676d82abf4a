# SPDX-License-Identifier: Apache-2.0
"""Read the calendar: when and for which leases capacity suffices, and overcommitted units.

Nothing is written. An answer is that of one transaction: the first transaction that writes gets
the capacity.
"""

import dataclasses
import random
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import orm

from climate_common.microseconds import delta_to_microseconds, from_microseconds, to_microseconds
from climate_core.calendar import reclaim, windows
from climate_core.calendar.explain import explain_rejection, find_request_error
from climate_core.calendar.index import Index
from climate_core.calendar.model import AllocationRequest, QueuedRequest, Unit, Window
from climate_core.calendar.search import (
    AllocationChoice,
    InsufficientCapacity,
    Search,
    TimelineSource,
    choose_units_jointly,
)
from climate_core.calendar.timeline import Timeline, usage_levels
from climate_core.calendar.transaction import CalendarTransaction, stored_entry
from climate_core.db import calendar
from climate_core.db.calendar import StoredAllocation
from climate_core.db.engine import Database, TransactionRefused


class Overcommit(NamedTuple):
    """A promise that does not fit.

    :param short: the names of the amounts that are short -> what the unit has, and the most that
        is promised of it in the time of this promise
    """

    unit_id: int
    reservation_id: str
    short: Mapping[str, tuple[int, int]]


def unit_overcommits(unit: Unit, rows: Sequence[StoredAllocation], now: int) -> list[Overcommit]:
    """Return the promises for which a unit has no room beside older ones.

    Those that have begun come first, then the oldest ones.

    :param rows: all that is promised of it and is not over
    """
    kept = Timeline(unit)
    found = []
    for own in sorted(rows, key=lambda each: (each.start > now, each.unit_generation)):
        # What was given up is left as it is until it is empty.
        if own.piece is None or own.released or _fits(kept, own):
            kept = kept.changed(unit, added=[stored_entry(own)])
        else:
            found.append(Overcommit(unit.id, own.reservation_id, _short_amounts(unit, rows, own)))
    return found


def _fits(kept: Timeline, own: StoredAllocation) -> bool:
    return kept.fits(own.start, own.end, own.piece, own.pieces) >= own.pieces


def _short_amounts(
    unit: Unit, rows: Sequence[StoredAllocation], own: StoredAllocation
) -> dict[str, tuple[int, int]]:
    most: dict[str, int] = {}
    for start, end, used in usage_levels(map(stored_entry, rows)):
        if start < own.end and end > own.start:
            most |= {name: max(each, most.get(name, 0)) for name, each in used.items()}
    has = {name: unit.capacity.get(name, 0) for name in own.piece or ()}
    return {name: (each, most[name]) for name, each in has.items() if most[name] > each}


#: How many looks at units a search for windows may take: a second or two.
MAX_CHECKS = 150_000


class CalendarReads:
    """Ask the calendar of a process. Any thread may do so."""

    def __init__(self, database: Database, rng: random.Random | None = None) -> None:
        self._database = database
        self._rng = rng or random.Random()  # nosec B311 # spreads load, no secret
        self._index = Index()
        self._thread = threading.local()

    def refresh(self) -> None:
        """Read the changes since the last read; the first time, the whole calendar."""
        self._database.read(self._index.refresh)

    def propose(
        self, wanted: Sequence[AllocationRequest], start: datetime, end: datetime, now: datetime
    ) -> frozenset[int] | None:
        """Choose units by what is in memory, which may be old; no statement.

        :returns: their ids; None if there is no room
        """
        searches = searches_for(to_microseconds(now), wanted, start, end)
        snapshot = self._index.snapshot
        try:
            found = choose_units_jointly(
                searches, lambda kind: snapshot.by_kind.get(kind, ()), self._rng
            )
        except InsufficientCapacity:
            return None
        return frozenset(pick.unit_id for picks in found for pick in picks)

    def check_capacity(
        self, wanted: Sequence[AllocationRequest], start: datetime, end: datetime
    ) -> None:
        """Tell whether there is room for reservations, in a transaction that only reads.

        :param start: of the lease; what its units need before comes in addition
        :raises climate_core.exceptions.NotEnough: there is not
        """
        with self._database.reader() as session:
            work = self._work(session)
            try:
                self._find(work, wanted, searches_for(work.now, wanted, start, end))
            except TransactionRefused as exc:
                refused = exc
            else:
                return
        raise refused.explain()

    def find_preempted(
        self,
        wanted: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        promises: Mapping[str, Sequence[StoredAllocation]],
    ) -> list[str]:
        """Find the leases without whose promises there would be room; see :mod:`.preemption`.

        :param promises: what leases are promised that may be taken, the youngest first
        :returns: their ids; nothing if there would be none without all of them either
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
            searches = searches_for(work.now, wanted, start, end)

            def is_enough(leases: Sequence[str]) -> bool:
                timelines_of = work.timeline_source(
                    [own for lease_id in leases for own in promises[lease_id]]
                )
                try:
                    choose_units_jointly(searches, timelines_of, self._rng)
                except InsufficientCapacity:
                    return False
                return True

            return reclaim.choose_preempted(list(promises), is_enough)

    def shortage(
        self, wanted: AllocationRequest, start: datetime, end: datetime
    ) -> tuple[int, set[int]]:
        """Count the pieces that a reservation lacks.

        :returns: how many, and the ids of the units that would do if they took promises
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        timelines_of, demand = work.timeline_source(), wanted.demand
        missing = 0
        try:
            choose_units_jointly(
                searches_for(work.now, [wanted], start, end), timelines_of, self._rng
            )
        except InsufficientCapacity as exc:
            missing = demand.least - exc.count
        units = (each.unit for each in timelines_of(demand.kind))
        return missing, {each.id for each in units if not each.available and demand.matches(each)}

    def find_overcommits(self, kind: str) -> list[Overcommit]:
        """Find what is promised of units that became too small for it; see :meth:`refresh`.

        No statement if none is known to be.
        """
        if not self._index.overcommitted_units(kind):
            return []
        with self._database.reader() as session:
            now, _ = self._index.refresh(session)
            unit_ids = self._index.overcommitted_units(kind)
            rows = calendar.allocations_of_units(session, unit_ids)
        timelines = self._index.snapshot.timelines
        return [
            each
            for unit_id in unit_ids
            if unit_id in timelines
            for each in unit_overcommits(
                timelines[unit_id].unit,
                [own for own in rows if own.unit_id == unit_id],
                to_microseconds(now),
            )
        ]

    def find_windows(
        self,
        wanted: Sequence[AllocationRequest],
        length: timedelta,
        earliest: datetime,
        latest: datetime,
        limit: int,
    ) -> list[Window]:
        """Find the earliest times at which there would be room for reservations together.

        :param length: of the lease
        :param latest: when it ends at the latest
        :param limit: so many at most; each is the first one of those that follow each other
            without a break. Where very much is promised it is not looked at all of the time.
        :raises climate_core.exceptions.ClimateError: there never is: what is wanted names a pool
            or a property that nothing has which could be promised to those who ask
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        searches = searches_for(work.now, wanted, earliest, earliest + length)
        most = delta_to_microseconds(latest - earliest - length)
        found = []
        first = to_microseconds(earliest)
        budget = windows.SearchBudget(MAX_CHECKS)
        for delay, room in windows.capacity_changes(
            searches, work.timeline_source(), most, self._rng, budget
        ):
            if room:
                begin = from_microseconds(first + delay)
                found.append(Window(begin, begin + length))
                if len(found) == limit:
                    break
        if not found:
            for index in range(len(wanted)):
                wrong = find_request_error(wanted, searches, index, work.timeline_source())
                if wrong is not None:
                    raise wrong
        return found

    def find_startable(self, waiting: Iterable[QueuedRequest]) -> Iterator[windows.SearchResult]:
        """Find which of the leases that wait have enough now, in their order; see :mod:`.queue`.

        Where very much waits, the last ones of a project are not searched: nothing is yielded.
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        searched = [
            windows.QueuedSearch(
                searches_for(work.now, each.wanted, each.start, each.end),
                delta_to_microseconds(each.latest),
                each.project_id,
                each.turn,
            )
            for each in waiting
        ]
        yield from windows.backfill(searched, work.timeline_source(), self._rng, MAX_CHECKS)

    def _work(self, session: orm.Session) -> CalendarTransaction:
        """Return what this transaction has seen and written, in all its calls."""
        work: CalendarTransaction | None = session.info.get(self._index)
        if work is not None:
            return work
        freed = session.info.get(self, ())
        if freed:
            # The index must not see what this transaction wrote.
            with self._database.reader() as other:
                work = CalendarTransaction(self._index, session, other)
        else:
            work = CalendarTransaction(self._index, session)
        session.info[self._index] = work
        for gone, ended in freed:
            work.freed(gone, ended)
        return work

    def _find_proposed(
        self, work: CalendarTransaction, searches: Sequence[Search], proposed: Collection[int]
    ) -> list[list[AllocationChoice]] | None:
        """Choose among units that were proposed; None if others are to be looked at, too."""
        if not proposed or getattr(self._thread, 'lost', 0) > 0:
            return None
        try:
            found = choose_units_jointly(searches, work.among(proposed), self._rng)
        except InsufficientCapacity:
            return None
        return found if _is_complete(searches, found) else None

    def _find(
        self,
        work: CalendarTransaction,
        wanted: Sequence[AllocationRequest],
        searches: Sequence[Search],
        own: Sequence[StoredAllocation] = (),
        excluded: int | None = None,
        forced_available: Collection[int] = (),
    ) -> list[list[AllocationChoice]]:
        """Choose units; what reservations have themselves is free for them, but for one unit.

        :raises climate_core.db.engine.TransactionRefused: there is no room; the error that is to
            explain it is made after the rollback
        """
        open_lanes = (
            (pick.unit_id, pick.lane, search.begin, search.end)
            for search in searches
            if search.keep
            for pick in search.own.values()
        )
        timelines_of = _force_available(
            work.timeline_source(own, excluded, open_lanes), forced_available
        )
        try:
            return choose_units_jointly(searches, timelines_of, self._rng)
        except InsufficientCapacity as exc:
            missing = exc
        if not work.verified and work.verify():
            return self._find(work, wanted, searches, own, excluded, forced_available)
        self._thread.lost = 0
        blamed = wanted[missing.index].reservation_id
        ends = [each.end for each in own if each.reservation_id == blamed]
        until = min(ends or (each.end for each in own), default=0)
        raise TransactionRefused(
            lambda: explain_rejection(wanted, searches, missing, timelines_of, self._rng, until),
            blamed,
        )


def _is_complete(searches: Sequence[Search], found: Sequence[Sequence[AllocationChoice]]) -> bool:
    """Tell whether searches have found as much as they may have."""
    return all(
        sum(pick.pieces for pick in picks) == search.demand.most
        for search, picks in zip(searches, found, strict=True)
    )


def _force_available(
    timelines_of: TimelineSource, forced_available: Collection[int]
) -> TimelineSource:
    """Return a function whose timelines have units of these ids that take promises."""
    if not forced_available:
        return timelines_of

    def of_kind(kind: str) -> Sequence[Timeline]:
        return [
            each.changed(dataclasses.replace(each.unit, available=True))
            if each.unit.id in forced_available
            else each
            for each in timelines_of(kind)
        ]

    return of_kind


def searches_for(
    now: int, wanted: Sequence[AllocationRequest], start: datetime, end: datetime
) -> list[Search]:
    """Return the search of each demand, with the time before and after it that it keeps free.

    :param now: the moment from which on units can be had
    """
    return [
        Search(
            demand=one.demand,
            start=to_microseconds(start) - delta_to_microseconds(one.before),
            end=to_microseconds(end) + delta_to_microseconds(one.after),
            now=now,
        )
        for one in wanted
    ]
