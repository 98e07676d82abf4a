# SPDX-License-Identifier: Apache-2.0
"""Promise units to reservations, and free them: proposed in memory, judged by the database.

A promise is a search in the index and one guarded write in the caller's transaction. If others
were faster, the transaction is run again (:class:`climate_core.db.engine.Stale`) and searches
anew. Callers that change or free what a lease has must have locked the lease.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from sqlalchemy import orm

from climate_core.calendar import ends
from climate_core.calendar.model import KeptPieces, Promise, ReservationDemand, Unit
from climate_core.calendar.moments import duration, moment, time_of
from climate_core.calendar.queries import CalendarQueries, searches_of
from climate_core.calendar.rooms import Search, UnitPick
from climate_core.calendar.work import CalendarTransaction
from climate_core.db import calendar
from climate_core.db.calendar import OwnPromise
from climate_core.db.engine import Stale

#: The number of lost races after which a search draws from no more units.
_MOST_LOST = 6


class Calendar(CalendarQueries):
    """Write what is promised into the calendar of a process. Any thread may use it."""

    def promise(
        self,
        session: orm.Session,
        wanted: Sequence[ReservationDemand],
        start: datetime,
        end: datetime,
        opened: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> list[Promise]:
        """Promise units to new reservations, which are written already: all of them or none.

        :param opened: units that take no promises otherwise
        :param proposed: units of :meth:`propose`; others are only looked at if these do not have
            all that may be promised by now, or others were faster
        :raises climate_core.exceptions.NotEnough: there is no room
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        work = self._work(session)
        searches = self._scattered(searches_of(work.now, wanted, start, end))
        found = self._find_proposed(work, searches, proposed)
        if found is None:
            found = self._find(work, wanted, searches, opened=opened)
        added = [
            _promise(one, search, pick)
            for one, search, picks in zip(wanted, searches, found, strict=True)
            for pick in picks
        ]
        self._write(work, added=added)
        return added

    def unit(self, session: orm.Session, unit_id: int) -> Unit:
        """Return a unit that this transaction has promised."""
        return self._work(session).unit(unit_id)

    def replan(
        self,
        session: orm.Session,
        wanted: Sequence[ReservationDemand],
        start: datetime,
        end: datetime,
        keep: bool,
        less: Mapping[str, KeptPieces] = MappingProxyType({}),
    ) -> list[Promise]:
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
            for one, search in zip(wanted, searches_of(work.now, wanted, start, end), strict=True)
        ]
        return self._change(work, wanted, searches, own, less=less)

    def move(self, session: orm.Session, wanted: ReservationDemand, unit_id: int) -> list[Promise]:
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
        begun, end = moment(now), moment(now + after)
        own = calendar.of_reservations(session, used, late=True)
        gone = [each for each in own if each.start >= begun]
        old = [
            each
            for each in own
            if each.start < begun
            and ends.is_moved(each, begun, end, each.unit_id in used[each.reservation_id])
        ]
        if not gone and not old:
            return
        ended = [each._replace(end=end) for each in old]
        calendar.count_up(session, {each.unit_id for each in (*gone, *ended)})
        calendar.delete(session, gone)
        for released in (True, None):
            alike = [each for each in ended if bool(each.released) is bool(released)]
            calendar.end(session, alike, now + after, released)
        waiting, earlier = ends.let_begin(session, old, end)
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
        last = moment(until)
        kept = [
            each
            for each in calendar.of_reservations(session, used, late=True)
            if not each.released and each.end < last and each.unit_id in used[each.reservation_id]
        ]
        if not kept:
            return
        work = self._work(session)
        whole = {each.unit_id: each.end for each in kept if each.piece is None}
        first = time_of(min(whole.values(), default=last))
        found = calendar.beginning(session, whole, first, until) if whole else []
        later = [each for each in found if each.start >= whole[each.unit_id]]
        work.check_beginning(whole, last, later)
        added = [ends.later(each, last) for each in later]
        longer = [
            each._replace(end=last if each.piece is None else work.lasts(each, last))
            for each in kept
        ]
        ended = [new for new, old in zip(longer, kept, strict=True) if new != old]
        self._write(work, gone=later, ended=ended, added=added)

    def _own(
        self, session: orm.Session, wanted: Sequence[ReservationDemand]
    ) -> collections.defaultdict[str, list[OwnPromise]]:
        """Read what reservations have, and have not given up."""
        found: collections.defaultdict[str, list[OwnPromise]] = collections.defaultdict(list)
        for each in calendar.of_reservations(session, [one.reservation_id for one in wanted]):
            if not each.released:
                found[each.reservation_id].append(each)
        return found

    def _change(
        self,
        work: CalendarTransaction,
        wanted: Sequence[ReservationDemand],
        searches: Sequence[Search],
        own: collections.defaultdict[str, list[OwnPromise]],
        excluded: int | None = None,
        less: Mapping[str, KeptPieces] = MappingProxyType({}),
    ) -> list[Promise]:
        rows = [each for rows in own.values() for each in rows]
        found = self._find(work, wanted, self._scattered(searches), rows, excluded)
        gone, ended, added = [], [], []
        for one, search, picks in zip(wanted, searches, found, strict=True):
            before = {each.unit_id: each for each in own[one.reservation_id]}
            given = less.get(one.reservation_id)
            cleaned = duration(one.after if given is None else given.cleaning)
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
        gone: Sequence[OwnPromise] = (),
        ended: Sequence[OwnPromise] = (),
        added: Sequence[Promise] = (),
    ) -> None:
        try:
            work.write(gone, ended, added)
        except Stale:
            self._thread.lost = min(_MOST_LOST, getattr(self._thread, 'lost', 0) + 1)
            raise
        self._thread.lost = 0


def _picks(rows: Iterable[OwnPromise]) -> dict[int, UnitPick]:
    return {each.unit_id: UnitPick(each.unit_id, each.pieces, each.lane) for each in rows}


def _left(picks: Mapping[int, UnitPick], less: KeptPieces | None) -> Mapping[int, UnitPick]:
    """Return what a reservation keeps of its own."""
    if less is None:
        return picks
    left = (pick._replace(pieces=less.left.get(pick.unit_id, 0)) for pick in picks.values())
    return {pick.unit_id: pick for pick in left if pick.pieces}


def _promise(
    one: ReservationDemand, search: Search, pick: UnitPick, old: OwnPromise | None = None
) -> Promise:
    """Return a promise. One that has begun keeps its start, whatever the lease's is."""
    begun = old is not None and old.start <= search.now
    return Promise(
        unit_id=pick.unit_id,
        reservation_id=one.reservation_id,
        start=time_of(old.start if begun and old else search.begin),
        end=time_of(search.end),
        pieces=pick.pieces,
        piece=search.demand.piece,
        lane=pick.lane,
    )


def _same(old: OwnPromise, new: Promise) -> bool:
    return (old.start, old.end, old.lane, old.pieces, old.piece) == (
        moment(new.start),
        moment(new.end),
        new.lane,
        new.pieces,
        new.piece,
    )
