# SPDX-License-Identifier: Apache-2.0
"""Promise units to reservations, and take them back: proposed in memory, judged by the database.

A promise is a search in the index and one guarded write in the caller's transaction. If others
were faster, the transaction is run again (:class:`climate_core.db.engine.Stale`) and searches
anew. Callers that change or free what a lease has must have locked the lease.
"""

import collections
import dataclasses
import random
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from sqlalchemy import orm

from climate_core.calendar import queue, windows
from climate_core.calendar.index import Index
from climate_core.calendar.model import Less, Promise, Unit, Waiting, Wanted, Window
from climate_core.calendar.moments import duration, moment, time_of
from climate_core.calendar.refusal import mistake, refusal
from climate_core.calendar.rooms import Pick, Search
from climate_core.calendar.surplus import Surplus, surplus
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NoRoom, find_together
from climate_core.calendar.work import Work
from climate_core.db import calendar
from climate_core.db.calendar import Own
from climate_core.db.engine import Database, Refused, Stale

#: So many looks at units are taken for windows: a second or two.
LOOKS = 150_000
#: What is freed within so many microseconds of its time is not late.
_AT_ONCE = 5_000_000
#: More lost races than this do not make a search more careful.
_MOST_LOST = 6


class Calendar:
    """The calendar of a process. Any thread may use it."""

    def __init__(self, database: Database, dice: random.Random | None = None) -> None:
        self._database = database
        self._dice = dice or random.Random()
        self._index = Index()
        self._thread = threading.local()

    def read(self) -> None:
        """Read what is not in memory yet: the first time, all that there is."""
        self._database.read(self._index.refresh)

    def seems_free(self, wanted: Sequence[Wanted], start: datetime, end: datetime) -> bool:
        """Tell whether there is room by what is in memory, which may be old; no statement."""
        searches = _searches(moment(start), wanted, start, end)
        snapshot = self._index.snapshot
        try:
            find_together(searches, lambda kind: snapshot.kinds.get(kind, ()), self._dice)
        except NoRoom:
            return False
        return True

    def check(self, wanted: Sequence[Wanted], start: datetime, end: datetime) -> None:
        """Tell whether there is room for reservations, in a transaction that only reads.

        :param start: of the lease; what its units need before comes in addition
        :raises climate_core.exceptions.NotEnough: there is not
        """
        with self._database.reader() as session:
            work = self._work(session)
            try:
                self._find(work, wanted, _searches(work.now, wanted, start, end))
            except Refused as exc:
                refused = exc
            else:
                return
        raise refused.explain()

    def shortage(self, wanted: Wanted, start: datetime, end: datetime) -> tuple[int, set[int]]:
        """Count the pieces that a reservation lacks.

        :returns: how many, and the ids of the units that would do if they took promises
        """
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        kinds, demand = work.kinds(), wanted.demand
        missing = 0
        try:
            find_together(_searches(work.now, [wanted], start, end), kinds, self._dice)
        except NoRoom as exc:
            missing = demand.least - exc.count
        units = (each.unit for each in kinds(demand.kind))
        return missing, {each.id for each in units if not each.available and demand.matches(each)}

    def promise(
        self,
        session: orm.Session,
        wanted: Sequence[Wanted],
        start: datetime,
        end: datetime,
        opened: Collection[int] = (),
    ) -> list[Promise]:
        """Promise units to new reservations, which are written already: all of them or none.

        :param opened: units that take no promises otherwise
        :raises climate_core.exceptions.NotEnough: there is no room
        :raises climate_core.db.engine.Stale: others were faster; run the transaction again
        """
        work = self._work(session)
        searches = self._scattered(_searches(work.now, wanted, start, end))
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
        wanted: Sequence[Wanted],
        start: datetime,
        end: datetime,
        keep: bool,
        less: Mapping[str, Less] = MappingProxyType({}),
    ) -> list[Promise]:
        """Promise to reservations what they want by now in place of what they have.

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
            for one, search in zip(wanted, _searches(work.now, wanted, start, end), strict=True)
        ]
        return self._change(work, wanted, searches, own, less=less)

    def move(self, session: orm.Session, wanted: Wanted, unit_id: int) -> list[Promise]:
        """Promise a reservation other units in place of one, which it cannot keep.

        Its other ones it keeps in any case. Of a lease that runs the old promise ends and the new
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
            and _is_moved(each, begun, end, each.unit_id in used[each.reservation_id])
        ]
        if not gone and not old:
            return
        ended = [each._replace(end=end) for each in old]
        calendar.count_up(session, {each.unit_id for each in (*gone, *ended)})
        calendar.delete(session, gone)
        for released in (True, None):
            alike = [each for each in ended if bool(each.released) is bool(released)]
            calendar.end(session, alike, now + after, released)
        waiting, earlier = _let_begin(session, old, end)
        gone, ended = [*gone, *waiting], [*ended, *earlier]
        work = session.info.get(self._index)
        if work is None:
            session.info.setdefault(self, []).append((gone, ended))
        else:
            work.freed(gone, ended)

    def extend(
        self, session: orm.Session, used: Mapping[str, Collection[int]], until: datetime
    ) -> None:
        """Have reservations whose time is over keep the units that they still use.

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
        added = [_later(each, last) for each in later]
        longer = [
            each._replace(end=last if each.piece is None else work.lasts(each, last))
            for each in kept
        ]
        ended = [new for new, old in zip(longer, kept, strict=True) if new != old]
        self._write(work, gone=later, ended=ended, added=added)

    def windows(
        self,
        wanted: Sequence[Wanted],
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
        searches = _searches(work.now, wanted, earliest, earliest + length)
        most = duration(latest - earliest - length)
        found = []
        first = moment(earliest)
        looks = windows.Looks(LOOKS)
        for delay, room in windows.changes(searches, work.kinds(), most, self._dice, looks):
            if room:
                begin = time_of(first + delay)
                found.append(Window(begin, begin + length))
                if len(found) == limit:
                    break
        if not found:
            for one, search in zip(wanted, searches, strict=True):
                wrong = mistake(one, search, work.kinds())
                if wrong is not None:
                    raise wrong
        return found

    def fitting(self, waiting: Iterable[Waiting]) -> tuple[list[str], float | None]:
        """Choose who of those that wait has enough now, in their order; see :mod:`.queue`.

        Where very much waits, the last ones are not looked at.

        :returns: their ids, and in how many seconds the next one has enough; None: not known
        """
        listed = list(waiting)
        with self._database.reader() as session:
            work = self._work(session)
            work.verify()
        searched = []
        for each in listed:
            searches = _searches(work.now, each.wanted, each.start, each.end)
            searched.append(queue.Candidate(searches, duration(each.latest)))
        chosen = queue.choose(searched, work.kinds(), self._dice, windows.Looks(LOOKS))
        delays = list(zip(listed, chosen, strict=False))
        later = [delay for _, delay in delays if delay]
        seconds = min(later) / 1_000_000 if later else None
        return [each.id for each, delay in delays if delay == 0], seconds

    def _work(self, session: orm.Session) -> Work:
        """Return what this transaction has seen and written, in all its calls."""
        work: Work | None = session.info.get(self._index)
        if work is not None:
            return work
        freed = session.info.get(self, ())
        if freed:
            # The index must not see what this transaction wrote.
            with self._database.reader() as other:
                work = Work(self._index, session, other)
        else:
            work = Work(self._index, session)
        session.info[self._index] = work
        for gone, ended in freed:
            work.freed(gone, ended)
        return work

    def _find(
        self,
        work: Work,
        wanted: Sequence[Wanted],
        searches: Sequence[Search],
        own: Sequence[Own] = (),
        excluded: int | None = None,
        opened: Collection[int] = (),
    ) -> list[list[Pick]]:
        """Choose units; what reservations have themselves is free for them, but for one unit.

        :raises climate_core.db.engine.Refused: there is no room; it looks for a time when there is
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
        except NoRoom as exc:
            missing = exc
        if not work.verified and work.verify():
            return self._find(work, wanted, searches, own, excluded, opened)
        self._thread.lost = 0
        ends = [each.end for each in own]
        until = min(ends, default=0)
        raise Refused(lambda: refusal(wanted, searches, missing, kinds, self._dice, until))

    def _own(
        self, session: orm.Session, wanted: Sequence[Wanted]
    ) -> collections.defaultdict[str, list[Own]]:
        """Read what reservations have, and have not given up."""
        found: collections.defaultdict[str, list[Own]] = collections.defaultdict(list)
        for each in calendar.of_reservations(session, [one.reservation_id for one in wanted]):
            if not each.released:
                found[each.reservation_id].append(each)
        return found

    def _change(
        self,
        work: Work,
        wanted: Sequence[Wanted],
        searches: Sequence[Search],
        own: collections.defaultdict[str, list[Own]],
        excluded: int | None = None,
        less: Mapping[str, Less] = MappingProxyType({}),
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
        """Draw from the more units the more races were lost in this thread just now."""
        lost = getattr(self._thread, 'lost', 0)
        return [dataclasses.replace(each, scatter=lost) for each in searches]

    def _write(
        self,
        work: Work,
        gone: Sequence[Own] = (),
        ended: Sequence[Own] = (),
        added: Sequence[Promise] = (),
    ) -> None:
        try:
            work.write(gone, ended, added)
        except Stale:
            self._thread.lost = min(_MOST_LOST, getattr(self._thread, 'lost', 0) + 1)
            raise
        self._thread.lost = 0


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


def _is_moved(own: Own, now: int, end: int, used: bool) -> bool:
    """Tell whether a promise that is freed has another end by that.

    A piece of a unit is not cleaned for longer than it was promised: others are there, too.

    :param used: whether the unit was used until now
    """
    late = used and own.end + _AT_ONCE < end and end > now
    return own.end > end or (late and own.piece is None and not own.released)


def _let_begin(session: orm.Session, old: Iterable[Own], end: int) -> tuple[list[Own], list[Own]]:
    """Let what waits for whole units begin when they are free.

    :param old: what is freed, as it was
    :param end: when the units are free
    :returns: what waited, as it was and as it is
    """
    ends = {each.unit_id: each.end for each in old if each.piece is None and not each.released}
    if not ends:
        return [], []
    first, last = min(end, *ends.values()), max(end, *ends.values())
    # Nobody can add one meanwhile: the units are counted up, and so locked.
    waiting = calendar.beginning(session, ends, time_of(first), time_of(last), lock=True)
    start_dates = calendar.start_dates(session, waiting)
    before, after = [], []
    for each in waiting:
        old_end = ends[each.unit_id]
        # What was held up begins when its lease does, or as soon as it can. The lease may be
        # younger than what this transaction sees.
        start_date = start_dates.get(each.reservation_id)
        start = max(end, each.start if start_date is None else moment(start_date))
        if min(old_end, end) <= each.start <= max(old_end, end) and start != each.start:
            start = min(start, each.end)
            calendar.begin(session, each, time_of(start))
            before.append(each)
            after.append(each._replace(start=start))
    return before, after


def _later(own: Own, start: int) -> Promise:
    """Return a promise that begins later, which it does not outlive."""
    return Promise(
        unit_id=own.unit_id,
        reservation_id=own.reservation_id,
        start=time_of(min(start, own.end)),
        end=time_of(own.end),
        pieces=own.pieces,
        piece=own.piece,
        lane=own.lane,
    )


def _searches(now: int, wanted: Sequence[Wanted], start: datetime, end: datetime) -> list[Search]:
    return [
        Search(
            demand=one.demand,
            start=moment(start) - duration(one.before),
            end=moment(end) + duration(one.after),
            now=now,
        )
        for one in wanted
    ]


def _picks(rows: Iterable[Own]) -> dict[int, Pick]:
    return {each.unit_id: Pick(each.unit_id, each.pieces, each.lane) for each in rows}


def _left(picks: Mapping[int, Pick], less: Less | None) -> Mapping[int, Pick]:
    """Return what a reservation keeps of its own."""
    if less is None:
        return picks
    left = (pick._replace(pieces=less.left.get(pick.unit_id, 0)) for pick in picks.values())
    return {pick.unit_id: pick for pick in left if pick.pieces}


def _promise(one: Wanted, search: Search, pick: Pick, old: Own | None = None) -> Promise:
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


def _same(old: Own, new: Promise) -> bool:
    return (old.start, old.end, old.lane, old.pieces, old.piece) == (
        moment(new.start),
        moment(new.end),
        new.lane,
        new.pieces,
        new.piece,
    )
