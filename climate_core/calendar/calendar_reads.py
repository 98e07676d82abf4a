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
from climate_core.calendar.explain import RejectedRequest
from climate_core.calendar.index import Index
from climate_core.calendar.model import AllocationRequest, QueuedRequest, Unit, Window
from climate_core.calendar.search import (
    AllocationChoice,
    InsufficientCapacity,
    Search,
    TimelineSource,
    choose_units_jointly,
    find_missing,
)
from climate_core.calendar.timeline import Timeline, usage_levels
from climate_core.calendar.transaction import CalendarTransaction, stored_entry
from climate_core.db import calendar
from climate_core.db.calendar import StoredAllocation
from climate_core.db.engine import Database, TransactionRejected


class Overcommit(NamedTuple):
    """An allocation that exceeds the capacity of its unit, which became smaller.

    :param short: name of an amount -> capacity of the unit, and the most that is allocated of it
        during this allocation
    """

    unit_id: int
    reservation_id: str
    short: Mapping[str, tuple[int, int]]


def unit_overcommits(unit: Unit, rows: Sequence[StoredAllocation], now: int) -> list[Overcommit]:
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
            kept = kept.changed(unit, added=[stored_entry(row)])
        else:
            short = _short_amounts(unit, rows, row)
            overcommits.append(Overcommit(unit.id, row.reservation_id, short))
    return overcommits


def _short_amounts(
    unit: Unit, rows: Sequence[StoredAllocation], overcommitted: StoredAllocation
) -> dict[str, tuple[int, int]]:
    peak: dict[str, int] = {}
    for start, end, used in usage_levels(map(stored_entry, rows)):
        if start < overcommitted.end and end > overcommitted.start:
            peak |= {name: max(amount, peak.get(name, 0)) for name, amount in used.items()}
    has = {name: unit.capacity.get(name, 0) for name in overcommitted.piece or ()}
    return {name: (total, peak[name]) for name, total in has.items() if peak[name] > total}


#: Maximum number of units that a search over time checks: a second or two.
MAX_CHECKS = 150_000


