# SPDX-License-Identifier: Apache-2.0
"""Answer what is asked of the calendar: whether and when there is room, and for whom.

Nothing is written. The answers are those of one look: the first transaction to write has the
room.
"""

import dataclasses
import random
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import orm

from climate_core.calendar import preemption, queue, windows
from climate_core.calendar.index import Index
from climate_core.calendar.model import ReservationDemand, WaitingDemand, Window
from climate_core.calendar.moments import duration, moment, time_of
from climate_core.calendar.refusal import mistake, refusal
from climate_core.calendar.rooms import Search, UnitPick
from climate_core.calendar.surplus import Surplus, surplus
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together
from climate_core.calendar.work import CalendarTransaction
from climate_core.db import calendar
from climate_core.db.calendar import OwnPromise
from climate_core.db.engine import Database, TransactionRefused

#: How many looks at units a search for windows may take: a second or two.
LOOKS = 150_000


class CalendarQueries:
    """Ask the calendar of a process. Any thread may do so."""

    def __init__(self, database: Database, dice: random.Random | None = None) -> None:
        self._database = database
        self._dice = dice or random.Random()  # nosec B311 # spreads load, no secret
        self._index = Index()
        self._thread = threading.local()

    def read(self) -> None:
        """Read the changes since the last read; the first time, the whole calendar."""
        self._database.read(self._index.refresh)

    def propose(
        self, wanted: Sequence[ReservationDemand], start: datetime, end: datetime, now: datetime
    ) -> frozenset[int] | None:
        """Choose units by what is in memory, which may be old; no statement.

        :returns: their ids; None if there is no room
        """
        searches = searches_of(moment(now), wanted, start, end)
        snapshot = self._index.snapshot
        try:
            found = find_together(searches, lambda kind: snapshot.kinds.get(kind, ()), self._dice)
        except NotFitting:
            return None
        return frozenset(pick.unit_id for picks in found for pick in picks)

    def check(self, wanted: Sequence[ReservationDemand], start: datetime, end: datetime) -> None:
        """Tell whether there is room for reservations, in a transaction that only reads.

        :param start: of the lease; what its units need before comes in addition
        :raises climate_core.exceptions.NotEnough: there is not
        """
        with self._database.reader() as session:
            work = self._work(session)
            try:
                self._find(work, wanted, searches_of(work.now, wanted, start, end))
            except TransactionRefused as exc:
                refused = exc
            else:
                return
        raise refused.explain()

    def find_preempted(
        self,
        wanted: Sequence[ReservationDemand],
        start: datetime,
        end: datetime,
        promises: Mapping[str, Sequence[OwnPromise]],
    ) -> list[str]:
        """Find the leases without whose promises there would be room; see :mod:`.preemption`.

        :param promises: what leases are promised that may be taken, the youngest first
        :returns: their ids; nothing if there would be none without all of them either
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
            searches = searches_of(work.now, wanted, start, end)

            def is_enough(leases: Sequence[str]) -> bool:
                kinds = work.kinds([own for lease_id in leases for own in promises[lease_id]])
                try:
                    find_together(searches, kinds, self._dice)
                except NotFitting:
                    return False
                return True

            return preemption.choose(list(promises), is_enough)

    def shortage(
        self, wanted: ReservationDemand, start: datetime, end: datetime
    ) -> tuple[int, set[int]]:
        """Count the pieces that a reservation lacks.

        :returns: how many, and the ids of the units that would do if they took promises
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        kinds, demand = work.kinds(), wanted.demand
        missing = 0
        try:
            find_together(searches_of(work.now, [wanted], start, end), kinds, self._dice)
        except NotFitting as exc:
            missing = demand.least - exc.count
        units = (each.unit for each in kinds(demand.kind))
        return missing, {each.id for each in units if not each.available and demand.matches(each)}

    def surplus(self, kind: str) -> list[Surplus]:
        """Find what is promised of units that became too small for it; see :meth:`read`.

        No statement if none is known to be.
        """
        if not self._index.too_small(kind):
            return []
        with self._database.reader() as session:
            now, _ = self._index.refresh(session)
            unit_ids = self._index.too_small(kind)
            rows = calendar.of_units(session, unit_ids)
        timelines = self._index.snapshot.timelines
        return [
            each
            for unit_id in unit_ids
            if unit_id in timelines
            for each in surplus(
                timelines[unit_id].unit,
                [own for own in rows if own.unit_id == unit_id],
                moment(now),
            )
        ]

    def windows(
        self,
        wanted: Sequence[ReservationDemand],
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
        searches = searches_of(work.now, wanted, earliest, earliest + length)
        most = duration(latest - earliest - length)
        found = []
        first = moment(earliest)
        budget = windows.SearchBudget(LOOKS)
        for delay, room in windows.changes(searches, work.kinds(), most, self._dice, budget):
            if room:
                begin = time_of(first + delay)
                found.append(Window(begin, begin + length))
                if len(found) == limit:
                    break
        if not found:
            for index in range(len(wanted)):
                wrong = mistake(wanted, searches, index, work.kinds())
                if wrong is not None:
                    raise wrong
        return found

    def fitting(self, waiting: Iterable[WaitingDemand]) -> Iterator[queue.SearchResult]:
        """Find which of the leases that wait have enough now, in their order; see :mod:`.queue`.

        Where very much waits, the last ones of a project are not searched: nothing is yielded.
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        searched = [
            queue.QueuedLease(
                searches_of(work.now, each.wanted, each.start, each.end),
                duration(each.latest),
                each.project_id,
                each.turn,
            )
            for each in waiting
        ]
        yield from queue.choose(searched, work.kinds(), self._dice, LOOKS)

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
    ) -> list[list[UnitPick]] | None:
        """Choose among units that were proposed; None if others are to be looked at, too."""
        if not proposed or getattr(self._thread, 'lost', 0) > 0:
            return None
        try:
            found = find_together(searches, work.among(proposed), self._dice)
        except NotFitting:
            return None
        return found if _all_of_it(searches, found) else None

    def _find(
        self,
        work: CalendarTransaction,
        wanted: Sequence[ReservationDemand],
        searches: Sequence[Search],
        own: Sequence[OwnPromise] = (),
        excluded: int | None = None,
        opened: Collection[int] = (),
    ) -> list[list[UnitPick]]:
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
        kinds = _opened(work.kinds(own, excluded, open_lanes), opened)
        try:
            return find_together(searches, kinds, self._dice)
        except NotFitting as exc:
            missing = exc
        if not work.verified and work.verify():
            return self._find(work, wanted, searches, own, excluded, opened)
        self._thread.lost = 0
        blamed = wanted[missing.index].reservation_id
        ends = [each.end for each in own if each.reservation_id == blamed]
        until = min(ends or (each.end for each in own), default=0)
        raise TransactionRefused(
            lambda: refusal(wanted, searches, missing, kinds, self._dice, until), blamed
        )


def _all_of_it(searches: Sequence[Search], found: Sequence[Sequence[UnitPick]]) -> bool:
    """Tell whether searches have found as much as they may have."""
    return all(
        sum(pick.pieces for pick in picks) == search.demand.most
        for search, picks in zip(searches, found, strict=True)
    )


def _opened(kinds: Kinds, opened: Collection[int]) -> Kinds:
    """Return a function whose timelines have units of these ids that take promises."""
    if not opened:
        return kinds

    def of_kind(kind: str) -> Sequence[Timeline]:
        return [
            each.changed(dataclasses.replace(each.unit, available=True))
            if each.unit.id in opened
            else each
            for each in kinds(kind)
        ]

    return of_kind


def searches_of(
    now: int, wanted: Sequence[ReservationDemand], start: datetime, end: datetime
) -> list[Search]:
    """Return the search of each demand, with the time before and after it that it keeps free.

    :param now: the moment from which on units can be had
    """
    return [
        Search(
            demand=one.demand,
            start=moment(start) - duration(one.before),
            end=moment(end) + duration(one.after),
            now=now,
        )
        for one in wanted
    ]
