# SPDX-License-Identifier: Apache-2.0
"""Read what projects reserved in a period, for the usage.

A lease is counted until it is purged: then its reservations are gone.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import resource_types
from climate_core.db import calendar, events, sql, tables
from climate_core.db.tables import ALLOCATIONS, LEASES, RESERVATIONS, USAGE_PERIODS
from climate_core.lease import model, states

_HOUR: Final = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A time span in UTC; its end does not belong to it."""

    begin: datetime.datetime
    end: datetime.datetime

    @property
    def hours(self) -> float:
        """Return its length in hours."""
        return (self.end - self.begin) / _HOUR

    def within(self, period: 'Span') -> 'Span | None':
        """Return the part that lies in the period; None if there is none."""
        begin, end = max(self.begin, period.begin), min(self.end, period.end)
        return Span(begin, end) if begin < end else None


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationUse:
    """A reservation with its owner and its times.

    :param held_at: the start of its reserved time
    :param freed_at: None while it holds its resource
    :param ends_at: its planned end; None: nothing is planned, or the caller does not need it
    :param lost_until: the end of the preemption of a reservation that was preempted
    """

    id: str
    lease_id: str
    lease_name: str
    project_id: str
    user_id: str
    resource_type: str
    resource_id: str
    amounts: Mapping[str, int]
    held_at: datetime.datetime
    woken_at: datetime.datetime | None
    freed_at: datetime.datetime | None
    ends_at: datetime.datetime | None = None
    lost_until: datetime.datetime | None = None

    def preempted(self, period: Span) -> Span | None:
        """Return its preempted span in the period."""
        if self.freed_at is None or self.lost_until is None:
            return None
        return Span(self.freed_at, self.lost_until).within(period)

    def counts(self, period: Span) -> bool:
        """Return whether it was reserved or preempted in the period."""
        return (self.reserved(period) or self.preempted(period)) is not None

    def planned(self, period: Span, now: datetime.datetime) -> Span | None:
        """Return its planned span in the period."""
        if self.ends_at is None:
            return None
        return Span(max(self.held_at, now), self.ends_at).within(period)

    def reserved(self, period: Span) -> Span | None:
        """Return its reserved span in the period."""
        return Span(self.held_at, self.freed_at or period.end).within(period)

    def used(self, period: Span) -> Span | None:
        """Return its used span in the period."""
        if self.woken_at is None:
            return None
        return Span(self.woken_at, self.freed_at or period.end).within(period)


_ROWS_PER_READ = 1000
#: How long a reported period is stored; much longer than a report takes.
_REPORTS_STORED = datetime.timedelta(days=32)

# Until the start of the lease other leases can use what is allocated to it, or is created then.
_IS_PROMISED = sa.and_(
    sa.or_(
        RESERVATIONS.c.unit_kind.is_not(None),
        LEASES.c.kind == states.LeaseKind.SCHEDULED,
        # Servers of a preempted lease are used by other leases until it starts again.
        sa.and_(LEASES.c.preemptible, events.is_done(LEASES.c.id, model.PREEMPT)),
    ),
    LEASES.c.start_date > RESERVATIONS.c.created_at,
    # What a preempted lease released was active before it starts again.
    sa.or_(RESERVATIONS.c.woken_at.is_(None), RESERVATIONS.c.woken_at >= LEASES.c.start_date),
)
# The resources of a lease that may be queued are created, and hold capacity, when it is granted.
# Its preparation is written then.
_IS_MADE_WHEN_GRANTED = sa.and_(
    RESERVATIONS.c.unit_kind.is_(None), LEASES.c.kind == states.LeaseKind.RETRY
)
_GRANTED = events.last_created_at(model.PREPARE, RESERVATIONS)
_ALLOCATED_PIECES = (
    sa.select(sa.func.sum(ALLOCATIONS.c.pieces))
    .where(ALLOCATIONS.c.reservation_id == RESERVATIONS.c.id, sa.not_(calendar.is_released()))
    .scalar_subquery()
)
# A reservation that has fewer hosts than it requested is charged for those that it has, and a
# reservation for which hosts are still drained for none.
_PIECES = sa.case(
    (LEASES.c.kind == states.LeaseKind.BEST_EFFORT, sa.func.coalesce(_ALLOCATED_PIECES, 0)),
    (RESERVATIONS.c.unit_kind.is_not(None), _ALLOCATED_PIECES),
)
_HELD = sa.case(
    (_IS_PROMISED, LEASES.c.start_date),
    (_IS_MADE_WHEN_GRANTED, sa.func.coalesce(_GRANTED, LEASES.c.start_date)),
    else_=RESERVATIONS.c.created_at,
)
# What a preempted lease has released is separate, also while it has other resources, and if it
# ends before the release. The lease lacks it until it is granted again, or until its
# end.
_IS_GIVEN_UP = sa.and_(
    LEASES.c.preemptible.is_(True),
    RESERVATIONS.c.status == states.ReservationStatus.DELETED,
    RESERVATIONS.c.given_up.is_(True),
)
_RESTORED_AT = events.first_finished_at(LEASES.c.id, model.RETRY, RESERVATIONS.c.freed_at)
_LOST_UNTIL = sa.case(
    (
        _IS_GIVEN_UP,
        sa.case((LEASES.c.end_date > _RESTORED_AT, _RESTORED_AT), else_=LEASES.c.end_date),
    ),
    else_=sa.null(),
)
#: In the order of the fields of :class:`ReservationUse`; then until when it is lost, and the
#: pieces.
_COLUMNS = (
    RESERVATIONS.c.id.label('id'),
    RESERVATIONS.c.lease_id.label('lease_id'),
    LEASES.c.name,
    LEASES.c.project_id,
    LEASES.c.user_id,
    RESERVATIONS.c.resource_type,
    RESERVATIONS.c.resource_id,
    RESERVATIONS.c.amounts,
    sa.type_coerce(_HELD, tables.Time()).label('held_at'),
    RESERVATIONS.c.woken_at,
    RESERVATIONS.c.freed_at,
    sa.type_coerce(_LOST_UNTIL, tables.Time()).label('lost_until'),
    _PIECES,
)
#: Leases in these statuses hold something, or have it allocated, until their end.
_PLANNED = ('IN_PROGRESS', 'PENDING', 'STARTING', 'ACTIVE', 'ERROR')
_IS_PLANNED = sa.and_(
    RESERVATIONS.c.hold == 1, RESERVATIONS.c.freed_at.is_(None), LEASES.c.status.in_(_PLANNED)
)
#: When they end; NULL: they hold nothing.
_ENDS = sa.case(
    (_IS_PLANNED, sa.func.coalesce(events.early_end_at(RESERVATIONS), LEASES.c.end_date)),
    else_=sa.null(),
)


