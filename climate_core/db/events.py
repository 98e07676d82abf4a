# SPDX-License-Identifier: Apache-2.0
"""Events in the database: find those that are due, claim and renew them.

A claim is one guarded UPDATE: the manager that changes one row has the event until the claim
expires by the database's clock. An expired claim looks just like an event that is due, so a
manager that died is followed by any other.
"""

import dataclasses
import datetime
import functools
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import rows, tables, utcnow
from climate_core.db.engine import signal
from climate_core.lease import events, model, states

_EVENT, _LEASE = tables.EVENTS, tables.LEASES
_IS_OPEN = _EVENT.c.status.in_(sorted(states.OPEN))

#: The signal that an event of a lease may be due.
DUE: Final = 'events.due'
_START: Final = events.of(model.START).priority
#: The signal that the queue of leases that wait is not what it was.
QUEUED: Final = 'events.queued'


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """An event that wants attention at ``next_at``.

    :param is_early: whether it waits until later in the database
    """

    id: str
    lease_id: str
    event_type: str
    generation: int
    priority: int
    next_at: datetime.datetime
    is_early: bool = False


def upcoming(session: orm.Session, limit: int) -> tuple[datetime.datetime | None, list[Due]]:
    """Read the events that are due, the first one that is not yet, and the database's time.

    :returns: the time, None when there is no event; and, in the order in which they are to be
        done, at most ``limit`` events that are due, followed by the one that will be next. If
        more are due, the projects take turns
    """
    now = utcnow.now(session)
    due = _first(now, _EVENT.c.next_at <= now, limit)
    found = session.execute(sa.union_all(due, _first(now, _EVENT.c.next_at > now, 1))).all()
    events = sorted((Due(*row[1:]) for row in found), key=lambda d: (d.next_at, d.priority))
    if not found:
        return None, []
    if len(events) >= limit and events[limit - 1].next_at <= found[0][0]:
        # Another manager may have claimed some in between: the next one is known all the same.
        events = _in_turn(session, now, limit) + events[limit:]
    return found[0][0], events


def _in_turn(
    session: orm.Session, now: sa.ColumnElement[datetime.datetime], limit: int
) -> list[Due]:
    """Read events that are due, one of each project, then another one of each.

    What frees something goes first when its time has come, as if all were read: of one that is
    tried again others are not kept waiting.
    """
    order = (_EVENT.c.next_at, _EVENT.c.priority)
    frees = sa.and_(_EVENT.c.priority < _START, _EVENT.c.next_at == _EVENT.c.time)
    turn = sa.func.row_number().over(partition_by=_LEASE.c.project_id, order_by=order)
    due = (
        sa.select(*rows.columns(_EVENT, Due), sa.case((frees, 0), else_=turn).label('turn'))
        .join_from(_EVENT, _LEASE, _EVENT.c.lease_id == _LEASE.c.id)
        .where(_EVENT.c.next_at <= now)
        .subquery('due')
    )
    names = [due.c[each.name] for each in rows.columns(_EVENT, Due)]
    query = sa.select(*names).order_by(due.c.turn, due.c.next_at, due.c.priority).limit(limit)
    return [Due(*row) for row in session.execute(query)]


def _first(
    now: sa.ColumnElement[datetime.datetime], where: sa.ColumnElement[bool], limit: int
) -> sa.Select[Any]:
    query = (
        sa.select(now.label('now'), *rows.columns(_EVENT, Due))
        .where(where)
        .order_by(_EVENT.c.next_at, _EVENT.c.priority)
        .limit(limit)
    )
    # SQLite takes an order and a limit within a union only in a query of its own.
    return sa.select(query.subquery('few'))


def claim(
    session: orm.Session, event_id: str, generation: int, ttl: float, is_early: bool = False
) -> bool:
    """Take an event that is due for ``ttl`` seconds.

    :param generation: the one that was read; the claim has the next one
    :param is_early: whether one that waits for its next look may be taken before that
    :returns: whether it is ours; if not, another manager was faster or it is not due any more
    """
    claimed = {'status': states.EventStatus.IN_PROGRESS, 'generation': generation + 1}
    then = _claiming(session.info.get(utcnow.CLOCK), ttl, is_early)
    return rows.change_row(session, _EVENT, event_id, generation, claimed, then)


@functools.lru_cache(maxsize=16)
def _claiming(clock: utcnow.TestClock | None, ttl: float, is_early: bool) -> rows.Then:
    """Return what makes a claim of the statement that changes an event."""

    def complete(statement: sa.Update) -> sa.Update:
        due = _EVENT.c.next_at <= utcnow.expression(clock)
        if is_early:
            due = sa.or_(due, _EVENT.c.status == states.EventStatus.UNDONE)
        return statement.where(due).values(next_at=utcnow.expression(clock, ttl))

    # With the clock of the database it is always the same.
    return functools.cache(complete) if clock is None else complete


def renew(session: orm.Session, event_id: str, generation: int, ttl: float) -> bool:
    """Keep a claim for ``ttl`` seconds from now; False when it is lost."""
    mine = sa.and_(_EVENT.c.id == event_id, _EVENT.c.generation == generation)
    statement = sa.update(_EVENT).where(mine, _EVENT.c.status == states.EventStatus.IN_PROGRESS)
    return rows.change(session, statement.values(next_at=utcnow.now(session, ttl))) == 1


