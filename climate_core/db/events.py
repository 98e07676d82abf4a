# SPDX-License-Identifier: Apache-2.0
"""Events: conditions for queries, starts that come soon, and those that are due.

A claim is one guarded UPDATE: the manager that changes one row has the event until the claim
expires by the database's clock. An expired claim looks just like an event that is due, so any
other manager continues what a manager that died has left.

The next poll of a lease may come early when one of its resources is done. Nothing is written for
it: a manager that dies before that poll leaves it to the next one.
"""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import engine, sql
from climate_core.db.engine import signal
from climate_core.db.tables import EVENTS, LEASES, RESERVATIONS
from climate_core.lease import events as lease_events
from climate_core.lease import model, states
from climate_core.lease.events.start import START_WILL_FAIL

#: The signal that the queue of leases has changed.
QUEUED: Final = 'events.queued'

_STARTS: Final = [each for each in lease_events.TABLE if each.done_when_active]
#: Maximum number of starts that are read.
_MAX_STARTS: Final = 20000
_IS_OPEN = EVENTS.c.status.in_(sorted(states.OPEN))


def last_created_at(event_type: str, reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when the last event of a type was created for each reservation of a query."""
    mine = _is_of(event_type, reservation.c.lease_id, EVENTS.c.reservation_id == reservation.c.id)
    return sa.select(sa.func.max(EVENTS.c.created_at)).where(mine).scalar_subquery()


def early_end_at(reservation: sa.Table) -> sa.ScalarSelect[Any]:
    """Return when each reservation of a query ends before its lease; NULL: it does not."""
    its_own = EVENTS.c.reservation_id == reservation.c.id
    mine = _is_of(model.END_RESERVATION, reservation.c.lease_id, its_own, _IS_OPEN)
    return sa.select(sa.func.min(EVENTS.c.time)).where(mine).scalar_subquery()


def is_open_preemption(lease: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition of a join for the open ``preempt_lease`` of the leases of a query."""
    return _is_of(model.PREEMPT, lease.c.id, _IS_OPEN)


def has_begun(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that was claimed, or is done."""
    return _exists(lease_id, event_type, EVENTS.c.status != states.EventStatus.UNDONE)


def is_unclaimed(event_type: str, reservation: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type of a reservation was not claimed yet."""
    undone = EVENTS.c.status == states.EventStatus.UNDONE
    its_own = EVENTS.c.reservation_id == reservation.c.id
    return _exists(reservation.c.lease_id, event_type, sa.and_(its_own, undone))


def is_open(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that a lease has an event of a type that is not done yet."""
    return _exists(lease_id, event_type, _IS_OPEN)


def is_done(lease_id: sa.ColumnElement[str], event_type: str) -> sa.ColumnElement[bool]:
    """Return the condition that an event of a type has taken effect for a lease."""
    done = sa.and_(EVENTS.c.status == states.EventStatus.DONE, EVENTS.c.status_reason.is_(None))
    return _exists(lease_id, event_type, done)


def first_finished_at(
    lease_id: sa.ColumnElement[str], event_type: str, since: sa.ColumnElement[Any]
) -> sa.ScalarSelect[Any]:
    """Return when the first event of a type was finished since a time; NULL: none was."""
    is_later = EVENTS.c.updated_at >= since
    over = _is_of(event_type, lease_id, EVENTS.c.status.not_in(sorted(states.OPEN)), is_later)
    return sa.select(sa.func.min(EVENTS.c.updated_at)).where(over).scalar_subquery()


def _exists(
    lease_id: sa.ColumnElement[str], event_type: str, which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    # A query may read other events itself.
    return sa.exists().where(_is_of(event_type, lease_id, which)).correlate_except(EVENTS)


def _is_of(
    event_type: str, lease_id: sa.ColumnElement[str], *which: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition for some of the events of a type of a lease."""
    return sa.and_(EVENTS.c.lease_id == lease_id, EVENTS.c.event_type == event_type, *which)


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
    event = _select_starts(session.info.get(engine.CLOCK), seconds)
    has_warning = sa.func.coalesce(LEASES.c.status_reason, '').contains(START_WILL_FAIL)
    query = _join_leases(sa.select(LEASES.c.id), event, types)
    mine = query.where(LEASES.c.trust_id == trust_id, has_warning if is_told else ~has_warning)
    return list(session.scalars(mine.order_by(event.c.next_at, LEASES.c.id).limit(limit)))


def _select_upcoming(
    clock: sql.TestClock | None, types: tuple[str, ...], seconds: float, limit: int
) -> sa.Select[Any]:
    event = _select_starts(clock, seconds)
    first = sa.func.min(event.c.next_at).label('first')
    now = sql.now_by_clock(clock).label('now')
    columns = (LEASES.c.trust_id, first, sa.func.count(LEASES.c.status_reason), now)
    query = _join_leases(sa.select(*columns), event, types)
    mine = query.where(LEASES.c.trust_id.is_not(None)).group_by(LEASES.c.trust_id)
    return mine.order_by(first, LEASES.c.trust_id).limit(limit)


def _select_starts(clock: sql.TestClock | None, seconds: float) -> sa.Subquery:
    """Select the starts within a number of seconds that are not claimed."""
    column = EVENTS.c
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
        RESERVATIONS.c.lease_id == LEASES.c.id,
        RESERVATIONS.c.resource_type.in_(types),
        RESERVATIONS.c.status == states.ReservationStatus.PENDING,
    )
    return query.select_from(event.join(LEASES, LEASES.c.id == event.c.lease_id)).where(
        LEASES.c.status == states.LeaseStatus.PENDING, mine.scalar_subquery() > 0
    )


#: The signal that an event of a lease may be due.
DUE: Final = 'events.due'
_START: Final = lease_events.get_handler(model.START).priority
#: Number of events that are read for each that can be taken, from either end.
_CANDIDATES_PER_EVENT: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class DueEvent:
    """An event that is due at ``next_at``.

    :param is_early: whether its ``next_at`` in the database is later
    :param services: the services that may be called for it, as far as they were requested
    """

    id: str
    lease_id: str
    event_type: str
    generation: int
    priority: int
    next_at: datetime.datetime
    is_early: bool = False
    services: frozenset[str] = frozenset()


class CalledServices:
    """The services that are called for events.

    :param types: service -> the types of resources for which it is called
    """

    def __init__(self, types: Mapping[str, Collection[str]]) -> None:
        self._types = types
        self._by_event: dict[tuple[str, str | None], frozenset[str]] = {}

    @property
    def names(self) -> Collection[str]:
        return self._types.keys()

    def of_type(self, resource_type: str) -> frozenset[str]:
        """Return the services that are called for a type of resource."""
        return frozenset(name for name, types in self._types.items() if resource_type in types)

    def of_event(self, event_type: str, resource_types: str | None) -> frozenset[str]:
        """Return the services that may be called for an event.

        :param resource_types: the column of this name
        """
        known = self._by_event.get((event_type, resource_types))
        if known is not None:
            return known
        service = lease_events.get_handler(event_type).service
        services = {name for name in self._types if name == service}
        for resource_type in (resource_types or '').split():
            services |= self.of_type(resource_type)
        return self._by_event.setdefault((event_type, resource_types), frozenset(services))

    def called_for(self, services: Collection[str]) -> sa.ColumnElement[bool]:
        """Return the condition that an event may call one of these services."""
        types = sorted({name for service in services for name in self._types[service]})
        of_types = [
            EVENTS.c.resource_types.contains(f' {name} ', autoescape=True) for name in types
        ]
        by_handler = [each.event_type for each in lease_events.TABLE if each.service in services]
        return sa.func.coalesce(sa.or_(EVENTS.c.event_type.in_(by_handler), *of_types), False)


#: The columns of :class:`DueEvent`, with the types of resources for which services are called.
_COLUMNS: Final = (*sql.columns(EVENTS, DueEvent), EVENTS.c.resource_types)

#: For reads that do not need the services.
NO_SERVICES: Final = CalledServices({})


def read_due(
    session: orm.Session,
    limit: int,
    services: CalledServices = NO_SERVICES,
    full: Collection[str] = (),
    are_many: bool = False,
) -> tuple[datetime.datetime | None, list[DueEvent]]:
    """Read the events that are due, the first one that is not yet, and the database's time.

    :param services: the services that are called for events
    :param full: the services for which no more events are started now
    :param are_many: whether more than ``limit`` are expected to be due; then it costs less
    :returns: the time, None when there is no event; and, in the order of their processing, at
        most ``limit`` events that are due, followed by the next one. If more are due, projects
        take turns, and so do events that call a full service with events that do not
    """
    first = sql.cached_statement(session, _select_first, 1 if are_many else limit)
    found = session.execute(first).all()
    if not found:
        return None, []
    now: datetime.datetime = found[0][0]
    read = sorted((_build_due(row[1:], services) for row in found), key=_rank)
    if are_many or (len(read) >= limit and read[limit - 1].next_at <= now):
        # Another manager may have claimed some in between: the next one is known all the same.
        read = _read_in_turn(session, limit, services, full) + [e for e in read if e.next_at > now]
    return now, read


def _read_in_turn(
    session: orm.Session, limit: int, services: CalledServices, full: Collection[str]
) -> list[DueEvent]:
    """Read events that are due; by their rank unless there may be more."""
    query = sql.cached_statement(session, _select_in_turn, limit, services, tuple(sorted(full)))
    read = [_build_due(row, services) for row in session.execute(query)]
    return read if len(read) >= limit else sorted(read, key=_rank)


def _rank(due: DueEvent) -> tuple[datetime.datetime, int]:
    return due.next_at, due.priority


def _build_due(row: Sequence[Any], services: CalledServices) -> DueEvent:
    event_id, lease_id, event_type, generation, priority, next_at, resource_types = row
    called = services.of_event(event_type, resource_types)
    return DueEvent(event_id, lease_id, event_type, generation, priority, next_at, services=called)


def _select_in_turn(
    clock: sql.TestClock | None, limit: int, services: CalledServices, full: tuple[str, ...]
) -> sa.Select[Any]:
    """Select events that are due, one of each project, then another one of each.

    Events that free resources come first at their time; retries of them do not delay other
    events. Events that call a full service take turns with events that do not.

    :param full: the services that are full
    """
    candidate = _select_candidates(clock, limit, services, full).c
    order = (candidate.next_at, candidate.priority)
    alike = [candidate.calls_full, candidate.project_id]
    by_project = sa.func.row_number().over(partition_by=alike, order_by=order)
    turn = sa.case((candidate.frees == 1, 0), else_=by_project)
    # Chance decides among the projects, so that none is always the last one.
    chance = sa.case((candidate.frees == 1, 0.0), else_=sa.func.random())
    turns = sa.select(*candidate, turn.label('turn'), chance.label('chance'))
    taken = turns.subquery('few_turns').c
    place = sa.func.row_number().over(
        partition_by=taken.calls_full,
        order_by=(taken.turn, taken.chance, taken.next_at, taken.priority),
    )
    names = [taken[column.name] for column in _COLUMNS]
    return sa.select(*names).order_by(place, taken.calls_full).limit(limit)


def _select_candidates(
    clock: sql.TestClock | None, limit: int, services: CalledServices, full: tuple[str, ...]
) -> sa.Subquery:
    """Select the events among which is chosen, with their projects.

    These are a limited number of events that have been due for longest and for shortest, and of
    the events that call no full service as many as are needed.
    """
    column, is_due = EVENTS.c, EVENTS.c.next_at <= sql.now_by_clock(clock)
    oldest = sa.select(column.id).where(is_due).order_by(column.next_at, column.priority)
    newest = sa.select(column.id).where(is_due).order_by(column.next_at.desc())
    parts = [query.limit(limit * _CANDIDATES_PER_EVENT) for query in (oldest, newest)]
    calls_full = services.called_for(full) if full else sa.false()
    if full:
        parts.append(oldest.where(~calls_full).limit(limit))
    ids = sa.union(*(sa.select(part.subquery('few').c.id) for part in parts)).subquery('few')
    frees = sa.and_(column.priority < _START, column.next_at == column.time)
    return (
        sa.select(
            *_COLUMNS,
            sa.case((calls_full, 1), else_=0).label('calls_full'),
            sa.case((frees, 1), else_=0).label('frees'),
            LEASES.c.project_id,
        )
        .join_from(ids, EVENTS, column.id == ids.c.id)
        .join(LEASES, LEASES.c.id == column.lease_id)
        .subquery('few_found')
    )


def _select_first(clock: sql.TestClock | None, limit: int) -> sa.CompoundSelect[Any]:
    """Select events that are due, and the one that will be next, with the time."""
    now = sql.now_by_clock(clock)
    columns = (now.label('now'), *_COLUMNS)
    order = (EVENTS.c.next_at, EVENTS.c.priority)
    due = sa.select(*columns).where(EVENTS.c.next_at <= now).order_by(*order).limit(limit)
    next_one = sa.select(*columns).where(EVENTS.c.next_at > now).order_by(*order).limit(1)
    # SQLite takes an order and a limit within a union only in a query of its own.
    return sa.union_all(*(sa.select(query.subquery('few')) for query in (due, next_one)))


def claim(
    session: orm.Session, event_id: str, generation: int, ttl: float, is_early: bool = False
) -> bool:
    """Take an event that is due for ``ttl`` seconds.

    :param generation: the one that was read; the claim has the next one
    :param is_early: whether an event that waits for its next poll may be claimed before that
    :returns: False if another manager has claimed it, or the event is not due any more
    """
    claimed = {'status': states.EventStatus.IN_PROGRESS, 'generation': generation + 1}
    then = _complete_claim(session.info.get(engine.CLOCK), ttl, is_early)
    return sql.change_row(session, EVENTS, event_id, generation, claimed, then)


@functools.lru_cache(maxsize=16)
def _complete_claim(clock: sql.TestClock | None, ttl: float, is_early: bool) -> sql.Completion:
    """Return what makes a claim of the statement that changes an event."""

    def complete(statement: sa.Update) -> sa.Update:
        due = EVENTS.c.next_at <= sql.now_by_clock(clock)
        if is_early:
            due = sa.or_(due, EVENTS.c.status == states.EventStatus.UNDONE)
        return statement.where(due).values(next_at=sql.now_by_clock(clock, ttl))

    # With the clock of the database it is always the same.
    return functools.cache(complete) if clock is None else complete


def renew(session: orm.Session, event_id: str, generation: int, ttl: float) -> bool:
    """Renew a claim for ``ttl`` seconds from now; False if it is lost."""
    mine = sa.and_(EVENTS.c.id == event_id, EVENTS.c.generation == generation)
    statement = sa.update(EVENTS).where(mine, EVENTS.c.status == states.EventStatus.IN_PROGRESS)
    return sql.change(session, statement.values(next_at=sql.now(session, ttl))) == 1


def postpone_retries(
    session: orm.Session,
    event_type: str,
    lease_ids: Collection[str],
    before: datetime.datetime,
    until: datetime.datetime,
) -> None:
    """Count an attempt of the leases whose next ``retry_lease`` is due before a time.

    Leases whose last attempt this would be are left to their own event, which abandons them.

    :param event_type: the type of the events by which they are tried
    :param lease_ids: the leases that were tried; a pass tries few
    :param until: when they are tried next
    """
    signal(session, QUEUED)
    undone = EVENTS.c.status == states.EventStatus.UNDONE
    due = sa.and_(EVENTS.c.event_type == event_type, undone, EVENTS.c.next_at <= before)
    retries = sa.or_(LEASES.c.retries_left > 0, LEASES.c.retries_left.is_(None))
    more = sa.and_(LEASES.c.status == states.LeaseStatus.WAITING, retries)
    query = (
        sa.select(EVENTS.c.id, EVENTS.c.generation, LEASES.c.id, LEASES.c.generation)
        .join_from(EVENTS, LEASES, EVENTS.c.lease_id == LEASES.c.id)
        .where(due, more, LEASES.c.id.in_(lease_ids))
    )
    found = sorted(session.execute(query), key=lambda row: row[2])
    if not found:
        return
    # Lock the leases before their events, in the order of all transactions, so that none deadlock.
    # An event that another manager has just counted has a later ``next_at`` and is left out.
    leases = sa.tuple_(LEASES.c.id, LEASES.c.generation).in_([row[2:] for row in found])
    counted = {
        'retries_left': LEASES.c.retries_left - 1,
        'generation': LEASES.c.generation + 1,
        'updated_at': sql.now(session),
    }
    sql.change(session, sa.update(LEASES).where(leases, more).values(**counted))
    events = sa.tuple_(EVENTS.c.id, EVENTS.c.generation).in_([row[:2] for row in found])
    new = {'next_at': until, 'time': until, 'generation': EVENTS.c.generation + 1}
    sql.change(session, sa.update(EVENTS).where(events, due).values(**new))


#: Minimum seconds between two polls of a lease. A lease with many resources is polled less often,
#: since a poll reads each of them.
MIN_POLL_SECONDS: Final = 0.5
_RESOURCES_PER_SECOND: Final = 20


def find_early(
    session: orm.Session, resource_type: str, resource_ids: Sequence[str]
) -> dict[str, DueEvent | None]:
    """Return the events that may be polled early, by the resources that their leases wait for."""
    query = sql.cached_statement(session, _select_early)
    found: dict[str, DueEvent | None] = {}
    for row in session.execute(query, {'of_type': resource_type, 'ids': list(resource_ids)}):
        resource_id, *values, status, updated_at, resources, read_at = row
        polled_at = read_at if status == states.EventStatus.IN_PROGRESS else updated_at
        if resource_id not in found:
            found[resource_id] = bring_forward(DueEvent(*values), polled_at, resources, read_at)
    return found


def bring_forward(
    due: DueEvent,
    polled_at: datetime.datetime | None,
    resources: int,
    read_at: datetime.datetime,
) -> DueEvent | None:
    """Return an event with the time of a poll before its regular one.

    :param polled_at: the time of the last poll, or read_at if it is in progress
    :param resources: number of resources that a poll reads
    :returns: None if the regular poll comes as soon
    """
    apart = datetime.timedelta(seconds=max(MIN_POLL_SECONDS, resources / _RESOURCES_PER_SECOND))
    at = max(read_at, polled_at + apart) if polled_at else read_at
    return dataclasses.replace(due, next_at=at, is_early=True) if at < due.next_at else None


def _select_early(clock: sql.TestClock | None) -> sa.Select[Any]:
    of_lease = RESERVATIONS.alias()
    resources = sa.select(sa.func.count()).where(
        of_lease.c.lease_id == EVENTS.c.lease_id, of_lease.c.hold == 1
    )
    now = sql.now_by_clock(clock)
    return (
        sa.select(
            RESERVATIONS.c.resource_id,
            *sql.columns(EVENTS, DueEvent),
            EVENTS.c.status,
            EVENTS.c.updated_at,
            resources.scalar_subquery().label('resources'),
            now.label('now'),
        )
        .join_from(RESERVATIONS, EVENTS, EVENTS.c.lease_id == RESERVATIONS.c.lease_id)
        .where(
            RESERVATIONS.c.resource_type == sa.bindparam('of_type'),
            RESERVATIONS.c.resource_id.in_(sa.bindparam('ids', expanding=True)),
            RESERVATIONS.c.hold == 1,
            EVENTS.c.status.in_(sorted(states.OPEN)),
            EVENTS.c.time <= now,
            EVENTS.c.next_at > now,
        )
        # Unclaimed events come before claimed events.
        .order_by(EVENTS.c.status != states.EventStatus.UNDONE, EVENTS.c.next_at)
    )
