# SPDX-License-Identifier: Apache-2.0
"""Find the events that are due, claim and renew them, and poll early.

A claim is one guarded UPDATE: the manager that changes one row has the event until the claim
expires by the database's clock. An expired claim looks just like an event that is due, so any
other manager continues what a manager that died has left.

The next poll of a lease may come early when one of its resources is done. Nothing is written for
it: a manager that dies before that poll leaves it to the next one.
"""

import dataclasses
import datetime
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.concurrency import Batches
from climate_core.db import events as db_events
from climate_core.db import rows, sql, tables
from climate_core.db.engine import Database, signal
from climate_core.lease import events, model, states

_EVENT, _LEASE, _RESERVATION = tables.EVENTS, tables.LEASES, tables.RESERVATIONS

#: The signal that an event of a lease may be due.
DUE: Final = 'events.due'
_START: Final = events.get_handler(model.START).priority
#: Of more than can be taken so many times as many are looked at, from either end.
_CANDIDATES_PER_EVENT: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class DueEvent:
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


def read_due(
    session: orm.Session,
    limit: int,
    services: Services = NO_SERVICES,
    full: Collection[str] = (),
    are_many: bool = False,
) -> tuple[datetime.datetime | None, list[DueEvent]]:
    """Read the events that are due, the first one that is not yet, and the database's time.

    :param services: what is told of each event
    :param full: the services for which no more is begun now
    :param are_many: whether more than ``limit`` are expected to be due; then it costs less
    :returns: the time, None when there is no event; and, in the order in which they are to be
        done, at most ``limit`` events that are due, followed by the one that will be next. If
        more are due, the projects take turns, and what calls no service that is full does with
        what does
    """
    first = sql.cached_statement(session, _select_first, 1 if are_many else limit, services)
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
    session: orm.Session, limit: int, services: Services, full: Collection[str]
) -> list[DueEvent]:
    """Read events that are due; by their rank unless there may be more."""
    query = sql.cached_statement(session, _select_in_turn, limit, services, services.mask(full))
    read = [_build_due(row, services) for row in session.execute(query)]
    return read if len(read) >= limit else sorted(read, key=_rank)


def _rank(due: DueEvent) -> tuple[datetime.datetime, int]:
    return due.next_at, due.priority


def _build_due(row: Sequence[Any], services: Services) -> DueEvent:
    event_id, lease_id, event_type, generation, priority, next_at, bits = row
    called = services.read(bits)
    return DueEvent(event_id, lease_id, event_type, generation, priority, next_at, services=called)


def _select_in_turn(
    clock: sql.TestClock | None, limit: int, services: Services, mask: int
) -> sa.Select[Any]:
    """Select events that are due, one of each project, then another one of each.

    What frees something goes first when its time has come: of one that is tried again others are
    not kept waiting. What calls a service that is full takes turns with what calls none.

    :param mask: the bits of the services that are full
    """
    found = _select_candidates(clock, limit, services, mask).c
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
    names = [taken[each.name] for each in rows.columns(_EVENT, DueEvent)]
    return sa.select(*names, taken.bits).order_by(place, taken.calls_full).limit(limit)


def _select_candidates(
    clock: sql.TestClock | None, limit: int, services: Services, mask: int
) -> sa.Subquery:
    """Select events of which some are to be taken, with their projects.

    Of however many events are due, only so many are looked at that have been due for longest and
    for shortest; and of what calls no service that is full, all if need be.
    """
    column, is_due = _EVENT.c, _EVENT.c.next_at <= sql.now_by_clock(clock)
    oldest = sa.select(column.id).where(is_due).order_by(column.next_at, column.priority)
    newest = sa.select(column.id).where(is_due).order_by(column.next_at.desc())
    parts = [each.limit(limit * _CANDIDATES_PER_EVENT) for each in (oldest, newest)]
    if mask:
        parts.append(oldest.where(services.bits.bitwise_and(mask) == 0).limit(limit))
    ids = sa.union(*(sa.select(each.subquery('few').c.id) for each in parts)).subquery('few')
    frees = sa.and_(column.priority < _START, column.next_at == column.time)
    return (
        sa.select(
            *rows.columns(_EVENT, DueEvent),
            services.bits.label('bits'),
            sa.case((frees, 1), else_=0).label('frees'),
            _LEASE.c.project_id,
        )
        .join_from(ids, _EVENT, column.id == ids.c.id)
        .join(_LEASE, _LEASE.c.id == column.lease_id)
        .subquery('few_found')
    )


def _select_first(
    clock: sql.TestClock | None, limit: int, services: Services
) -> sa.CompoundSelect[Any]:
    """Select events that are due, and the one that will be next, with the time."""
    now = sql.now_by_clock(clock)
    columns = (now.label('now'), *rows.columns(_EVENT, DueEvent), services.bits.label('bits'))
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
    then = _complete_claim(session.info.get(sql.CLOCK), ttl, is_early)
    return rows.change_row(session, _EVENT, event_id, generation, claimed, then)


@functools.lru_cache(maxsize=16)
def _complete_claim(clock: sql.TestClock | None, ttl: float, is_early: bool) -> rows.Completion:
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