def postpone_tries(
    session: orm.Session,
    event_type: str,
    lease_id: str,
    before: datetime.datetime,
    until: datetime.datetime,
) -> None:
    """Count an attempt of each ``retry_lease`` whose next one is due before a time.

    Leases whose last attempt this would be are left to their own event, which gives them up.

    :param event_type: the type of the events by which they are tried
    :param lease_id: one that is left as well
    :param until: when they are tried next
    """
    signal(session, QUEUED)
    undone = _EVENT.c.status == states.EventStatus.UNDONE
    due = sa.and_(_EVENT.c.event_type == event_type, undone, _EVENT.c.next_at <= before)
    retries = sa.or_(_LEASE.c.retries_left > 0, _LEASE.c.retries_left.is_(None))
    more = sa.and_(_LEASE.c.status == states.LeaseStatus.WAITING, retries)
    query = (
        sa.select(_EVENT.c.id, _EVENT.c.generation, _LEASE.c.id, _LEASE.c.generation)
        .join_from(_EVENT, _LEASE, _EVENT.c.lease_id == _LEASE.c.id)
        .where(due, more, _LEASE.c.id != lease_id)
    )
    found = sorted(session.execute(query), key=lambda row: row[2])
    if not found:
        return
    # Lock the leases before their events, in the order of all transactions, so that none deadlock.
    # An event that another manager has just counted has a later ``next_at`` and is left out.
    leases = sa.tuple_(_LEASE.c.id, _LEASE.c.generation).in_([row[2:] for row in found])
    counted = {
        'retries_left': _LEASE.c.retries_left - 1,
        'generation': _LEASE.c.generation + 1,
        'updated_at': utcnow.now(session),
    }
    rows.change(session, sa.update(_LEASE).where(leases, more).values(**counted))
    events = sa.tuple_(_EVENT.c.id, _EVENT.c.generation).in_([row[:2] for row in found])
    new = {'next_at': until, 'time': until, 'generation': _EVENT.c.generation + 1}
    rows.change(session, sa.update(_EVENT).where(events, due).values(**new))


def insert(session: orm.Session, events: list[model.Event]) -> None:
    """Write new events."""
    rows.insert(session, _EVENT, [columns(each) for each in events])


def delete(session: orm.Session, events: list[model.Event]) -> None:
    """Delete events that their user cancelled; a manager at work on one finds it gone."""
    if events:
        rows.change(session, sa.delete(_EVENT).where(_EVENT.c.id.in_([e.id for e in events])))


def columns(event: model.Event) -> dict[str, Any]:
    """Return what the table keeps of an event."""
    return rows.values(_EVENT, event) | {'priority': events.of(event.event_type).priority}


def update(session: orm.Session, before: model.Event, after: model.Event) -> bool:
    """Change an event, if it still has the generation that was read."""
    new = rows.difference(columns(after), columns(before))
    return rows.change_row(session, _EVENT, before.id, before.generation, new)


def last_written(event_type: str, reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when the last event of a type was written for each reservation of a query."""
    mine = _of(event_type, reservation.c.lease_id, _EVENT.c.reservation_id == reservation.c.id)
    return sa.select(sa.func.max(_EVENT.c.created_at)).where(mine).scalar_subquery()


def early_end(reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when each reservation of a query leaves its lease early; NULL: it does not."""
    its_own = _EVENT.c.reservation_id == reservation.c.id
    mine = _of(model.END_RESERVATION, reservation.c.lease_id, its_own, _IS_OPEN)
    return sa.select(sa.func.min(_EVENT.c.time)).where(mine).scalar_subquery()


def preemption(lease: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition of a join for the open ``preempt_lease`` of the leases of a query."""
    return _of(model.PREEMPT, lease.c.id, _IS_OPEN)


def has_begun(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that was claimed, or is over."""
    return _exists(lease_id, event_type, _EVENT.c.status != states.EventStatus.UNDONE)


def waits(event_type: str, reservation: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type of a reservation was not claimed yet."""
    undone = _EVENT.c.status == states.EventStatus.UNDONE
    its_own = _EVENT.c.reservation_id == reservation.c.id
    return _exists(reservation.c.lease_id, event_type, sa.and_(its_own, undone))


def is_open(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that is still to be done."""
    return _exists(lease_id, event_type, _IS_OPEN)


def is_done(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type has taken effect for a lease."""
    done = sa.and_(_EVENT.c.status == states.EventStatus.DONE, _EVENT.c.status_reason.is_(None))
    return _exists(lease_id, event_type, done)


def took_effect_at(
    lease_id: sa.ColumnElement[str], event_type: str, time: sa.ColumnElement[Any]
) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type was taking effect at a time."""
    done = sa.and_(
        _EVENT.c.status == states.EventStatus.DONE,
        _EVENT.c.status_reason.is_(None),
        _EVENT.c.time <= time,
        _EVENT.c.updated_at >= time,
    )
    return _exists(lease_id, event_type, done)


def first_over(
    lease_id: sa.ColumnElement[str], event_type: str, since: sa.ColumnElement[Any]
) -> sa.ScalarSelect[Any]:
    """Return when the first event of a type was over that was so since a time; NULL: none."""
    is_later = _EVENT.c.updated_at >= since
    over = _of(event_type, lease_id, _EVENT.c.status.not_in(sorted(states.OPEN)), is_later)
    return sa.select(sa.func.min(_EVENT.c.updated_at)).where(over).scalar_subquery()


def _exists(
    lease_id: sa.ColumnElement[str], event_type: str, which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    # Of a query that reads events itself, these are others.
    return sa.exists().where(_of(event_type, lease_id, which)).correlate_except(_EVENT)


def _of(
    event_type: str, lease_id: sa.ColumnElement[str], *which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition for some of the events of a type of a lease."""
    return sa.and_(_EVENT.c.lease_id == lease_id, _EVENT.c.event_type == event_type, *which)
