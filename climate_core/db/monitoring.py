# SPDX-License-Identifier: Apache-2.0
"""Read what operators watch: counts for the metrics, and leases that make no progress.

Each part of the counts reads an index only: leases_live_idx, events_next_idx,
notifications_next_idx, webhook_deliveries_next_idx. Queues are counted up to :data:`MAX_COUNT`.

To find what is stuck takes two statements, however many leases there are. The engine resumes what
was left by itself, so what is stuck for longer than a moment has a cause outside, such as no
manager that runs.
"""

import dataclasses
import datetime
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import history, leases, sql, store, tables
from climate_core.lease import events, model, states, transitions
from climate_core.lease.history import DONE, Cause, HistoryEntry, describe_change
from climate_core.lease.transitions import Change

#: The most that is counted of a queue.
MAX_COUNT = 100_000

_LEASE_COUNT = 'lease'


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """The numbers that the metrics show of the database.

    :param leases: by status; one that is deleted counts as TERMINATED until it is purged
    :param due: events that are due and not claimed
    :param overdue: those of them that should have been taken up long ago
    :param outbox: notifications that are not sent yet
    :param deliveries: calls of webhooks that are not made yet
    """

    leases: Mapping[str, int]
    due: int
    overdue: int
    outbox: int
    deliveries: int


