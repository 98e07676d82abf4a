# SPDX-License-Identifier: Apache-2.0
"""Read which leases start soon with the rights of their owners."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_core.lease import events, states
from climate_core.lease.changes import failures

_EVENT, _LEASE, _RESERVATION = tables.EVENTS, tables.LEASES, tables.RESERVATIONS
_STARTS: Final = [each for each in events.TABLE if each.done_when_active]
#: Of more starts only the first ones are looked at.
_MOST: Final = 20000


class ComingStart(NamedTuple):
    """The first start with a trust.

    :param seconds: how long it is until then
    :param may_be_told: whether a lease that has this trust and starts soon has a reason for its
        status, perhaps that its start will fail
    """

    trust_id: str
    seconds: float
    may_be_told: bool


def coming(
    session: orm.Session, types: Sequence[str], seconds: float, limit: int
) -> list[ComingStart]:
    """Return the trusts with which leases start within so many seconds, the first ones first.

    :param types: of the resources of which a lease has one
    """
    query = sql.cached_statement(session, _coming, tuple(types), seconds, limit)
    found = session.execute(query)
    return [
        ComingStart(trust_id, (first - now).total_seconds(), bool(reasons))
        for trust_id, first, reasons, now in found
    ]


def to_tell(
    session: orm.Session,
    types: Sequence[str],
    trust_id: str,
    seconds: float,
    is_told: bool,
    limit: int,
) -> list[str]:
    """Return the ids of leases with a trust that start within so many seconds, first ones first.

    :param is_told: whether they say already that their start will fail
    """
    event = _starts(session.info.get(sql.CLOCK), seconds)
    told = sa.func.coalesce(_LEASE.c.status_reason, '').contains(failures.START_WILL_FAIL)
    query = _of_leases(sa.select(_LEASE.c.id), event, types)
    mine = query.where(_LEASE.c.trust_id == trust_id, told if is_told else ~told)
    return list(session.scalars(mine.order_by(event.c.next_at, _LEASE.c.id).limit(limit)))


def _coming(
    clock: sql.TestClock | None, types: tuple[str, ...], seconds: float, limit: int
) -> sa.Select[Any]:
    event = _starts(clock, seconds)
    first = sa.func.min(event.c.next_at).label('first')
    now = sql.now_by_clock(clock).label('now')
    columns = (_LEASE.c.trust_id, first, sa.func.count(_LEASE.c.status_reason), now)
    query = _of_leases(sa.select(*columns), event, types)
    mine = query.where(_LEASE.c.trust_id.is_not(None)).group_by(_LEASE.c.trust_id)
    return mine.order_by(first, _LEASE.c.trust_id).limit(limit)


def _starts(clock: sql.TestClock | None, seconds: float) -> sa.Subquery:
    """Select the starts of so many seconds that are not begun."""
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
        # With a limit it is these that are read first, and not all leases that wait.
        .limit(_MOST)
        .subquery('few')
    )


def _of_leases(query: sa.Select[Any], event: sa.Subquery, types: Sequence[str]) -> sa.Select[Any]:
    """Select from starts those of leases that are woken with the rights of their owners."""
    # One index serves it, of however many reservations; EXISTS may become a scan of all.
    mine = sa.select(sa.func.count()).where(
        _RESERVATION.c.lease_id == _LEASE.c.id,
        _RESERVATION.c.resource_type.in_(types),
        _RESERVATION.c.status == states.ReservationStatus.PENDING,
    )
    return query.select_from(event.join(_LEASE, _LEASE.c.id == event.c.lease_id)).where(
        _LEASE.c.status == states.LeaseStatus.PENDING, mine.scalar_subquery() > 0
    )
