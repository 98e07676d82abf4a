# SPDX-License-Identifier: Apache-2.0
"""Events in the database: their rows, conditions for queries, and starts that come soon."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import rows, sql, tables
from climate_core.lease import events, model, states
from climate_core.lease.events.start import START_WILL_FAIL

#: The signal that the queue of leases has changed.
QUEUED: Final = 'events.queued'

_EVENT, _LEASE, _RESERVATION = tables.EVENTS, tables.LEASES, tables.RESERVATIONS
_STARTS: Final = [each for each in events.TABLE if each.done_when_active]
#: The types of events for which the plugins of the resources of a lease are called.
_CALLING: Final = sorted(handler.event_type for handler in events.TABLE if handler.plugin_methods)
#: Maximum number of starts that are read.
_MAX_STARTS: Final = 20000
_IS_OPEN = _EVENT.c.status.in_(sorted(states.OPEN))


def insert(session: orm.Session, new: Iterable[tuple[model.Lease, Iterable[model.Event]]]) -> None:
    """Write new events of leases."""
    rows.insert(session, _EVENT, [row for lease, added in new for row in build_rows(lease, added)])


def build_rows(lease: model.Lease, new: Iterable[model.Event]) -> list[dict[str, Any]]:
    """Return the rows of new events of a lease."""
    types = _list_types(lease)

    def has_calls(event: model.Event) -> bool:
        return bool(events.get_handler(event.event_type).plugin_methods)

    return [
        to_row(event) | {'resource_types': types if has_calls(event) else None} for event in new
    ]


def update_types(session: orm.Session, before: model.Lease, after: model.Lease) -> None:
    """Write the types of resources of a lease with its events, if they have changed."""
    types = _list_types(after)
    if types != _list_types(before):
        mine = sa.and_(_EVENT.c.lease_id == after.id, _EVENT.c.event_type.in_(_CALLING))
        rows.change(session, sa.update(_EVENT).where(mine).values(resource_types=types))


def _list_types(lease: model.Lease) -> str:
    """Return the value of the column ``resource_types``: each type is between two spaces."""
    return ' '.join(('', *sorted({r.resource_type for r in lease.reservations}), ''))


def delete(session: orm.Session, events: list[model.Event]) -> None:
    """Delete events that their user cancelled; a manager that works on one loses its claim."""
    if events:
        rows.change(session, sa.delete(_EVENT).where(_EVENT.c.id.in_([e.id for e in events])))


def to_row(event: model.Event) -> dict[str, Any]:
    """Return the row of an event."""
    return rows.values(_EVENT, event) | {'priority': events.get_handler(event.event_type).priority}


def update(session: orm.Session, before: model.Event, after: model.Event) -> bool:
    """Change an event, if it still has the generation that was read."""
    new = rows.difference(to_row(after), to_row(before))
    return rows.change_row(session, _EVENT, before.id, before.generation, new)


def last_created_at(event_type: str, reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when the last event of a type was created for each reservation of a query."""
    mine = _is_of(event_type, reservation.c.lease_id, _EVENT.c.reservation_id == reservation.c.id)
    return sa.select(sa.func.max(_EVENT.c.created_at)).where(mine).scalar_subquery()