def read_counts(session: orm.Session, overdue_seconds: float) -> Counts:
    """Count everything in one statement; an event is overdue so many seconds after its time."""
    table = tables.LEASES.c.status
    parts: list[Any] = [
        sa.select(
            sa.literal(_LEASE_COUNT).label('what'), table.label('which'), sa.func.count()
        ).group_by(table),
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


_LEASE, _EVENT = tables.LEASES, tables.EVENTS
_BUSY, _WAITING = states.EventStatus.IN_PROGRESS, states.EventStatus.UNDONE

#: What a repair is called in the history.
REPAIR = 'operator.repair'


class StuckKind(enum.StrEnum):
    """The reason why a lease does not go on."""

    CLAIM_EXPIRED = 'claim_expired'
    NOT_TAKEN_UP = 'not_taken_up'
    RETRIED = 'retried'
    PAST_END = 'past_end'
    NO_END = 'no_end'
    STARTING = 'starting'
    ERROR = 'error'
    TRUST_KEPT = 'trust_kept'


#: What :func:`unstick` does about it. An ERROR is for a person to judge.
REMEDIES: Mapping[StuckKind, str] = {
    StuckKind.CLAIM_EXPIRED: 'make the event due now',
    StuckKind.NOT_TAKEN_UP: 'make the event due now',
    StuckKind.RETRIED: 'make the event due now',
    StuckKind.PAST_END: 'make the end due now',
    StuckKind.NO_END: 'give the lease its end again',
    StuckKind.STARTING: 'make the start due now',
    StuckKind.TRUST_KEPT: 'let the trust go',
}


@dataclasses.dataclass(frozen=True, slots=True)
class StuckThresholds:
    """Thresholds from which a lease or an event counts as stuck.

    :param attempts: failed attempts at an event
    :param seconds: that an event is retried, or a lease is what it should not stay
    :param grace: seconds that something due may wait to be taken up
    """

    attempts: int = 10
    seconds: float = 600.0
    grace: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Stuck:
    """One thing that does not go on.

    :param event_type: of the event, if it is about one
    :param reason: a sentence for the operator
    :param age: seconds since it should have gone on
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

    :param lease_id: only this one
    """
    now = sql.read_time(session)
    found = [
        *_find_events(session, now, thresholds, lease_id),
        *_find_leases(session, now, thresholds, lease_id),
    ]
    return sorted(found, key=lambda each: -each.age)


def unstick(
    session: orm.Session, lease_id: str, findings: Sequence[Stuck], user_id: str | None
) -> list[str]:
    """Repair what was found of a lease, if that is still so.

    An event that a manager is working on is left alone.

    :param user_id: who repairs, for the history
    :returns: what was done, in sentences
    :raises climate_core.db.engine.Stale: the lease was changed meanwhile
    """
    before = leases.find(session, lease_id, lock=True)
    if before is None:
        return []
    now = sql.read_time(session)
    after, done = before, []
    for each in findings:
        changed = _unstick(after, each, now)
        if changed != after:
            after = changed
            done.append(f'{each.kind}: {REMEDIES[each.kind]} ({each.event_type or "lease"})')
    if done:
        cause = Cause(REPAIR, user_id=user_id)
        store.save(session, before, Change(after), now, cause)
        note_repair(session, before, after, cause, now, '; '.join(done))
    return done


def note_repair(
    session: orm.Session,
    before: model.Lease,
    after: model.Lease,
    cause: Cause,
    now: datetime.datetime,
    reason: str,
) -> None:
    """Write a repair into the history, unless it was written with the change of the lease."""
    if describe_change(before, after, cause, now) is None:
        told = HistoryEntry(after.id, now, cause.action, DONE, reason, cause.user_id, None, {})
        history.add(session, told)


def _unstick(lease: model.Lease, found: Stuck, now: datetime.datetime) -> model.Lease:
    if found.kind is StuckKind.TRUST_KEPT:
        return events.get_handler(model.RELEASE_TRUST).after_termination(lease, now)
    if found.kind is StuckKind.NO_END:
        time = max(lease.end_date, now)
        end = lease.event(model.END)
        again = transitions.reschedule_event(end, time, now) if end else None
        return lease.with_events(again or model.new_event(lease.id, model.END, time, now))
    wanted = _EVENT_DUE_NOW.get(found.kind)
    event = lease.event(wanted) if wanted else _event_of(lease, found.event_id)
    return lease if event is None else _reschedule(lease, event, now)


#: The event that is pushed for a lease that does not go on.
_EVENT_DUE_NOW = {StuckKind.PAST_END: model.END, StuckKind.STARTING: model.START}


def _event_of(lease: model.Lease, event_id: str | None) -> model.Event | None:
    return next((each for each in lease.events if each.id == event_id), None)


def _reschedule(lease: model.Lease, event: model.Event, now: datetime.datetime) -> model.Lease:
    waits = event.next_at is not None and event.next_at > now
    if (
        not event.open
        or (event.status == states.EventStatus.IN_PROGRESS and waits)
        or event.next_at == now
    ):
        return lease
    return lease.with_events(transitions.reschedule_event(event, now, now))


def _find_events(
    session: orm.Session, now: datetime.datetime, thresholds: StuckThresholds, lease_id: str | None
) -> Iterator[Stuck]:
    waited = _EVENT.c.next_at <= now - datetime.timedelta(seconds=thresholds.grace)
    long_ago = now - datetime.timedelta(seconds=thresholds.seconds)
    tried = sa.and_(_EVENT.c.attempts > 0, _EVENT.c.time <= long_ago)
    often = _EVENT.c.attempts >= thresholds.attempts
    query = (
        sa.select(
            *_lease_columns(), _EVENT.c.id, _EVENT.c.event_type, _EVENT.c.status, _EVENT.c.attempts
        )
        .add_columns(_EVENT.c.next_at, _EVENT.c.time, _EVENT.c.status_reason)
        .join_from(_EVENT, _LEASE, _EVENT.c.lease_id == _LEASE.c.id)
        .where(_EVENT.c.next_at.is_not(None), sa.or_(waited, tried, often))
    )
    for row in session.execute(
        query if lease_id is None else query.where(_LEASE.c.id == lease_id)
    ):
        *lease, event_id, event_type, status, attempts, next_at, time, told = row
        waiting = (now - next_at).total_seconds()
        if waiting >= thresholds.grace:
            busy = status == _BUSY
            kind = StuckKind.CLAIM_EXPIRED if busy else StuckKind.NOT_TAKEN_UP
            reason = 'its claim expired and no manager took it up' if busy else _NOT_CLAIMED
        else:
            kind, waiting = StuckKind.RETRIED, (now - time).total_seconds()
            reason = f'failed {attempts} times: {told}'
        yield Stuck(kind, *_lease_values(lease), event_id, event_type, reason, max(0.0, waiting))


_UNGRANTED = [str(status) for status in states.UNGRANTED]
_NOT_CLAIMED = 'it is due and no manager takes it up; does one run?'


def _find_leases(
    session: orm.Session, now: datetime.datetime, thresholds: StuckThresholds, lease_id: str | None
) -> Iterator[Stuck]:
    long_ago = now - datetime.timedelta(seconds=thresholds.seconds)
    over = _LEASE.c.status == states.LeaseStatus.TERMINATED
    touched = sa.func.coalesce(_LEASE.c.updated_at, _LEASE.c.created_at, type_=tables.Time())
    # A lease that waits gets its end when it is granted, if it is to last so long.
    ends = sa.and_(~over, sa.or_(_LEASE.c.duration.is_(None), _LEASE.c.status.not_in(_UNGRANTED)))
    conditions: dict[StuckKind, tuple[Any, Any]] = {
        StuckKind.PAST_END: (sa.and_(ends, _LEASE.c.end_date <= long_ago), _LEASE.c.end_date),
        StuckKind.NO_END: (sa.and_(ends, ~_has_open(model.END)), touched),
        StuckKind.STARTING: (
            sa.and_(_LEASE.c.status == 'STARTING', _LEASE.c.start_date <= long_ago),
            _LEASE.c.start_date,
        ),
        StuckKind.ERROR: (sa.and_(_LEASE.c.status == 'ERROR', touched <= long_ago), touched),
        StuckKind.TRUST_KEPT: (
            sa.and_(over, _LEASE.c.trust_id.is_not(None), ~_has_open(model.RELEASE_TRUST)),
            touched,
        ),
    }
    parts = [
        sa.select(sa.literal(str(kind)), *_lease_columns(), _LEASE.c.status_reason, since)
        for kind, (_, since) in conditions.items()
    ]
    for part, (where, _) in enumerate(conditions.values()):
        parts[part] = parts[part].where(
            where if lease_id is None else where & (_LEASE.c.id == lease_id)
        )
    for name, *lease, told, since in session.execute(sa.union_all(*parts)):
        kind = StuckKind(name)
        reason = told or _REASONS[kind]
        age = max(0.0, (now - since).total_seconds())
        yield Stuck(kind, *_lease_values(lease), None, None, reason, age)


_REASONS = {
    StuckKind.PAST_END: 'its end is past and it is not over',
    StuckKind.NO_END: 'nothing will end it',
    StuckKind.STARTING: 'it is not awake since its start',
    StuckKind.ERROR: 'something of it could not be woken',
    StuckKind.TRUST_KEPT: 'it is over and still has the trust of its owner',
}


def _lease_columns() -> list[Any]:
    return [_LEASE.c.id, _LEASE.c.name, _LEASE.c.project_id, _LEASE.c.status]


def _lease_values(lease: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    one, two, three, four = lease
    return one, two, three, four


def _has_open(event_type: str) -> Any:
    return (
        sa.select(_EVENT.c.id)
        .filter_by(lease_id=_LEASE.c.id, event_type=event_type)
        .where(_EVENT.c.status.in_([_BUSY, _WAITING]))
        .exists()
    )
