# SPDX-License-Identifier: Apache-2.0
"""Events in the database: find those that are due, claim and renew them.

A claim is one guarded UPDATE: the manager that changes one row has the event until the claim
expires by the database's clock. An expired claim looks just like an event that is due, so a
manager that died is followed by any other.
"""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import rows, sql, tables
from climate_core.db.engine import signal
from climate_core.lease import events, model, states

_EVENT, _LEASE, _RESERVATION = tables.EVENTS, tables.LEASES, tables.RESERVATIONS

#: The signal that an event of a lease may be due.
DUE: Final = 'events.due'
_START: Final = events.get_handler(model.START).priority
#: Of more than can be taken so many times as many are looked at, from either end.
_LOOKED_AT: Final = 8
#: The signal that the queue of leases that wait is not what it was.
QUEUED: Final = 'events.queued'


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """An event that wants attention at ``next_at``.

    :param is_early: whether it waits until later in the database
    :param services: which services may be called for it, as far as that was asked for
    """

    id: str
    lease_id: str
    event_type: str
    generation: int
    priority: int
    next_at: datetime.datetime
    is_early: bool = False
    services: frozenset[str] = frozenset()


class Services:
    """Tell which services may be called for an event, with a bit for each.

    :param types: service -> the types of resources for which it is called
    """

    def __init__(self, types: Mapping[str, Collection[str]]) -> None:
        self._types = types
        self._masks = {name: 1 << number for number, name in enumerate(types)}
        self._read: dict[int, frozenset[str]] = {}
        #: A column: the bits of the services that the event of a row may call.
        self.bits = self._column(types)

    @property
    def names(self) -> Collection[str]:
        return self._masks.keys()

    def of_type(self, resource_type: str) -> frozenset[str]:
        """Return the services that are called for a type of resource."""
        return frozenset(name for name, types in self._types.items() if resource_type in types)

    def read(self, bits: int) -> frozenset[str]:
        """Return the services of a value of that column."""
        found = self._read.get(bits)
        if found is None:
            found = frozenset(name for name, bit in self._masks.items() if bits & bit)
            self._read[bits] = found
        return found

    def mask(self, names: Collection[str]) -> int:
        """Return the bits of services."""
        return sum(self._masks[each] for each in names)

    def _column(self, types: Mapping[str, Collection[str]]) -> sa.ColumnElement[int]:
        resource = _RESERVATION.c.resource_type
        cases = [(resource.in_(sorted(types[name])), bit) for name, bit in self._masks.items()]
        if not cases:
            return sa.literal(0)
        # One index serves it, of however many reservations; EXISTS may become a scan of all.
        total = sa.func.sum(sa.case(*cases, else_=0).distinct())
        of_lease = sa.select(sa.cast(total, sa.Integer)).where(
            _RESERVATION.c.lease_id == _EVENT.c.lease_id
        )
        calling = [each.event_type for each in events.TABLE if each.plugin_methods]
        by_type = [
            (_EVENT.c.event_type == each.event_type, self._masks[each.service])
            for each in events.TABLE
            if each.service in self._masks
        ]
        by_lease = (_EVENT.c.event_type.in_(calling), of_lease.scalar_subquery())
        return sa.func.coalesce(sa.case(*by_type, by_lease, else_=0), 0)


#: Where nobody asks which services are called.
NO_SERVICES: Final = Services({})


def upcoming(
    session: orm.Session,
    limit: int,
    services: Services = NO_SERVICES,
    full: Collection[str] = (),
    are_many: bool = False,
) -> tuple[datetime.datetime | None, list[Due]]:
    """Read the events that are due, the first one that is not yet, and the database's time.

    :param services: what is told of each event
    :param full: the services for which no more is begun now
    :param are_many: whether more than ``limit`` are expected to be due; then it costs less
    :returns: the time, None when there is no event; and, in the order in which they are to be
        done, at most ``limit`` events that are due, followed by the one that will be next. If
        more are due, the projects take turns, and what calls no service that is full does with
        what does
    """
    first = sql.cached_statement(session, _first, 1 if are_many else limit, services)
    found = session.execute(first).all()
    if not found:
        return None, []
    now: datetime.datetime = found[0][0]
    read = sorted((_due(row[1:], services) for row in found), key=_rank)
    if are_many or (len(read) >= limit and read[limit - 1].next_at <= now):
        # Another manager may have claimed some in between: the next one is known all the same.
        read = _read_in_turn(session, limit, services, full) + [e for e in read if e.next_at > now]
    return now, read


def _read_in_turn(
    session: orm.Session, limit: int, services: Services, full: Collection[str]
) -> list[Due]:
    """Read events that are due; by their rank unless there may be more."""
    query = sql.cached_statement(session, _in_turn, limit, services, services.mask(full))
    read = [_due(row, services) for row in session.execute(query)]
    return read if len(read) >= limit else sorted(read, key=_rank)


def _rank(due: Due) -> tuple[datetime.datetime, int]:
    return due.next_at, due.priority