def postpone_retries(
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
    signal(session, db_events.QUEUED)
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


#: Seconds between two looks at a lease, at least; one of more resources is looked at less often,
#: after a second for so many of them, since each look asks for each of them.
MIN_POLL_SECONDS: Final = 0.5
_RESOURCES_PER_SECOND: Final = 20
#: The most resources of one statement.
_MAX_RESOURCES: Final = 100

#: Finds the event of the lease that waits for a type and an id of a resource.
FindKnown = Callable[[str, str], DueEvent | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    resource_type: str
    resource_id: str
    answer: futures.Future[DueEvent | None] = dataclasses.field(default_factory=futures.Future)


class EarlyPolls:
    """Find events that may be looked at early; for those who ask at once in one statement.

    :param services: which services are called for an event
    :param known: finds the event of a type and an id of a resource without the database, if it can
    """

    def __init__(
        self,
        database: Database,
        services: Services = NO_SERVICES,
        known: FindKnown = lambda _type, _id: None,
    ) -> None:
        self._database = database
        self._services = services
        self._known = known
        self.batches: Batches[_Question] = Batches(
            self._answer, lambda asked: (asked.resource_type, asked.resource_id), _MAX_RESOURCES
        )

    def find(self, resource_type: str, resource_id: str) -> DueEvent | None:
        """Find the event of the lease that waits for a resource, if one does.

        If a manager works on it, that look may have come too early: the next one comes after it,
        with the generation that it leaves. Whether it is over by then the claim tells: if another
        manager works on it for longer, the next look is the one that comes without being told.

        :returns: the event, to be taken at its ``next_at``, which the database does not have; None
            if it is looked at as soon without that
        """
        found = self._known(resource_type, resource_id) or self._ask(resource_type, resource_id)
        services = self._services.of_type(resource_type)
        return None if found is None else dataclasses.replace(found, services=services)

    def _ask(self, resource_type: str, resource_id: str) -> DueEvent | None:
        asked = _Question(resource_type, resource_id)
        self.batches.do(asked)
        return asked.answer.result()

    def _answer(self, asked: Sequence[_Question]) -> None:
        by_type: dict[str, list[_Question]] = defaultdict(list)
        for each in asked:
            by_type[each.resource_type].append(each)
        for resource_type, some in by_type.items():
            try:
                found = self._database.read(
                    _find_early, resource_type, [each.resource_id for each in some]
                )
            except BaseException as exc:  # noqa: BLE001 - those who asked raise it
                for each in some:
                    each.answer.set_exception(exc)
                continue
            for each in some:
                each.answer.set_result(found.get(each.resource_id))


def _find_early(
    session: orm.Session, resource_type: str, resource_ids: Sequence[str]
) -> dict[str, DueEvent | None]:
    query = sql.cached_statement(session, _select_early)
    found: dict[str, DueEvent | None] = {}
    for row in session.execute(query, {'of_type': resource_type, 'ids': list(resource_ids)}):
        resource_id, *values, status, updated_at, resources, read_at = row
        looked_at = read_at if status == states.EventStatus.IN_PROGRESS else updated_at
        if resource_id not in found:
            found[resource_id] = bring_forward(DueEvent(*values), looked_at, resources, read_at)
    return found


def bring_forward(
    due: DueEvent,
    looked_at: datetime.datetime | None,
    resources: int,
    read_at: datetime.datetime,
) -> DueEvent | None:
    """Return an event with the time at which it may be looked at before its next look.

    :param looked_at: when that was done last, or read_at if that goes on
    :param resources: how many are looked at
    :returns: None if the next look comes as soon
    """
    apart = datetime.timedelta(seconds=max(MIN_POLL_SECONDS, resources / _RESOURCES_PER_SECOND))
    at = max(read_at, looked_at + apart) if looked_at else read_at
    return dataclasses.replace(due, next_at=at, is_early=True) if at < due.next_at else None


def _select_early(clock: sql.TestClock | None) -> sa.Select[Any]:
    of_lease = _RESERVATION.alias()
    resources = sa.select(sa.func.count()).where(
        of_lease.c.lease_id == _EVENT.c.lease_id, of_lease.c.hold == 1
    )
    now = sql.now_by_clock(clock)
    return (
        sa.select(
            _RESERVATION.c.resource_id,
            *rows.columns(_EVENT, DueEvent),
            _EVENT.c.status,
            _EVENT.c.updated_at,
            resources.scalar_subquery().label('resources'),
            now.label('now'),
        )
        .join_from(_RESERVATION, _EVENT, _EVENT.c.lease_id == _RESERVATION.c.lease_id)
        .where(
            _RESERVATION.c.resource_type == sa.bindparam('of_type'),
            _RESERVATION.c.resource_id.in_(sa.bindparam('ids', expanding=True)),
            _RESERVATION.c.hold == 1,
            _EVENT.c.status.in_(sorted(states.OPEN)),
            _EVENT.c.time <= now,
            _EVENT.c.next_at > now,
        )
        # One that waits comes before one on which a manager works.
        .order_by(_EVENT.c.status != states.EventStatus.UNDONE, _EVENT.c.next_at)
    )
