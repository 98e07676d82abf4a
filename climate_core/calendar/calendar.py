# SPDX-License-Identifier: Apache-2.0
"""Allocate units to reservations, and release them: chosen in memory, guarded by the database.

An allocation is a search in the index and one guarded write in the caller's transaction. If
another transaction changed the units first, the caller repeats the transaction
(:class:`climate_core.db.engine.Stale`), which searches again. Callers that change or release
the allocations of a lease must have locked the lease.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import ClassVar, Final

from oslo_log import log
from sqlalchemy import orm

from climate_common.microseconds import delta_to_microseconds, from_microseconds, to_microseconds
from climate_core.calendar.calendar_reads import CalendarReads, searches_for
from climate_core.calendar.model import AllocationRequest, NewAllocation, RetainedAllocation, Unit
from climate_core.calendar.search import AllocationChoice, Search
from climate_core.calendar.transaction import (
    CalendarTransaction,
    moves_end,
    shift_next_start,
    start_later,
)
from climate_core.db import calendar
from climate_core.db.calendar import StoredAllocation
from climate_core.db.engine import DATABASE_ERRORS, Stale
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: Maximum number of lost races by which a search draws from more units.
_MAX_LOST_RACES = 6
#: Seconds between two reads: few changes are read faster than the changes of a month.
_WARMUP_INTERVAL: Final = 600.0


class Calendar(CalendarReads):
    """Allocate units, and change and release allocations. Threads may share it."""

    def allocate(
        self,
        session: orm.Session,
        requests: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        forced_available: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> list[NewAllocation]:
        """Allocate units to new reservations, whose rows exist: to all of them or to none.

        :param forced_available: units that accept no allocations otherwise
        :param proposed: units of :meth:`propose`; other units are only searched if these do not
            have all that may be allocated, or after a lost race
        :raises climate_core.exceptions.NotEnough: capacity is insufficient
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        transaction = self._transaction(session)
        searches = self._scattered(searches_for(transaction.now, requests, start, end))
        found = self._find_proposed(transaction, searches, proposed)
        if found is None:
            found = self._find(transaction, requests, searches, forced_available=forced_available)
        added = [
            _new_allocation(request, search, choice)
            for request, search, choices in zip(requests, searches, found, strict=True)
            for choice in choices
        ]
        self._write(transaction, added=added)
        return added

    def get_unit(self, session: orm.Session, unit_id: int) -> Unit:
        """Return a unit that this transaction has allocated."""
        return self._transaction(session).unit(unit_id)

    def reallocate(
        self,
        session: orm.Session,
        requests: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        keep: bool,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[NewAllocation]:
        """Replace the allocations of reservations by what they request now.

        :param keep: whether the lease is running: the reservations keep their units, whatever has
            become of these. Surplus pieces are released, and added pieces start now. Else the
            reservations prefer their units if these are free and satisfy the request.
        :param less: id of a reservation that returns pieces -> what it keeps
        :returns: what is new or changed
        :raises climate_core.exceptions.NotEnough: capacity is insufficient; nothing is changed
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        transaction = self._transaction(session)
        own = self._own(session, requests)
        searches = [
            dataclasses.replace(
                search,
                own=_keep_only(
                    _choices(own[request.reservation_id]), less.get(request.reservation_id)
                ),
                keep=keep,
            )
            for request, search in zip(
                requests, searches_for(transaction.now, requests, start, end), strict=True
            )
        ]
        return self._change(transaction, requests, searches, own, less=less)

    def replace_unit(
        self, session: orm.Session, request: AllocationRequest, unit_id: int
    ) -> list[NewAllocation]:
        """Replace a unit that a reservation cannot keep by other units.

        It keeps its other units in any case. If the lease is running, the old allocation ends and
        the new allocation starts now.

        :returns: what is new or changed; nothing if it does not have the unit
        :raises climate_core.exceptions.NotEnough: no other unit is free; nothing is changed
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        transaction = self._transaction(session)
        own = self._own(session, [request])
        rows = own[request.reservation_id]
        lost = [row for row in rows if row.unit_id == unit_id]
        if not lost:
            return []
        pieces = sum(row.pieces for row in rows)
        demand = dataclasses.replace(request.demand, min_pieces=pieces, max_pieces=pieces)
        search = Search(
            demand=demand,
            start=lost[0].start,
            end=lost[0].end,
            own=_choices(row for row in rows if row.unit_id != unit_id),
            keep=True,
            firm=True,
            now=transaction.now,
        )
        return self._change(transaction, [request], [search], own, excluded=unit_id)

    def release(
        self,
        session: orm.Session,
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
        begin, end = to_microseconds(now), to_microseconds(now + after)
        own = calendar.allocations_of_reservations(session, used, late=True)
        gone = [row for row in own if row.start >= begin]
        old = [
            row
            for row in own
            if row.start < begin
            and moves_end(row, begin, end, row.unit_id in used[row.reservation_id])
        ]
        if not gone and not old:
            return
        ended = [row._replace(end=end) for row in old]
        calendar.raise_generations(session, {row.unit_id for row in (*gone, *ended)})
        calendar.delete_allocations(session, gone)
        for released in (True, None):
            alike = [row for row in ended if bool(row.released) is bool(released)]
            calendar.end_allocations(session, alike, now + after, released)
        waiting, earlier = shift_next_start(session, old, end)
        gone, ended = [*gone, *waiting], [*ended, *earlier]
        transaction = session.info.get(self._index)
        if transaction is None:
            session.info.setdefault(self, []).append((gone, ended))
        else:
            transaction.add_released(gone, ended)

    def extend(
        self, session: orm.Session, used: Mapping[str, Collection[int]], until: datetime
    ) -> None:
        """Extend the allocations of units that ended reservations still use.

        The next allocation of a whole unit starts later by that: it cannot use the unit before.
        Pieces are extended until another reservation has their capacity.

        :param used: reservation id -> the ids of the units that it uses
        :raises climate_core.db.engine.Stale: the race is lost; run the transaction again
        """
        last = to_microseconds(until)
        kept = [
            row
            for row in calendar.allocations_of_reservations(session, used, late=True)
            if not row.released and row.end < last and row.unit_id in used[row.reservation_id]
        ]
        if not kept:
            return
        transaction = self._transaction(session)
        whole = {row.unit_id: row.end for row in kept if row.piece is None}
        first = from_microseconds(min(whole.values(), default=last))
        found = calendar.allocations_starting(session, whole, first, until) if whole else []
        later = [row for row in found if row.start >= whole[row.unit_id]]
        transaction.check_starting(whole, last, later)
        added = [start_later(row, last) for row in later]
        longer = [
            row._replace(
                end=last if row.piece is None else transaction.extensible_until(row, last)
            )
            for row in kept
        ]
        ended = [new for new, old in zip(longer, kept, strict=True) if new != old]
        self._write(transaction, gone=later, ended=ended, added=added)

    def _own(
        self, session: orm.Session, requests: Sequence[AllocationRequest]
    ) -> collections.defaultdict[str, list[StoredAllocation]]:
        """Read the allocations of reservations that are not released."""
        found: collections.defaultdict[str, list[StoredAllocation]] = collections.defaultdict(list)
        for row in calendar.allocations_of_reservations(
            session, [request.reservation_id for request in requests]
        ):
            if not row.released:
                found[row.reservation_id].append(row)
        return found

    def _change(
        self,
        transaction: CalendarTransaction,
        requests: Sequence[AllocationRequest],
        searches: Sequence[Search],
        own: collections.defaultdict[str, list[StoredAllocation]],
        excluded: int | None = None,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[NewAllocation]:
        rows = [row for rows in own.values() for row in rows]
        found = self._find(transaction, requests, self._scattered(searches), rows, excluded)
        gone, ended, added = [], [], []
        for request, search, choices in zip(requests, searches, found, strict=True):
            before = {row.unit_id: row for row in own[request.reservation_id]}
            given = less.get(request.reservation_id)
            cleaned = delta_to_microseconds(request.after if given is None else given.cleaning)
            for choice in choices:
                old = before.pop(choice.unit_id, None)
                new = _new_allocation(request, search, choice, old)
                if old is not None and _is_same(old, new):
                    continue
                added.append(new)
                if old is not None:
                    gone.append(old)
            for old in before.values():
                if old.start > transaction.now:
                    gone.append(old)
                else:
                    end = min(old.end, transaction.now + cleaned)
                    ended.append(old._replace(end=end, released=True))
        self._write(transaction, gone, ended, added)
        return added

    def _scattered(self, searches: Sequence[Search]) -> list[Search]:
        """Return searches that draw from more units the more races this thread just lost."""
        lost = getattr(self._thread, 'lost', 0)
        return [dataclasses.replace(search, scatter=lost) for search in searches]

    def _write(
        self,
        transaction: CalendarTransaction,
        gone: Sequence[StoredAllocation] = (),
        ended: Sequence[StoredAllocation] = (),
        added: Sequence[NewAllocation] = (),
    ) -> None:
        try:
            transaction.write(gone, ended, added)
        except Stale:
            self._thread.lost = min(_MAX_LOST_RACES, getattr(self._thread, 'lost', 0) + 1)
            raise
        self._thread.lost = 0


def _choices(rows: Iterable[StoredAllocation]) -> dict[int, AllocationChoice]:
    return {row.unit_id: AllocationChoice(row.unit_id, row.pieces, row.lane) for row in rows}


def _keep_only(
    choices: Mapping[int, AllocationChoice], less: RetainedAllocation | None
) -> Mapping[int, AllocationChoice]:
    """Return what a reservation keeps of its units."""
    if less is None:
        return choices
    left = (
        choice._replace(pieces=less.left.get(choice.unit_id, 0)) for choice in choices.values()
    )
    return {choice.unit_id: choice for choice in left if choice.pieces}


def _new_allocation(
    request: AllocationRequest,
    search: Search,
    choice: AllocationChoice,
    old: StoredAllocation | None = None,
) -> NewAllocation:
    """Return an allocation. If it has started, it keeps its start, whatever that of the lease."""
    started = old is not None and old.start <= search.now
    return NewAllocation(
        unit_id=choice.unit_id,
        reservation_id=request.reservation_id,
        start=from_microseconds(old.start if started and old else search.begin),
        end=from_microseconds(search.end),
        pieces=choice.pieces,
        piece=search.demand.piece,
        lane=choice.lane,
    )


def _is_same(old: StoredAllocation, new: NewAllocation) -> bool:
    return (old.start, old.end, old.lane, old.pieces, old.piece) == (
        to_microseconds(new.start),
        to_microseconds(new.end),
        new.lane,
        new.pieces,
        new.piece,
    )


class CalendarWarmup(Worker):
    """Read the calendar at the start, and its changes every few minutes, in a dedicated thread."""

    name = 'calendar'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = DATABASE_ERRORS
    failure_message = 'The calendar was not read; each request that needs it reads it'

    def __init__(self, calendar: Calendar) -> None:
        super().__init__(_WARMUP_INTERVAL)
        self._calendar = calendar
        self._logged = False

    def poll(self) -> None:
        self._calendar.refresh()
        if not self._logged:
            self._logged = True
            LOG.info('The calendar is in memory')