def early_end_at(reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when each reservation of a query ends before its lease; NULL: it does not."""
    its_own = _EVENT.c.reservation_id == reservation.c.id
    mine = _is_of(model.END_RESERVATION, reservation.c.lease_id, its_own, _IS_OPEN)
    return sa.select(sa.func.min(_EVENT.c.time)).where(mine).scalar_subquery()


def is_open_preemption(lease: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition of a join for the open ``preempt_lease`` of the leases of a query."""
    return _is_of(model.PREEMPT, lease.c.id, _IS_OPEN)


def has_begun(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that was claimed, or is done."""
    return _exists(lease_id, event_type, _EVENT.c.status != states.EventStatus.UNDONE)


def is_unclaimed(event_type: str, reservation: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type of a reservation was not claimed yet."""
    undone = _EVENT.c.status == states.EventStatus.UNDONE
    its_own = _EVENT.c.reservation_id == reservation.c.id
    return _exists(reservation.c.lease_id, event_type, sa.and_(its_own, undone))


def is_open(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that is not done yet."""
    return _exists(lease_id, event_type, _IS_OPEN)


def is_done(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type has taken effect for a lease."""
    done = sa.and_(_EVENT.c.status == states.EventStatus.DONE, _EVENT.c.status_reason.is_(None))
    return _exists(lease_id, event_type, done)


def first_finished_at(
    lease_id: sa.ColumnElement[str], event_type: str, since: sa.ColumnElement[Any]
) -> sa.ScalarSelect[Any]:
    """Return when the first event of a type was finished since a time; NULL: none was."""
    is_later = _EVENT.c.updated_at >= since
    over = _is_of(event_type, lease_id, _EVENT.c.status.not_in(sorted(states.OPEN)), is_later)
    return sa.select(sa.func.min(_EVENT.c.updated_at)).where(over).scalar_subquery()


def _exists(
    lease_id: sa.ColumnElement[str], event_type: str, which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    # A query may read other events itself.
    return sa.exists().where(_is_of(event_type, lease_id, which)).correlate_except(_EVENT)


def _is_of(
    event_type: str, lease_id: sa.ColumnElement[str], *which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition for some of the events of a type of a lease."""
    return sa.and_(_EVENT.c.lease_id == lease_id, _EVENT.c.event_type == event_type, *which)


class UpcomingStart(NamedTuple):
    """The first start with a trust.

    :param seconds: seconds until then
    :param may_be_told: whether a lease that has this trust and starts soon has a reason for its
        status, perhaps that its start will fail
    """

    trust_id: str
    seconds: float
    may_be_told: bool


def read_upcoming_starts(
    session: orm.Session, types: Sequence[str], seconds: float, limit: int
) -> list[UpcomingStart]:
    """Return the trusts with which leases start within a number of seconds, first starts first.

    :param types: types of resources of which a lease has at least one
    """
    query = sql.cached_statement(session, _select_upcoming, tuple(types), seconds, limit)
    found = session.execute(query)
    return [
        UpcomingStart(trust_id, (first - now).total_seconds(), bool(reasons))
        for trust_id, first, reasons, now in found
    ]


def find_leases_to_notify(
    session: orm.Session,
    types: Sequence[str],
    trust_id: str,
    seconds: float,
    is_told: bool,
    limit: int,
) -> list[str]:
    """Return the ids of leases with a trust that start soon, the first start first.

    :param seconds: within which they start
    :param is_told: whether their reason is already that their start will fail
    """
    event = _select_starts(session.info.get(sql.CLOCK), seconds)
    told = sa.func.coalesce(_LEASE.c.status_reason, '').contains(START_WILL_FAIL)
    query = _join_leases(sa.select(_LEASE.c.id), event, types)
    mine = query.where(_LEASE.c.trust_id == trust_id, told if is_told else ~told)
    return list(session.scalars(mine.order_by(event.c.next_at, _LEASE.c.id).limit(limit)))


def _select_upcoming(
    clock: sql.TestClock | None, types: tuple[str, ...], seconds: float, limit: int
) -> sa.Select[Any]:
    event = _select_starts(clock, seconds)
    first = sa.func.min(event.c.next_at).label('first')
    now = sql.now_by_clock(clock).label('now')
    columns = (_LEASE.c.trust_id, first, sa.func.count(_LEASE.c.status_reason), now)
    query = _join_leases(sa.select(*columns), event, types)
    mine = query.where(_LEASE.c.trust_id.is_not(None)).group_by(_LEASE.c.trust_id)
    return mine.order_by(first, _LEASE.c.trust_id).limit(limit)


def _select_starts(clock: sql.TestClock | None, seconds: float) -> sa.Subquery:
    """Select the starts within a number of seconds that are not claimed."""
    column = _EVENT.c
    return (
        sa.select(column.lease_id, column.next_at)
        .where(
            column.next_at > sql.now_by_clock(clock),
            column.next_at <= sql.now_by_clock(clock, seconds),
            # As the index has it.
            column.priority.in_({each.priority for each in _STARTS}),
            column.event_type.in_([each.event_type for each in _STARTS]),
            column.status == states.EventStatus.UNDONE,
        )
        .order_by(column.next_at)
        # With a limit the database reads these first, and not all pending leases.
        .limit(_MAX_STARTS)
        .subquery('few')
    )


def _join_leases(
    query: sa.Select[Any], event: sa.Subquery, types: Sequence[str]
) -> sa.Select[Any]:
    """Select from starts those of leases that start with the rights of their owners."""
    # One index serves it, of however many reservations; EXISTS may become a scan of all.
    mine = sa.select(sa.func.count()).where(
        _RESERVATION.c.lease_id == _LEASE.c.id,
        _RESERVATION.c.resource_type.in_(types),
        _RESERVATION.c.status == states.ReservationStatus.PENDING,
    )
    return query.select_from(event.join(_LEASE, _LEASE.c.id == event.c.lease_id)).where(
        _LEASE.c.status == states.LeaseStatus.PENDING, mine.scalar_subquery() > 0
    )