def _due(row: Sequence[Any], services: Services) -> Due:
    event_id, lease_id, event_type, generation, priority, next_at, bits = row
    called = services.read(bits)
    return Due(event_id, lease_id, event_type, generation, priority, next_at, services=called)


def _in_turn(
    clock: sql.TestClock | None, limit: int, services: Services, mask: int
) -> sa.Select[Any]:
    """Select events that are due, one of each project, then another one of each.

    What frees something goes first when its time has come: of one that is tried again others are
    not kept waiting. What calls a service that is full takes turns with what calls none.

    :param mask: the bits of the services that are full
    """
    found = _looked_at(clock, limit, services, mask).c
    order = (found.next_at, found.priority)
    calls_full = found.bits.bitwise_and(mask)
    alike = [calls_full, found.project_id]
    by_project = sa.func.row_number().over(partition_by=alike, order_by=order)
    turn = sa.case((found.frees == 1, 0), else_=by_project)
    # Chance decides among the projects, so that none is always the last one.
    chance = sa.case((found.frees == 1, 0.0), else_=sa.func.random())
    named = {'calls_full': calls_full, 'turn': turn, 'chance': chance}
    turns = sa.select(*found, *(each.label(name) for name, each in named.items()))
    taken = turns.subquery('few_turns').c
    place = sa.func.row_number().over(
        partition_by=taken.calls_full,
        order_by=(taken.turn, taken.chance, taken.next_at, taken.priority),
    )
    names = [taken[each.name] for each in rows.columns(_EVENT, Due)]
    return sa.select(*names, taken.bits).order_by(place, taken.calls_full).limit(limit)


def _looked_at(
    clock: sql.TestClock | None, limit: int, services: Services, mask: int
) -> sa.Subquery:
    """Select events of which some are to be taken, with their projects.

    Of however many events are due, only so many are looked at that have been due for longest and
    for shortest; and of what calls no service that is full, all if need be.
    """
    column, is_due = _EVENT.c, _EVENT.c.next_at <= sql.now_by_clock(clock)
    oldest = sa.select(column.id).where(is_due).order_by(column.next_at, column.priority)
    newest = sa.select(column.id).where(is_due).order_by(column.next_at.desc())
    parts = [each.limit(limit * _LOOKED_AT) for each in (oldest, newest)]
    if mask:
        parts.append(oldest.where(services.bits.bitwise_and(mask) == 0).limit(limit))
    ids = sa.union(*(sa.select(each.subquery('few').c.id) for each in parts)).subquery('few')
    frees = sa.and_(column.priority < _START, column.next_at == column.time)
    return (
        sa.select(
            *rows.columns(_EVENT, Due),
            services.bits.label('bits'),
            sa.case((frees, 1), else_=0).label('frees'),
            _LEASE.c.project_id,
        )
        .join_from(ids, _EVENT, column.id == ids.c.id)
        .join(_LEASE, _LEASE.c.id == column.lease_id)
        .subquery('few_found')
    )


def _first(clock: sql.TestClock | None, limit: int, services: Services) -> sa.CompoundSelect[Any]:
    """Select events that are due, and the one that will be next, with the time."""
    now = sql.now_by_clock(clock)
    columns = (now.label('now'), *rows.columns(_EVENT, Due), services.bits.label('bits'))
    order = (_EVENT.c.next_at, _EVENT.c.priority)
    due = sa.select(*columns).where(_EVENT.c.next_at <= now).order_by(*order).limit(limit)
    next_one = sa.select(*columns).where(_EVENT.c.next_at > now).order_by(*order).limit(1)
    # SQLite takes an order and a limit within a union only in a query of its own.
    return sa.union_all(*(sa.select(each.subquery('few')) for each in (due, next_one)))


def claim(
    session: orm.Session, event_id: str, generation: int, ttl: float, is_early: bool = False
) -> bool:
    """Take an event that is due for ``ttl`` seconds.

    :param generation: the one that was read; the claim has the next one
    :param is_early: whether one that waits for its next look may be taken before that
    :returns: whether it is ours; if not, another manager was faster or it is not due any more
    """
    claimed = {'status': states.EventStatus.IN_PROGRESS, 'generation': generation + 1}
    then = _claiming(session.info.get(sql.CLOCK), ttl, is_early)
    return rows.change_row(session, _EVENT, event_id, generation, claimed, then)


@functools.lru_cache(maxsize=16)
def _claiming(clock: sql.TestClock | None, ttl: float, is_early: bool) -> rows.Completion:
    """Return what makes a claim of the statement that changes an event."""

    def complete(statement: sa.Update) -> sa.Update:
        due = _EVENT.c.next_at <= sql.now_by_clock(clock)
        if is_early:
            due = sa.or_(due, _EVENT.c.status == states.EventStatus.UNDONE)
        return statement.where(due).values(next_at=sql.now_by_clock(clock, ttl))

    # With the clock of the database it is always the same.
    return functools.cache(complete) if clock is None else complete


