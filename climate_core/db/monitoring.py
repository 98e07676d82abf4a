# SPDX-License-Identifier: Apache-2.0
"""Read what operators watch: counts for the metrics, and leases that make no progress.

Each part of the counts reads an index only: leases_live_idx, events_next_idx,
notifications_next_idx, webhook_deliveries_next_idx. Queues are counted up to :data:`MAX_COUNT`.

To find what is stuck takes two statements, however many leases there are. The engine resumes
interrupted work by itself, so a lease that is stuck for longer has an external cause, for example
that no manager is running.
"""

import dataclasses
import datetime
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events as db_events
from climate_core.db import sql, tables
from climate_core.db.tables import EVENTS, LEASES
from climate_core.lease import model, states

#: Maximum number of rows that are counted of a queue.
MAX_COUNT = 100_000

_LEASE_COUNT = 'lease'


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of the database that the metrics show.

    :param leases: by status; a deleted lease counts as TERMINATED until it is purged
    :param due: events that are due and not claimed
    :param overdue: events that should have been claimed long ago
    :param outbox: notifications that are not sent yet
    :param deliveries: calls of webhooks that are not sent yet
    """

    leases: Mapping[str, int]
    due: int
    overdue: int
    outbox: int
    deliveries: int


def read_counts(session: orm.Session, overdue_seconds: float) -> Counts:
    """Count everything in one statement.

    :param overdue_seconds: after which a due event is overdue
    """
    status = tables.LEASES.c.status
    parts: list[Any] = [
        sa.select(
            sa.literal(_LEASE_COUNT).label('what'), status.label('which'), sa.func.count()
        ).group_by(status),
        _count_queue('due', tables.EVENTS, tables.EVENTS.c.next_at <= sql.now(session)),
        _count_queue(
            'overdue',
            tables.EVENTS,
            tables.EVENTS.c.next_at <= sql.now(session, -overdue_seconds),
        ),
        _count_queue('outbox', tables.NOTIFICATIONS, sa.true()),
        _count_queue('deliveries', tables.DELIVERIES, sa.true()),
    ]
    rows = session.execute(sa.union_all(*parts)).all()
    found = {what: number for what, _, number in rows if what != _LEASE_COUNT}
    return Counts({which: number for what, which, number in rows if what == _LEASE_COUNT}, **found)


def _count_queue(what: str, table: sa.Table, where: sa.ColumnElement[bool]) -> Any:
    some = sa.select(table.c.next_at).where(where).limit(MAX_COUNT).subquery()
    return sa.select(sa.literal(what), sa.literal(''), sa.func.count()).select_from(some)


class StuckKind(enum.StrEnum):
    """The reason why a lease makes no progress."""

    CLAIM_EXPIRED = 'claim_expired'
    NOT_TAKEN_UP = 'not_taken_up'
    RETRIED = 'retried'
    PAST_END = 'past_end'
    NO_END = 'no_end'
    STARTING = 'starting'
    ERROR = 'error'
    TRUST_KEPT = 'trust_kept'


@dataclasses.dataclass(frozen=True, slots=True)
class StuckThresholds:
    """Thresholds from which a lease or an event counts as stuck.

    :param attempts: failed attempts at an event
    :param seconds: for which an event is retried, or a lease stays in a transient state
    :param grace: seconds that a due event may wait for its claim
    """

    attempts: int = 10
    seconds: float = 600.0
    grace: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Stuck:
    """A lease, or an event, that makes no progress.

    :param event_type: of the event, if it is an event
    :param reason: a sentence for the operator
    :param age: seconds since it should have made progress
    """

    kind: StuckKind
    lease_id: str
    name: str
    project_id: str
    status: str
    event_id: str | None
    event_type: str | None
    reason: str
    age: float


def find_stuck(
    session: orm.Session, thresholds: StuckThresholds, lease_id: str | None = None
) -> list[Stuck]:
    """Find what is stuck, the oldest first, in two statements.

    :param lease_id: only this lease
    """
    now = sql.read_time(session)
    found = [
        *_find_events(session, now, thresholds, lease_id),
        *_find_leases(session, now, thresholds, lease_id),
    ]
    return sorted(found, key=lambda each: -each.age)


def _find_events(
    session: orm.Session, now: datetime.datetime, thresholds: StuckThresholds, lease_id: str | None
) -> Iterator[Stuck]:
    waited = EVENTS.c.next_at <= now - datetime.timedelta(seconds=thresholds.grace)
    long_ago = now - datetime.timedelta(seconds=thresholds.seconds)
    tried = sa.and_(EVENTS.c.attempts > 0, EVENTS.c.time <= long_ago)
    often = EVENTS.c.attempts >= thresholds.attempts
    query = (
        sa.select(
            *_lease_columns(), EVENTS.c.id, EVENTS.c.event_type, EVENTS.c.status, EVENTS.c.attempts
        )
        .add_columns(EVENTS.c.next_at, EVENTS.c.time, EVENTS.c.status_reason)
        .join_from(EVENTS, LEASES, EVENTS.c.lease_id == LEASES.c.id)
        .where(EVENTS.c.next_at.is_not(None), sa.or_(waited, tried, often))
    )
    for row in session.execute(
        query if lease_id is None else query.where(LEASES.c.id == lease_id)
    ):
        *lease, event_id, event_type, event_status, attempts, next_at, time, failure = row
        waiting = (now - next_at).total_seconds()
        if waiting >= thresholds.grace:
            busy = event_status == states.EventStatus.IN_PROGRESS
            kind = StuckKind.CLAIM_EXPIRED if busy else StuckKind.NOT_TAKEN_UP
            reason = 'its claim expired and no manager has claimed it' if busy else _NOT_CLAIMED
        else:
            kind, waiting = StuckKind.RETRIED, (now - time).total_seconds()
            reason = f'failed {attempts} times: {failure}'
        yield _build_stuck(kind, lease, event_id, event_type, reason, waiting)


_UNGRANTED = [str(status) for status in states.UNGRANTED]
_NOT_CLAIMED = 'it is due and no manager claims it: check that a climate-manager is running'


def _find_leases(
    session: orm.Session, now: datetime.datetime, thresholds: StuckThresholds, lease_id: str | None
) -> Iterator[Stuck]:
    long_ago = now - datetime.timedelta(seconds=thresholds.seconds)
    over = LEASES.c.status == states.LeaseStatus.TERMINATED
    touched = sa.func.coalesce(LEASES.c.updated_at, LEASES.c.created_at, type_=tables.Time())
    # A queued lease with a duration gets its end when it is granted.
    ends = sa.and_(~over, sa.or_(LEASES.c.duration.is_(None), LEASES.c.status.not_in(_UNGRANTED)))
    conditions: dict[StuckKind, tuple[Any, Any]] = {
        StuckKind.PAST_END: (sa.and_(ends, LEASES.c.end_date <= long_ago), LEASES.c.end_date),
        StuckKind.NO_END: (sa.and_(ends, ~db_events.is_open(LEASES.c.id, model.END)), touched),
        StuckKind.STARTING: (
            sa.and_(LEASES.c.status == 'STARTING', LEASES.c.start_date <= long_ago),
            LEASES.c.start_date,
        ),
        StuckKind.ERROR: (sa.and_(LEASES.c.status == 'ERROR', touched <= long_ago), touched),
        StuckKind.TRUST_KEPT: (
            sa.and_(
                over,
                LEASES.c.trust_id.is_not(None),
                ~db_events.is_open(LEASES.c.id, model.RELEASE_TRUST),
            ),
            touched,
        ),
    }
    parts = [
        sa.select(sa.literal(str(kind)), *_lease_columns(), LEASES.c.status_reason, since)
        for kind, (_, since) in conditions.items()
    ]
    for part, (where, _) in enumerate(conditions.values()):
        parts[part] = parts[part].where(
            where if lease_id is None else where & (LEASES.c.id == lease_id)
        )
    for name, *lease, status_reason, since in session.execute(sa.union_all(*parts)):
        kind = StuckKind(name)
        reason = status_reason or _REASONS[kind]
        age = (now - since).total_seconds()
        yield _build_stuck(kind, lease, None, None, reason, age)


_REASONS = {
    StuckKind.PAST_END: 'its end has passed and it is not TERMINATED',
    StuckKind.NO_END: 'it has no end event',
    StuckKind.STARTING: 'it is not active although it has started',
    StuckKind.ERROR: 'a resource of it could not be started',
    StuckKind.TRUST_KEPT: 'it has ended and still has the trust of its owner',
}


def _build_stuck(
    kind: StuckKind,
    lease: Sequence[Any],
    event_id: str | None,
    event_type: str | None,
    reason: str,
    age: float,
) -> Stuck:
    lease_id, name, project_id, status = lease
    return Stuck(
        kind, lease_id, name, project_id, status, event_id, event_type, reason, max(0.0, age)
    )


def _lease_columns() -> list[Any]:
    return [LEASES.c.id, LEASES.c.name, LEASES.c.project_id, LEASES.c.status]