def read_uses(
    session: orm.Session, period: Span, project_id: str | None = None, planned: bool = False
) -> Iterator[ReservationUse]:
    """Yield what a project, or all projects, reserved in a period, in one statement.

    :param planned: read its future end, too
    """
    ends = sa.type_coerce(_ENDS if planned else sa.null(), tables.Time()).label('ends_at')
    parts = [each.add_columns(ends) for each in _select_all(period)]
    if project_id is not None:
        parts = [each.where(LEASES.c.project_id == project_id) for each in parts]
    query = sa.union_all(*parts).execution_options(yield_per=_ROWS_PER_READ)
    for *row, ends_at in session.execute(query):
        for use in _build_uses([row], period):
            yield dataclasses.replace(use, ends_at=ends_at)


def read_uses_by_lease(session: orm.Session, period: Span) -> Iterator[ReservationUse]:
    """Yield what was reserved in a period, lease by lease; the session is free in between.

    One statement for each thousand reservations.
    """
    after = ('', '')
    while True:
        parts = [each.where(_after(*after)) for each in _select_all(period)]
        query = sa.union_all(*parts).order_by('lease_id', 'id').limit(_ROWS_PER_READ)
        if not (rows := session.execute(query).all()):
            return
        yield from _build_uses(rows, period)
        after = (rows[-1].lease_id, rows[-1].id)


def _after(lease_id: str, reservation_id: str) -> sa.ColumnElement[bool]:
    same = sa.and_(RESERVATIONS.c.lease_id == lease_id, RESERVATIONS.c.id > reservation_id)
    return sa.or_(RESERVATIONS.c.lease_id > lease_id, same)


def _select_all(period: Span) -> tuple[sa.Select[Any], ...]:
    """Select what was reserved in a period, and what was released before and is still lost."""
    return _select_reserved(period), _select_lost(period)


def _select_lost(period: Span) -> sa.Select[Any]:
    return _select().where(
        LEASES.c.preemptible.is_(True),
        LEASES.c.start_date < period.end,
        LEASES.c.end_date > period.begin,
        RESERVATIONS.c.freed_at <= period.begin,
        _IS_GIVEN_UP,
    )


def _select() -> sa.Select[Any]:
    return sa.select(*_COLUMNS).join_from(
        RESERVATIONS, LEASES, RESERVATIONS.c.lease_id == LEASES.c.id
    )


def _select_reserved(period: Span) -> sa.Select[Any]:
    unknown = sa.and_(
        RESERVATIONS.c.freed_at.is_(None),
        sa.or_(RESERVATIONS.c.hold == 1, RESERVATIONS.c.updated_at > period.begin),
    )
    return _select().where(
        RESERVATIONS.c.created_at < period.end,
        period.end > _HELD,
        sa.or_(RESERVATIONS.c.freed_at > period.begin, unknown),
    )


def _build_uses(found: Iterable[Any], period: Span) -> Iterator[ReservationUse]:
    """Build uses from rows, without what was released before its start."""
    for row in found:
        *values, lost_until, pieces = row
        use = dataclasses.replace(ReservationUse(*values), lost_until=lost_until)
        if not use.counts(period):
            continue
        held = dict(use.amounts or {})
        if pieces is not None and resource_types.HOSTS in held:
            held[resource_types.HOSTS] = int(pieces)
        yield dataclasses.replace(use, amounts=held)


def reported_until(session: orm.Session) -> datetime.datetime | None:
    """Return the end of the last period that was reported."""
    query = sa.select(USAGE_PERIODS.c.end).order_by(USAGE_PERIODS.c.start.desc()).limit(1)
    return session.scalar(query)


def mark_reported(session: orm.Session, period: Span) -> None:
    """Mark a period as reported by this transaction; DBDuplicateEntry: another manager did."""
    sql.insert(session, USAGE_PERIODS, [{'start': period.begin, 'end': period.end}])
    sql.change(
        session,
        sa.delete(USAGE_PERIODS).where(USAGE_PERIODS.c.start < period.begin - _REPORTS_STORED),
    )