def renew(session: orm.Session, event_id: str, generation: int, ttl: float) -> bool:
    """Keep a claim for ``ttl`` seconds from now; False when it is lost."""
    mine = sa.and_(_EVENT.c.id == event_id, _EVENT.c.generation == generation)
    statement = sa.update(_EVENT).where(mine, _EVENT.c.status == states.EventStatus.IN_PROGRESS)
    return rows.change(session, statement.values(next_at=sql.now(session, ttl))) == 1


def postpone_tries(
    session: orm.Session,
    event_type: str,
    lease_ids: Collection[str],
    before: datetime.datetime,
    until: datetime.datetime,
) -> None:
    """Count an attempt of the leases whose next ``retry_lease`` is due before a time.

    Leases whose last attempt this would be are left to their own event, which gives them up.

    :param event_type: the type of the events by which they are tried
    :param lease_ids: the leases that were tried; a pass tries few
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
        .where(due, more, _LEASE.c.id.in_(lease_ids))
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
        'updated_at': sql.now(session),
    }
    rows.change(session, sa.update(_LEASE).where(leases, more).values(**counted))
    events = sa.tuple_(_EVENT.c.id, _EVENT.c.generation).in_([row[:2] for row in found])
    new = {'next_at': until, 'time': until, 'generation': _EVENT.c.generation + 1}
    rows.change(session, sa.update(_EVENT).where(events, due).values(**new))


_EVENTS = tables.EVENTS
_IS_OPEN = _EVENTS.c.status.in_(sorted(states.OPEN))


def insert(session: orm.Session, events: list[model.Event]) -> None:
    """Write new events."""
    rows.insert(session, _EVENTS, [columns(each) for each in events])


def delete(session: orm.Session, events: list[model.Event]) -> None:
    """Delete events that their user cancelled; a manager at work on one finds it gone."""
    if events:
        rows.change(session, sa.delete(_EVENTS).where(_EVENTS.c.id.in_([e.id for e in events])))


def columns(event: model.Event) -> dict[str, Any]:
    """Return what the table keeps of an event."""
    return rows.values(_EVENTS, event) | {'priority': events.get_handler(event.event_type).priority}


def update(session: orm.Session, before: model.Event, after: model.Event) -> bool:
    """Change an event, if it still has the generation that was read."""
    new = rows.difference(columns(after), columns(before))
    return rows.change_row(session, _EVENTS, before.id, before.generation, new)


def last_written(event_type: str, reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when the last event of a type was written for each reservation of a query."""
    mine = _of(event_type, reservation.c.lease_id, _EVENTS.c.reservation_id == reservation.c.id)
    return sa.select(sa.func.max(_EVENTS.c.created_at)).where(mine).scalar_subquery()


def early_end(reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when each reservation of a query leaves its lease early; NULL: it does not."""
    its_own = _EVENTS.c.reservation_id == reservation.c.id
    mine = _of(model.END_RESERVATION, reservation.c.lease_id, its_own, _IS_OPEN)
    return sa.select(sa.func.min(_EVENTS.c.time)).where(mine).scalar_subquery()


def preemption(lease: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition of a join for the open ``preempt_lease`` of the leases of a query."""
    return _of(model.PREEMPT, lease.c.id, _IS_OPEN)


def has_begun(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that was claimed, or is over."""
    return _exists(lease_id, event_type, _EVENTS.c.status != states.EventStatus.UNDONE)


def waits(event_type: str, reservation: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type of a reservation was not claimed yet."""
    undone = _EVENTS.c.status == states.EventStatus.UNDONE
    its_own = _EVENTS.c.reservation_id == reservation.c.id
    return _exists(reservation.c.lease_id, event_type, sa.and_(its_own, undone))


def is_open(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that is still to be done."""
    return _exists(lease_id, event_type, _IS_OPEN)


def is_done(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type has taken effect for a lease."""
    done = sa.and_(_EVENTS.c.status == states.EventStatus.DONE, _EVENTS.c.status_reason.is_(None))
    return _exists(lease_id, event_type, done)


def first_over(
    lease_id: sa.ColumnElement[str], event_type: str, since: sa.ColumnElement[Any]
) -> sa.ScalarSelect[Any]:
    """Return when the first event of a type was over that was so since a time; NULL: none."""
    is_later = _EVENTS.c.updated_at >= since
    over = _of(event_type, lease_id, _EVENTS.c.status.not_in(sorted(states.OPEN)), is_later)
    return sa.select(sa.func.min(_EVENTS.c.updated_at)).where(over).scalar_subquery()


def _exists(
    lease_id: sa.ColumnElement[str], event_type: str, which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    # Of a query that reads events itself, these are others.
    return sa.exists().where(_of(event_type, lease_id, which)).correlate_except(_EVENTS)


def _of(
    event_type: str, lease_id: sa.ColumnElement[str], *which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition for some of the events of a type of a lease."""
    return sa.and_(_EVENTS.c.lease_id == lease_id, _EVENTS.c.event_type == event_type, *which)
