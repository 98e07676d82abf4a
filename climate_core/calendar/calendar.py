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
from climate_core.calendar import transaction
from climate_core.calendar.calendar_reads import CalendarReads, searches_for
from climate_core.calendar.model import AllocationRequest, NewAllocation, RetainedAllocation, Unit
from climate_core.calendar.search import AllocationChoice, Search
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.db import calendar
from climate_core.db.calendar import StoredAllocation
from climate_core.db.engine import TROUBLE, Stale
from climate_core.threads import Worker

#: The number of lost races after which a search draws from no more units.
_MOST_LOST = 6


class Calendar(CalendarReads):
    """Write what is promised into the calendar of a process. Any thread may use it."""

    def allocate(
        self,
        session: orm.Session,
        wanted: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        forced_available: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> list[NewAllocation]:
        """Promise units to new reservations, which are written already: all of them or none.

        :param forced_available: units that take no promises otherwise
        :param proposed: units of :meth:`propose`; others are only looked at if these do not have
            all that may be promised by now, or others were faster
        :raises climate_core.exceptions.NotEnough: there is no room
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        work = self._work(session)
        searches = self._scattered(searches_for(work.now, wanted, start, end))
        found = self._find_proposed(work, searches, proposed)
        if found is None:
            found = self._find(work, wanted, searches, forced_available=forced_available)
        added = [
            _promise(one, search, pick)
            for one, search, picks in zip(wanted, searches, found, strict=True)
            for pick in picks
        ]
        self._write(work, added=added)
        return added

    def get_unit(self, session: orm.Session, unit_id: int) -> Unit:
        """Return a unit that this transaction has promised."""
        return self._work(session).unit(unit_id)

    def reallocate(
        self,
        session: orm.Session,
        wanted: Sequence[AllocationRequest],
        start: datetime,
        end: datetime,
        keep: bool,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[NewAllocation]:
        """Replace what reservations are promised by what they demand now.

        :param keep: whether they must have the units that they have in the end, too, whatever
            these are like by now: the lease runs. What is too much is given up, and what is added
            begins now. Else they have their units if these are free and would do.
        :param less: what reservations keep that give pieces back, by their ids
        :returns: what is new or changed
        :raises climate_core.exceptions.NotEnough: there is no room; nothing is changed
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        work = self._work(session)
        own = self._own(session, wanted)
        searches = [
            dataclasses.replace(
                search,
                own=_left(_picks(own[one.reservation_id]), less.get(one.reservation_id)),
                keep=keep,
            )
            for one, search in zip(wanted, searches_for(work.now, wanted, start, end), strict=True)
        ]
        return self._change(work, wanted, searches, own, less=less)

    def replace_unit(
        self, session: orm.Session, wanted: AllocationRequest, unit_id: int
    ) -> list[NewAllocation]:
        """Replace a unit that a reservation cannot keep by others.

        It keeps its other units in any case. Of a lease that runs the old promise ends and the new
        one begins now.

        :returns: what is new or changed; nothing if it does not have the unit
        :raises climate_core.exceptions.NotEnough: there is no other one; nothing is changed
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        work = self._work(session)
        own = self._own(session, [wanted])
        rows = own[wanted.reservation_id]
        lost = [each for each in rows if each.unit_id == unit_id]
        if not lost:
            return []
        pieces = sum(each.pieces for each in rows)
        demand = dataclasses.replace(wanted.demand, least=pieces, most=pieces)
        search = Search(
            demand=demand,
            start=lost[0].start,
            end=lost[0].end,
            own=_picks(each for each in rows if each.unit_id != unit_id),
            keep=True,
            firm=True,
            now=work.now,
        )
        return self._change(work, [wanted], [search], own, excluded=unit_id)

    def release(
        self,
        session: orm.Session,
        used: Mapping[str, Collection[int]],
        now: datetime,
        after: timedelta = timedelta(0),
    ) -> None:
        """Free what reservations have by now; nothing is refused or raised.

        What has not begun is deleted.

        :param used: reservation id -> the ids of the units that it used until now; what ended
            before, and is not one of them, is left as it is
        :param after: how long units that were in use are cleaned
        """
        begun, end = to_microseconds(now), to_microseconds(now + after)
        own = calendar.allocations_of_reservations(session, used, late=True)
        gone = [each for each in own if each.start >= begun]
        old = [
            each
            for each in own
            if each.start < begun
            and transaction.moves_end(each, begun, end, each.unit_id in used[each.reservation_id])
        ]
        if not gone and not old:
            return
        ended = [each._replace(end=end) for each in old]
        calendar.raise_generations(session, {each.unit_id for each in (*gone, *ended)})
        calendar.delete_allocations(session, gone)
        for released in (True, None):
            alike = [each for each in ended if bool(each.released) is bool(released)]
            calendar.end_allocations(session, alike, now + after, released)
        waiting, earlier = transaction.shift_next_start(session, old, end)
        gone, ended = [*gone, *waiting], [*ended, *earlier]
        work = session.info.get(self._index)
        if work is None:
            session.info.setdefault(self, []).append((gone, ended))
        else:
            work.freed(gone, ended)

    def extend(
        self, session: orm.Session, used: Mapping[str, Collection[int]], until: datetime
    ) -> None:
        """Extend the promises of reservations that are over by the units that they still use.

        The next promise of a whole unit begins so much later: it could not be used before. Pieces
        are kept as long as nobody else is promised their room.

        :param used: the ids of the units by that of the reservation
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        last = to_microseconds(until)
        kept = [
            each
            for each in calendar.allocations_of_reservations(session, used, late=True)
            if not each.released and each.end < last and each.unit_id in used[each.reservation_id]
        ]
        if not kept:
            return
        work = self._work(session)
        whole = {each.unit_id: each.end for each in kept if each.piece is None}
        first = from_microseconds(min(whole.values(), default=last))
        found = calendar.allocations_starting(session, whole, first, until) if whole else []
        later = [each for each in found if each.start >= whole[each.unit_id]]
        work.check_starting(whole, last, later)
        added = [transaction.start_later(each, last) for each in later]
        longer = [
            each._replace(end=last if each.piece is None else work.lasts(each, last))
            for each in kept
        ]
        ended = [new for new, old in zip(longer, kept, strict=True) if new != old]
        self._write(work, gone=later, ended=ended, added=added)

    def _own(
        self, session: orm.Session, wanted: Sequence[AllocationRequest]
    ) -> collections.defaultdict[str, list[StoredAllocation]]:
        """Read what reservations have, and have not given up."""
        found: collections.defaultdict[str, list[StoredAllocation]] = collections.defaultdict(list)
        for each in calendar.allocations_of_reservations(
            session, [one.reservation_id for one in wanted]
        ):
            if not each.released:
                found[each.reservation_id].append(each)
        return found

    def _change(
        self,
        work: CalendarTransaction,
        wanted: Sequence[AllocationRequest],
        searches: Sequence[Search],
        own: collections.defaultdict[str, list[StoredAllocation]],
        excluded: int | None = None,
        less: Mapping[str, RetainedAllocation] = MappingProxyType({}),
    ) -> list[NewAllocation]:
        rows = [each for rows in own.values() for each in rows]
        found = self._find(work, wanted, self._scattered(searches), rows, excluded)
        gone, ended, added = [], [], []
        for one, search, picks in zip(wanted, searches, found, strict=True):
            before = {each.unit_id: each for each in own[one.reservation_id]}
            given = less.get(one.reservation_id)
            cleaned = delta_to_microseconds(one.after if given is None else given.cleaning)
            for pick in picks:
                old = before.pop(pick.unit_id, None)
                new = _promise(one, search, pick, old)
                if old is not None and _same(old, new):
                    continue
                added.append(new)
                if old is not None:
                    gone.append(old)
            for old in before.values():
                if old.start > work.now:
                    gone.append(old)
                else:
                    end = min(old.end, work.now + cleaned)
                    ended.append(old._replace(end=end, released=True))
        self._write(work, gone, ended, added)
        return added

    def _scattered(self, searches: Sequence[Search]) -> list[Search]:
        """Return searches that draw from the more units the more races were lost just now."""
        lost = getattr(self._thread, 'lost', 0)
        return [dataclasses.replace(each, scatter=lost) for each in searches]

    def _write(
        self,
        work: CalendarTransaction,
        gone: Sequence[StoredAllocation] = (),
        ended: Sequence[StoredAllocation] = (),
        added: Sequence[NewAllocation] = (),
    ) -> None:
        try:
            work.write(gone, ended, added)
        except Stale:
            self._thread.lost = min(_MOST_LOST, getattr(self._thread, 'lost', 0) + 1)
            raise
        self._thread.lost = 0


def _picks(rows: Iterable[StoredAllocation]) -> dict[int, AllocationChoice]:
    return {each.unit_id: AllocationChoice(each.unit_id, each.pieces, each.lane) for each in rows}


def _left(
    picks: Mapping[int, AllocationChoice], less: RetainedAllocation | None
) -> Mapping[int, AllocationChoice]:
    """Return what a reservation keeps of its own."""
    if less is None:
        return picks
    left = (pick._replace(pieces=less.left.get(pick.unit_id, 0)) for pick in picks.values())
    return {pick.unit_id: pick for pick in left if pick.pieces}


def _promise(
    one: AllocationRequest,
    search: Search,
    pick: AllocationChoice,
    old: StoredAllocation | None = None,
) -> NewAllocation:
    """Return a promise. One that has begun keeps its start, whatever the lease's is."""
    begun = old is not None and old.start <= search.now
    return NewAllocation(
        unit_id=pick.unit_id,
        reservation_id=one.reservation_id,
        start=from_microseconds(old.start if begun and old else search.begin),
        end=from_microseconds(search.end),
        pieces=pick.pieces,
        piece=search.demand.piece,
        lane=pick.lane,
    )


def _same(old: StoredAllocation, new: NewAllocation) -> bool:
    return (old.start, old.end, old.lane, old.pieces, old.piece) == (
        to_microseconds(new.start),
        to_microseconds(new.end),
        new.lane,
        new.pieces,
        new.piece,
    )


LOG = log.getLogger(__name__)

#: Seconds between two looks: what changed in an hour is read faster than what changed in a month.
_WARMUP_INTERVAL: Final = 600.0


class CalendarWarmup(Worker):
    """Read the calendar at the start, and now and then what changed, in a thread of its own."""

    name = 'calendar'
    trouble: ClassVar[tuple[type[Exception], ...]] = TROUBLE
    complaint = 'The calendar was not read; each request that needs it reads it'

    def __init__(self, calendar: Calendar) -> None:
        super().__init__(_WARMUP_INTERVAL)
        self._calendar = calendar
        self._told = False

    def look(self) -> None:
        self._calendar.refresh()
        if not self._told:
            self._told = True
            LOG.info('The calendar is in memory')
