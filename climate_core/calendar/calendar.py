# SPDX-License-Identifier: Apache-2.0
"""Allocate units to reservations, and release them: chosen in memory, guarded by the database.

An allocation is a search in the index and one guarded write in the caller's transaction. If
another transaction changed the units first, the caller repeats the transaction
(:class:`climate_core.db.engine.Stale`), which searches again. Callers that change or release
the allocations of a lease must have locked the lease.
"""

import collections
import dataclasses
import random
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Final

from oslo_log import log
from sqlalchemy import orm

from climate_common.dates import delta_to_microseconds, from_microseconds, to_microseconds
from climate_core import exceptions
from climate_core.calendar import windows
from climate_core.calendar.explain import Rejection
from climate_core.calendar.index import Index
from climate_core.calendar.model import Demand, QueuedRequest, RetainedAllocation, Window
from climate_core.calendar.preemption import choose_preempted
from climate_core.calendar.search import (
    InsufficientCapacity,
    JointSearch,
    Search,
    searches_for,
)
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.calendar.unit_timeline import Overcommit, find_overcommits
from climate_core.concurrency import SearchBudget
from climate_core.db import calendar
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale, TransactionRejected
from climate_core.lease.model import Allocation
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: Maximum number of lost races by which a search draws from more units.
_MAX_LOST_RACES: Final = 6
#: Maximum number of units that a search over time checks: a second or two.
MAX_CHECKS: Final = 150_000
#: Seconds between two reads: few changes are read faster than the changes of a month.
_WARMUP_INTERVAL: Final = 600.0

#: The allocations of reservations, by their ids.
_OwnAllocations = Mapping[str, Sequence[Allocation]]


class CapacityRejected(TransactionRejected):
    """Capacity is insufficient for the demands of a transaction."""

    def __init__(self, rejection: Rejection, missing: InsufficientCapacity, until: int) -> None:
        """Keep what the explanation needs.

        :param until: when the allocations end that a lease has so far
        """
        super().__init__(rejection.searches[missing.index].demand.reservation_id)
        self._rejection = rejection
        self._missing = missing
        self._until = until

    def explain(self) -> exceptions.ClimateError:
        return self._rejection.explain(self._missing, self._until)