class CalendarReads:
    """Answer questions about the calendar. Threads may share it."""

    def __init__(self, database: Database, rng: random.Random | None = None) -> None:
        self._database = database
        self._rng = rng or random.Random()  # nosec B311 # spreads load, no secret
        self._index = Index()
        self._thread = threading.local()

    def refresh(self) -> None:
        """Read the changes since the last read; the first time, the whole calendar."""
        self._database.read(self._index.refresh)

    def propose(
        self, requests: Sequence[AllocationRequest], start: datetime, end: datetime, now: datetime
    ) -> frozenset[int] | None:
        """Choose units in memory, which may be outdated; no statement.

        :returns: their ids; None if capacity is insufficient
        """
        searches = searches_for(to_microseconds(now), requests, start, end)
        snapshot = self._index.snapshot
        try:
            choices = choose_units_jointly(
                searches, lambda kind: snapshot.by_kind.get(kind, ()), self._rng
            )
        except InsufficientCapacity:
            return None
        return frozenset(choice.unit_id for chosen in choices for choice in chosen)

    def check_capacity(
        self, requests: Sequence[AllocationRequest], start: datetime, end: datetime
    ) -> None:
        """Check that there is sufficient capacity for reservations, in a reading transaction.

        :param start: of the lease; the time to prepare its units comes in addition
        :raises climate_core.exceptions.NotEnough: capacity is insufficient
        """
        with self._database.reader() as session:
            transaction = self._transaction(session)
            try:
                self._find(
                    transaction, requests, searches_for(transaction.now, requests, start, end)
                )
            except TransactionRejected as exc:
                refused = exc
            else:
                return
        raise refused.explain()

    def find_preempted(
        self,
        requests: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        preemptible: Mapping[str, Sequence[StoredAllocation]],
    ) -> list[str]:
        """Find the leases whose preemption provides sufficient capacity; see :mod:`.reclaim`.

        :param preemptible: lease id -> its allocations, the youngest lease first
        :returns: their ids; nothing if capacity is insufficient without all of them, too
        """
        with self._database.reader() as session:
            transaction = self._transaction(session)
            transaction.verify()
            searches = searches_for(transaction.now, requests, start, end)

            def is_enough(leases: Sequence[str]) -> bool:
                timelines_of = transaction.timeline_source(
                    [row for lease_id in leases for row in preemptible[lease_id]]
                )
                return find_missing(searches, timelines_of, self._rng) is None

            return reclaim.choose_preempted(list(preemptible), is_enough)

    def count_missing(
        self, request: AllocationRequest, start: datetime, end: datetime
    ) -> tuple[int, set[int]]:
        """Count the pieces that a reservation lacks.

        :returns: how many, and the ids of the units that would do if they were available
        """
        with self._database.reader() as session:
            transaction = self._transaction(session)
            transaction.verify()
        timelines_of, demand = transaction.timeline_source(), request.demand
        searches = searches_for(transaction.now, [request], start, end)
        missing = find_missing(searches, timelines_of, self._rng)
        units = (timeline.unit for timeline in timelines_of(demand.kind))
        closed = {unit.id for unit in units if not unit.available and demand.matches(unit)}
        return (demand.min_pieces - missing.count if missing else 0), closed

    def find_overcommits(self, kind: str) -> list[Overcommit]:
        """Find the allocations of units that became too small for them; see :meth:`refresh`.

        No statement if no such unit is known.
        """
        if not self._index.overcommitted_units(kind):
            return []
        with self._database.reader() as session:
            now, _ = self._index.refresh(session)
            unit_ids = self._index.overcommitted_units(kind)
            rows = calendar.allocations_of_units(session, unit_ids)
        timelines = self._index.snapshot.timelines
        return [
            overcommit
            for unit_id in unit_ids
            if unit_id in timelines
            for overcommit in unit_overcommits(
                timelines[unit_id].unit,
                [row for row in rows if row.unit_id == unit_id],
                to_microseconds(now),
            )
        ]

    def find_windows(
        self,
        requests: Sequence[AllocationRequest],
        length: timedelta,
        earliest: datetime,
        latest: datetime,
        limit: int,
    ) -> list[Window]:
        """Find the earliest times with sufficient capacity for all reservations of a lease.

        :param length: of the lease
        :param latest: when it ends at the latest
        :param limit: maximum number of windows. Of consecutive start times only the first is a
            window. If very much is allocated, the search ends before ``latest``.
        :raises climate_core.exceptions.ClimateError: no time has: a request names an unknown pool
            or property
        """
        with self._database.reader() as session:
            transaction = self._transaction(session)
            transaction.verify()
        searches = searches_for(transaction.now, requests, earliest, earliest + length)
        most = delta_to_microseconds(latest - earliest - length)
        found = []
        first = to_microseconds(earliest)
        budget = windows.SearchBudget(MAX_CHECKS)
        for delay, is_sufficient in windows.capacity_changes(
            searches, transaction.timeline_source(), most, self._rng, budget
        ):
            if is_sufficient:
                begin = from_microseconds(first + delay)
                found.append(Window(begin, begin + length))
                if len(found) == limit:
                    break
        if not found:
            rejected = RejectedRequest(
                requests, searches, transaction.timeline_source(), self._rng
            )
            for index in range(len(requests)):
                error = rejected.find_error(index)
                if error is not None:
                    raise error
        return found

    def find_startable(self, queued: Iterable[QueuedRequest]) -> Iterator[windows.SearchResult]:
        """Find the queued leases that have sufficient capacity now; see :mod:`.windows`.

        Of a project with very many queued leases the last are not searched, and not yielded.
        """
        with self._database.reader() as session:
            transaction = self._transaction(session)
            transaction.verify()
        searched = [
            windows.QueuedSearch(
                searches_for(transaction.now, lease.wanted, lease.start, lease.end),
                delta_to_microseconds(lease.latest),
                lease.project_id,
                lease.turn,
            )
            for lease in queued
        ]
        yield from windows.backfill(searched, transaction.timeline_source(), self._rng, MAX_CHECKS)

    def _transaction(self, session: orm.Session) -> CalendarTransaction:
        """Return the view of a transaction, which all calls in the transaction share."""
        transaction: CalendarTransaction | None = session.info.get(self._index)
        if transaction is not None:
            return transaction
        freed = session.info.get(self, ())
        if freed:
            # The index must not read what this transaction wrote.
            with self._database.reader() as other:
                transaction = CalendarTransaction(self._index, session, other)
        else:
            transaction = CalendarTransaction(self._index, session)
        session.info[self._index] = transaction
        for gone, ended in freed:
            transaction.add_released(gone, ended)
        return transaction

    def _find_proposed(
        self,
        transaction: CalendarTransaction,
        searches: Sequence[Search],
        proposed: Collection[int],
    ) -> list[list[AllocationChoice]] | None:
        """Choose among proposed units; None if the search must include all units."""
        if not proposed or getattr(self._thread, 'lost', 0) > 0:
            return None
        try:
            found = choose_units_jointly(
                searches, transaction.source_of_units(proposed), self._rng
            )
        except InsufficientCapacity:
            return None
        return found if _is_complete(searches, found) else None

    def _find(
        self,
        transaction: CalendarTransaction,
        requests: Sequence[AllocationRequest],
        searches: Sequence[Search],
        own: Sequence[StoredAllocation] = (),
        excluded: int | None = None,
        forced_available: Collection[int] = (),
    ) -> list[list[AllocationChoice]]:
        """Choose units for requests, whose own allocations count as free.

        :param excluded: a unit that is not chosen
        :raises climate_core.db.engine.TransactionRejected: capacity is insufficient; the error is
            built after the rollback
        """
        open_lanes = (
            (choice.unit_id, choice.lane, search.begin, search.end)
            for search in searches
            if search.keep
            for choice in search.own.values()
        )
        timelines_of = _force_available(
            transaction.timeline_source(own, excluded, open_lanes), forced_available
        )
        try:
            return choose_units_jointly(searches, timelines_of, self._rng)
        except InsufficientCapacity as exc:
            missing = exc
        if not transaction.verified and transaction.verify():
            return self._find(transaction, requests, searches, own, excluded, forced_available)
        self._thread.lost = 0
        blamed = requests[missing.index].reservation_id
        ends = [row.end for row in own if row.reservation_id == blamed]
        until = min(ends or (row.end for row in own), default=0)
        rejected = RejectedRequest(requests, searches, timelines_of, self._rng)
        raise TransactionRejected(lambda: rejected.explain(missing, until), blamed)


def _is_complete(searches: Sequence[Search], found: Sequence[Sequence[AllocationChoice]]) -> bool:
    """Return whether searches found as much as they may have."""
    return all(
        sum(choice.pieces for choice in choices) == search.demand.max_pieces
        for search, choices in zip(searches, found, strict=True)
    )


def _force_available(
    timelines_of: TimelineSource, forced_available: Collection[int]
) -> TimelineSource:
    """Return a source of the same timelines, in which these units are available."""
    if not forced_available:
        return timelines_of

    def of_kind(kind: str) -> Sequence[Timeline]:
        return [
            timeline.changed(dataclasses.replace(timeline.unit, available=True))
            if timeline.unit.id in forced_available
            else timeline
            for timeline in timelines_of(kind)
        ]

    return of_kind


def searches_for(
    now: int, requests: Sequence[AllocationRequest], start: datetime, end: datetime
) -> list[Search]:
    """Return the search of each request, with the time that prepares and cleans its units.

    :param now: the time from which units can be allocated
    """
    return [
        Search(
            demand=request.demand,
            start=to_microseconds(start) - delta_to_microseconds(request.before),
            end=to_microseconds(end) + delta_to_microseconds(request.after),
            now=now,
        )
        for request in requests
    ]
