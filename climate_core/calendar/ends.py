# SPDX-License-Identifier: Apache-2.0
"""Move the ends of promises whose units are free earlier or later than was promised.

What waits for a whole unit begins when that is free.
"""

from collections.abc import Iterable

from sqlalchemy import orm

from climate_core.calendar.model import Promise
from climate_core.calendar.moments import moment, time_of
from climate_core.db import calendar
from climate_core.db.calendar import OwnPromise

#: What is freed within so many microseconds of its time is not late.
_AT_ONCE = 5_000_000


def is_moved(own: OwnPromise, now: int, end: int, used: bool) -> bool:
    """Tell whether a promise that is freed has another end by that.

    A piece of a unit is not cleaned for longer than it was promised: others are there, too.

    :param used: whether the unit was used until now
    """
    late = used and own.end + _AT_ONCE < end and end > now
    return own.end > end or (late and own.piece is None and not own.released)


def let_begin(
    session: orm.Session, old: Iterable[OwnPromise], end: int
) -> tuple[list[OwnPromise], list[OwnPromise]]:
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


def later(own: OwnPromise, start: int) -> Promise:
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