class Calendar:
    """Allocate and release units, and search for capacity. Threads may share it.

    An answer of a search is that of one transaction: the first transaction that writes gets the
    capacity.
    """

    def __init__(self, database: Database, rng: random.Random | None = None) -> None:
        self._database = database
        self._rng = rng or random.Random()  # nosec B311 # spreads load, no secret
        self._index = Index()
        #: The number of races that each thread just lost: it repeats the lost transaction.
        self._thread = threading.local()

    def transaction(self, session: orm.Session) -> CalendarTransaction:
        """Return the view of a transaction, which all calls in the transaction must share."""
        return CalendarTransaction(self._index, self._database, session)

    def refresh(self) -> None:
        """Read the changes since the last read; the first time, the whole calendar."""
        self._database.read(self._index.refresh)

    def propose(
        self, demands: Sequence[Demand], start: datetime, end: datetime, now: datetime
    ) -> frozenset[int] | None:
        """Choose units in memory, which may be outdated; no statement.

        :returns: their ids; None if capacity is insufficient
        """
        searches = searches_for(to_microseconds(now), demands, start, end)
        try:
            choices = JointSearch(searches, self._index.snapshot.by_kind, self._rng).choose()
        except InsufficientCapacity:
            return None
        return frozenset(allocation.unit_id for chosen in choices for allocation in chosen)

    def allocate(
        self,
        transaction: CalendarTransaction,
        demands: Sequence[Demand],
        start: datetime,
        end: datetime,
        forced_available: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> list[Allocation]:
        """Allocate units to new reservations, whose rows exist: to all of them or to none.

        :param forced_available: units that accept no allocations otherwise
        :param proposed: units of :meth:`propose`; other units are only searched if these do not
            have all that may be allocated, or after a lost race
        :raises climate_core.exceptions.NotEnough: capacity is insufficient
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        searches = self._scattered(searches_for(transaction.now, demands, start, end))
        choices = self._choose_proposed(transaction, searches, proposed)
        if choices is None:
            choices = self._choose(transaction, searches, forced_available=forced_available)
        added = [allocation for chosen in choices for allocation in chosen]
        self._write(transaction, added=added)
        return added

    def reallocate(
        self,
        transaction: CalendarTransaction,
        demands: Sequence[Demand],
        start: datetime,
        end: datetime,
        keep: bool,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[Allocation]:
        """Replace the allocations of reservations by what they demand now.

        :param keep: whether the lease is running: the reservations keep their units, whatever has
            become of these. Surplus pieces are released, and added pieces start now. Else the
            reservations prefer their units if these are free and satisfy the demand.
        :param less: id of a reservation that returns pieces -> what it keeps
        :returns: what is new or changed
        :raises climate_core.exceptions.NotEnough: capacity is insufficient; nothing is changed
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        searches = searches_for(transaction.now, demands, start, end)
        own = _read_own(transaction, demands)
        searches = [
            dataclasses.replace(
                search,
                own=_keep_only(own[demand.reservation_id], less.get(demand.reservation_id)),
                keep=keep,
            )
            for demand, search in zip(demands, searches, strict=True)
        ]
        return self._change(transaction, searches, own, less=less)

    def replace_unit(
        self, transaction: CalendarTransaction, demand: Demand, unit_id: int
    ) -> list[Allocation]:
        """Replace a unit that a reservation cannot keep by other units.

        It keeps its other units in any case. If the lease is running, the old allocation ends and
        the new allocation starts now.

        :returns: what is new or changed; nothing if it does not have the unit
        :raises climate_core.exceptions.NotEnough: no other unit is free; nothing is changed
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        now = transaction.now
        own = _read_own(transaction, [demand])
        rows = own[demand.reservation_id]
        lost = [row for row in rows if row.unit_id == unit_id]
        if not lost:
            return []
        pieces = sum(row.pieces for row in rows)
        search = Search(
            demand=dataclasses.replace(demand, min_pieces=pieces, max_pieces=pieces),
            start=lost[0].start,
            end=lost[0].end,
            own={row.unit_id: row for row in rows if row.unit_id != unit_id},
            keep=True,
            firm=True,
            now=now,
        )
        return self._change(transaction, [search], own, excluded=unit_id)

    def release(
        self,
        transaction: CalendarTransaction,
        used: Mapping[str, Collection[int]],
        now: datetime,
        after: timedelta = timedelta(0),
    ) -> None:
        """Release the allocations of reservations. It always succeeds.

        Allocations that have not started are deleted.

        :param used: reservation id -> the ids of the units that it used until now; allocations of
            other units that ended before stay as they are
        :param after: how long units that were in use are cleaned
        """
        transaction.release(used, to_microseconds(now), to_microseconds(now + after))

    def extend(
        self,
        transaction: CalendarTransaction,
        used: Mapping[str, Collection[int]],
        until: datetime,
    ) -> None:
        """Extend the allocations of units that ended reservations still use.

        The next allocation of a whole unit starts later by that: it cannot use the unit before.
        Pieces are extended until another reservation has their capacity.

        :param used: reservation id -> the ids of the units that it uses
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        session, last = transaction.session, to_microseconds(until)
        kept = [
            row
            for row in calendar.allocations_of_reservations(session, used, late=True)
            if not row.released and row.end < last and row.unit_id in used[row.reservation_id]
        ]
        if not kept:
            return
        # The snapshot comes before the next statement, which must have read all that it has.
        _ = transaction.snapshot
        whole = {row.unit_id: row.end for row in kept if row.piece is None}
        first = from_microseconds(min(whole.values(), default=last))
        starting = calendar.allocations_starting(session, whole, first, until) if whole else []
        later = [row for row in starting if row.start >= whole[row.unit_id]]
        transaction.check_starting(whole, last, later)
        added = [row._replace(start=min(last, row.end), released=None) for row in later]
        longer = [
            row._replace(
                end=last if row.piece is None else transaction.extensible_until(row, last)
            )
            for row in kept
        ]
        ended = [new for new, old in zip(longer, kept, strict=True) if new != old]
        self._write(transaction, deleted=later, ended=ended, added=added)

    def check_capacity(self, demands: Sequence[Demand], start: datetime, end: datetime) -> None:
        """Check that there is sufficient capacity for reservations, in a reading transaction.

        :param start: of the lease
        :raises climate_core.exceptions.NotEnough: capacity is insufficient
        """
        with self._database.reader() as session:
            transaction = self.transaction(session)
            try:
                self._choose(transaction, searches_for(transaction.now, demands, start, end))
            except TransactionRejected as exc:
                rejected = exc
            else:
                return
        raise rejected.explain()

    def find_candidates(
        self, demands: Sequence[Demand], start: datetime, end: datetime
    ) -> list[Allocation]:
        """Return what :meth:`allocate` could allocate; empty: capacity is insufficient."""
        with self._database.reader() as session:
            transaction = self.transaction(session)
            searches = searches_for(transaction.now, demands, start, end)
            try:
                choices = self._choose(transaction, searches)
            except CapacityRejected:
                return []
        return [allocation for chosen in choices for allocation in chosen]

    def describe_units(self, unit_ids: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        """Return the capacity and the properties of the units that exist."""
        timelines = self._read_verified().snapshot.timelines if unit_ids else {}
        units = [timelines[each].unit for each in unit_ids if each in timelines]
        return {each.id: {**each.capacity, **each.properties} for each in units}

    def find_preempted(
        self,
        demands: Sequence[Demand],
        start: datetime,
        end: datetime,
        preemptible: Mapping[str, Sequence[Allocation]],
    ) -> list[str]:
        """Find the leases whose preemption provides sufficient capacity.

        :param preemptible: lease id -> its allocations, the youngest lease first
        :returns: their ids, see :func:`.choose_preempted`; nothing if capacity is insufficient
            without all of them, too
        """
        with self._database.reader() as session:
            transaction = self.transaction(session)
            transaction.verify()
            searches = searches_for(transaction.now, demands, start, end)

            def is_enough(lease_ids: Sequence[str]) -> bool:
                by_kind = transaction.timelines(
                    [row for lease_id in lease_ids for row in preemptible[lease_id]]
                )
                return JointSearch(searches, by_kind, self._rng).find_missing() is None

            return choose_preempted(list(preemptible), is_enough)

    def count_missing(
        self, demand: Demand, start: datetime, end: datetime
    ) -> tuple[int, set[int]]:
        """Count the pieces that a reservation lacks.

        :returns: how many, and the ids of the units that would match if they were available
        """
        transaction = self._read_verified()
        by_kind = transaction.timelines()
        searches = searches_for(transaction.now, [demand], start, end)
        missing = JointSearch(searches, by_kind, self._rng).find_missing()
        units = (line.unit for line in by_kind.get(demand.kind, ()))
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
            for overcommit in find_overcommits(
                timelines[unit_id].unit,
                [row for row in rows if row.unit_id == unit_id],
                to_microseconds(now),
            )
        ]

    def find_windows(
        self,
        demands: Sequence[Demand],
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
        :raises climate_core.exceptions.ClimateError: no time has: a demand names an unknown pool
            or property
        """
        transaction = self._read_verified()
        searches = searches_for(transaction.now, demands, earliest, earliest + length)
        most = delta_to_microseconds(latest - earliest - length)
        found = []
        first = to_microseconds(earliest)
        search = Rejection(searches, transaction.timelines(), self._rng)
        for delay, is_sufficient in windows.capacity_changes(
            search, most, SearchBudget(MAX_CHECKS)
        ):
            if is_sufficient:
                begin = from_microseconds(first + delay)
                found.append(Window(begin, begin + length))
                if len(found) == limit:
                    break
        for index in range(len(demands) if not found else 0):
            error = search.find_error(index)
            if error is not None:
                raise error
        return found

    def find_startable(self, queued: Iterable[QueuedRequest]) -> Iterator[windows.SearchResult]:
        """Find the queued leases that have sufficient capacity now; see :mod:`.windows`.

        Of a project with very many queued leases the last are not searched, and not yielded.
        """
        transaction = self._read_verified()
        yield from windows.backfill(
            list(queued), transaction.now, transaction.timelines(), self._rng, MAX_CHECKS
        )

    def _read_verified(self) -> CalendarTransaction:
        """Return the view of a reading transaction, which has ended."""
        with self._database.reader() as session:
            transaction = self.transaction(session)
            transaction.verify()
        return transaction

    def _choose_proposed(
        self,
        transaction: CalendarTransaction,
        searches: Sequence[Search],
        proposed: Collection[int],
    ) -> list[list[Allocation]] | None:
        """Choose among proposed units; None if the search must include all units."""
        if not proposed or getattr(self._thread, 'lost', 0) > 0:
            return None
        try:
            choices = JointSearch(
                searches, transaction.timelines_of_units(proposed), self._rng
            ).choose()
        except InsufficientCapacity:
            return None
        is_complete = all(
            sum(allocation.pieces for allocation in chosen) == search.demand.max_pieces
            for search, chosen in zip(searches, choices, strict=True)
        )
        return choices if is_complete else None

    def _choose(
        self,
        transaction: CalendarTransaction,
        searches: Sequence[Search],
        own: Sequence[Allocation] = (),
        excluded: int | None = None,
        forced_available: Collection[int] = (),
    ) -> list[list[Allocation]]:
        """Choose units for demands, whose own allocations count as free.

        :param excluded: a unit that is not chosen
        :raises CapacityRejected: capacity is insufficient
        """
        needed = [
            (allocation.unit_id, allocation.lane, search.begin, search.end)
            for search in searches
            if search.keep
            for allocation in search.own.values()
        ]
        while True:
            by_kind = transaction.timelines(own, excluded, needed, forced_available)
            try:
                return JointSearch(searches, by_kind, self._rng).choose()
            except InsufficientCapacity as exc:
                missing = exc
            if not transaction.read_missed():
                break
        self._thread.lost = 0
        blamed = searches[missing.index].demand.reservation_id
        ends = [row.end for row in own if row.reservation_id == blamed]
        until = min(ends or (row.end for row in own), default=0)
        rejection = Rejection(searches, by_kind, self._rng)
        raise CapacityRejected(rejection, missing, until)

    def _change(
        self,
        transaction: CalendarTransaction,
        searches: Sequence[Search],
        own: _OwnAllocations,
        excluded: int | None = None,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[Allocation]:
        rows = [row for rows in own.values() for row in rows]
        joint_choices = self._choose(transaction, self._scattered(searches), rows, excluded)
        deleted, ended, added = [], [], []
        for search, choices in zip(searches, joint_choices, strict=True):
            demand = search.demand
            before = {row.unit_id: row for row in own[demand.reservation_id]}
            for allocation in choices:
                old = before.pop(allocation.unit_id, None)
                if old is None:
                    added.append(allocation)
                    continue
                # If it has started, it keeps its start, whatever that of the lease.
                start = old.start if old.start <= transaction.now else allocation.start
                new = allocation._replace(start=start)
                if not _is_same(old, new):
                    added.append(new)
                    deleted.append(old)
            given = less.get(demand.reservation_id)
            cleaned = delta_to_microseconds(demand.after if given is None else given.cleaning)
            for old in before.values():
                if old.start > transaction.now:
                    deleted.append(old)
                else:
                    end = min(old.end, transaction.now + cleaned)
                    ended.append(old._replace(end=end, released=True))
        self._write(transaction, deleted, ended, added)
        return added

    def _scattered(self, searches: Sequence[Search]) -> list[Search]:
        """Return searches that draw from more units the more races this thread just lost."""
        lost = getattr(self._thread, 'lost', 0)
        return [dataclasses.replace(search, scatter=lost) for search in searches]

    def _write(
        self,
        transaction: CalendarTransaction,
        deleted: Sequence[Allocation] = (),
        ended: Sequence[Allocation] = (),
        added: Sequence[Allocation] = (),
    ) -> None:
        try:
            transaction.write(deleted, ended, added)
        except Stale:
            self._thread.lost = min(_MAX_LOST_RACES, getattr(self._thread, 'lost', 0) + 1)
            raise
        self._thread.lost = 0


def _read_own(
    transaction: CalendarTransaction, demands: Sequence[Demand]
) -> collections.defaultdict[str, list[Allocation]]:
    """Read the allocations of reservations that are not released."""
    own = collections.defaultdict[str, list[Allocation]](list)
    ids = [demand.reservation_id for demand in demands]
    for row in calendar.allocations_of_reservations(transaction.session, ids):
        if not row.released:
            own[row.reservation_id].append(row)
    return own


def _keep_only(
    rows: Iterable[Allocation], less: RetainedAllocation | None
) -> Mapping[int, Allocation]:
    """Return what a reservation keeps of its units, by their ids."""
    if less is None:
        return {row.unit_id: row for row in rows}
    left = (row._replace(pieces=less.left.get(row.unit_id, 0)) for row in rows)
    return {row.unit_id: row for row in left if row.pieces}


def _is_same(old: Allocation, new: Allocation) -> bool:
    return (old.start, old.end, old.lane, old.pieces, old.piece) == (
        new.start,
        new.end,
        new.lane,
        new.pieces,
        new.piece,
    )


class CalendarWarmup(Worker):
    """Read the calendar at the start, and its changes every few minutes, in a dedicated thread."""

    name = 'calendar'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = DATABASE_ERRORS
    failure_message = 'Could not read the calendar; each request that needs it reads it'

    def __init__(self, calendar: Calendar) -> None:
        super().__init__(_WARMUP_INTERVAL)
        self._calendar = calendar
        self._logged = False

    def poll(self) -> None:
        self._calendar.refresh()
        if not self._logged:
            self._logged = True
            LOG.info('The calendar is in memory')
