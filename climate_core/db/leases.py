# SPDX-License-Identifier: Apache-2.0
"""Read leases, their reservations and allocations, and the queue.

Pages are in ``listing``, and what reservations hold in ``held_resources``.
"""

import dataclasses
import functools
import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions, packages
from climate_core.db import secrets, sql, tables
from climate_core.db.calendar import is_released
from climate_core.db.tables import ALLOCATIONS, EVENTS, LEASES, RESERVATIONS
from climate_core.lease import states
from climate_core.lease.model import (
    AllocatedUnit,
    Event,
    Lease,
    Reservation,
    queue_order,
)
from climate_core.lease.views import LeaseSummary

#: The signal that resources were freed, for which leases may be queued.
RESOURCES_FREED: Final = 'reservations.freed'

RESERVATION_COLUMNS = sql.columns(RESERVATIONS, Reservation)
_RESERVATION_NAMES = tuple(each.name for each in RESERVATION_COLUMNS)
_PARAMS_ROW: Final = RESERVATIONS.alias('whole')
#: What forecasts and the queue read of params. MariaDB reads all columns of a table that a query
#: names, so the whole params have a subquery, which it executes only where it needs them.
SHORT_PARAMS: Final[sa.ColumnElement[Any]] = sa.func.coalesce(
    RESERVATIONS.c.short_params,
    sa.select(_PARAMS_ROW.c.params)
    .where(_PARAMS_ROW.c.id == RESERVATIONS.c.id)
    .correlate(RESERVATIONS)
    .scalar_subquery(),
    type_=tables.Json(),
)
#: The same columns with these params.
SHORT_RESERVATION_COLUMNS: Final = tuple(
    SHORT_PARAMS if each is RESERVATIONS.c.params else each for each in RESERVATION_COLUMNS
)
#: Bytes that a reservation costs beside its params.
_ROW_BYTES: Final = 512
#: About how many bytes the rows of a query have with these columns.
SHORT_BYTES: Final = sa.func.sum(sql.byte_length(SHORT_PARAMS) + _ROW_BYTES)


class ReservationCount(NamedTuple):
    """The number of reservations of a lease that have a type and a status."""

    resource_type: str
    status: str
    number: int


def count_reservations(
    session: orm.Session, ids: Collection[str]
) -> dict[str, list[ReservationCount]]:
    """Count the reservations of leases in one statement, and read nothing else of them."""
    column = RESERVATIONS.c
    by = (column.lease_id, column.resource_type, column.status)
    query = sa.select(*by, sa.func.count()).where(column.lease_id.in_(ids)).group_by(*by)
    found: dict[str, list[ReservationCount]] = defaultdict(list)
    for lease_id, *count in session.execute(query):
        found[lease_id].append(ReservationCount(*count))
    return found


def build_reservation(session: orm.Session, row: Sequence[Any]) -> Reservation:
    """Build a reservation from a row of :data:`COLUMNS`."""
    values = dict(zip(_RESERVATION_NAMES, row, strict=True))
    values['params'] = secrets.open_params(session, values['lease_id'], values['params'])
    return Reservation(**values)


_ALLOCATION_COLUMNS = tuple(
    ALLOCATIONS.c[name] for name in ('unit_id', 'start', 'end', 'pieces', 'lane')
)
#: The columns that identify the reservation of an allocation.
_KEY_COLUMNS = (ALLOCATIONS.c.reservation_id, is_released().label('released'))


@functools.cache
def _unit_columns() -> tuple[sa.Label[Any], ...]:
    """Return what plugins know of units: columns of the tables that have their rows.

    One statement reads the units of all kinds.
    """
    return tuple(
        units.table.c[name].label(f'{units.table.name}_{name}')
        for units in packages.find_unit_tables().values()
        for name in ('unit_id', *units.allocation_columns)
    )


def attach_allocations(
    session: orm.Session, reservations: Sequence[Reservation]
) -> Sequence[Reservation]:
    """Return reservations with their allocations; no statement if the calendar has no part."""
    ids = [each.id for each in reservations if each.unit_kind is not None]
    if not ids:
        return reservations
    found = find_allocations(session, ids)
    return [_with_allocations(each, found) for each in reservations]


def find_allocations(
    session: orm.Session, reservation_ids: Sequence[str]
) -> Mapping[tuple[str, bool], Sequence[AllocatedUnit]]:
    """Read the allocations of reservations, by their ids and whether they were released."""
    found: dict[tuple[str, bool], list[AllocatedUnit]] = defaultdict(list)
    every: sa.FromClause = ALLOCATIONS
    for units in packages.find_unit_tables().values():
        every = every.outerjoin(units.table, ALLOCATIONS.c.unit_id == units.table.c.unit_id)
    query = (
        sa.select(*_ALLOCATION_COLUMNS, *_KEY_COLUMNS, *_unit_columns())
        .select_from(every)
        .where(ALLOCATIONS.c.reservation_id.in_(reservation_ids))
        .order_by(ALLOCATIONS.c.unit_id)
    )
    for row in session.execute(query).mappings():
        values = {column.name: row[column.name] for column in _ALLOCATION_COLUMNS}
        key = row['reservation_id'], bool(row['released'])
        found[key].append(AllocatedUnit(**values, unit=_unit(row)))
    return found


def _unit(row: sa.RowMapping) -> dict[str, Any]:
    """Return what plugins know of a unit."""
    for units in packages.find_unit_tables().values():
        prefix = units.table.name
        if row[f'{prefix}_unit_id'] is not None:
            return {name: row[f'{prefix}_{name}'] for name in units.allocation_columns}
    return {}


def _with_allocations(
    reservation: Reservation, found: Mapping[tuple[str, bool], Sequence[AllocatedUnit]]
) -> Reservation:
    """Return a reservation with its allocations, and with what was released."""
    return dataclasses.replace(
        reservation,
        allocations=tuple(found.get((reservation.id, False), ())),
        released=tuple(found.get((reservation.id, True), ())),
    )


_EVENT_COLUMNS = sql.columns(EVENTS, Event)
#: All of them; the id is the first.
COLUMNS: Final = tuple(LEASES.columns)
_LEASE_NAMES = tuple(LEASES.columns.keys())
_EVENT_NAMES = tuple(each.name for each in _EVENT_COLUMNS)

#: The order of queued leases. They are few, so it needs no index.
_QUEUE_ORDER = queue_order(LEASES.c)
_IS_WAITING: Final = (
    LEASES.c.status == states.LeaseStatus.WAITING,
    LEASES.c.deleted_at.is_(None),
)

#: A part of a lease -> its table and its columns.
PART_COLUMNS: Final[Mapping[str, tuple[sa.Table, Sequence[sa.ColumnElement[Any]]]]] = {
    'reservations': (RESERVATIONS, RESERVATION_COLUMNS),
    'events': (EVENTS, _EVENT_COLUMNS),
}
_BY_CREATION: Final = operator.attrgetter('created_at', 'id')
_BY_TIME: Final = operator.attrgetter('time', 'id')

#: Bytes of reservations after which :func:`read_waiting` reads no further lease.
MAX_QUEUE_BYTES: Final = 8 * 1024 * 1024
#: The parts that are read with a lease by default.
PARTS: Final = frozenset({'reservations', 'events'})


def _select_whole(*of_lease: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select a lease: a row for itself, then a row for each reservation, then one for each event.

    A row starts with the columns of the lease, and has nothing in those of the other two parts.
    """
    numbers: sa.CompoundSelect[Any] = sa.union_all(
        *(sa.select(sa.literal_column(n).label('part')) for n in '012')
    )
    part = numbers.subquery('parts').c.part
    reservation = sa.and_(part == 1, RESERVATIONS.c.lease_id == LEASES.c.id)
    event = sa.and_(part == 2, EVENTS.c.lease_id == LEASES.c.id)
    query = sa.select(*of_lease, *RESERVATION_COLUMNS, *_EVENT_COLUMNS)
    return (
        query.join_from(part.table, LEASES, LEASES.c.id == sa.bindparam('wanted'))
        .outerjoin(RESERVATIONS, reservation)
        .outerjoin(EVENTS, event)
        .order_by(part, RESERVATIONS.c.created_at, RESERVATIONS.c.id, EVENTS.c.time, EVENTS.c.id)
    )


#: Built once: that takes longer than to execute it.
_WHOLE: Final = _select_whole(*LEASES.columns)
_CONTENTS: Final = _select_whole()
_LOCK: Final = sa.select(LEASES).where(LEASES.c.id == sa.bindparam('wanted')).with_for_update()
_LOCK_ALL: Final = (
    sa.select(LEASES)
    .where(LEASES.c.id.in_(sa.bindparam('wanted', expanding=True)))
    .order_by(LEASES.c.id)
    .with_for_update()
)


def get(
    session: orm.Session, lease_id: str, lock: bool = False, parts: Collection[str] = PARTS
) -> Lease:
    """Read a lease with its reservations and events.

    :param lock: keep other transactions from changing the lease until the end of this one
    :param parts: which of :data:`PARTS` are read
    :raises climate_core.exceptions.LeaseNotFound: it does not exist, or it is deleted
    """
    found = find(session, lease_id, lock, parts)
    if found is None or found.deleted_at is not None:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    return found


def find(
    session: orm.Session, lease_id: str, lock: bool = False, parts: Collection[str] = PARTS
) -> Lease | None:
    """Read a lease, deleted or not; None if it does not exist."""
    if set(parts) >= PARTS:
        return _lock_whole(session, lease_id) if lock else _find_whole(session, lease_id)
    query = sa.select(LEASES).where(LEASES.c.id == lease_id)
    row = session.execute(query.with_for_update() if lock else query).first()
    return None if row is None else build_leases(session, [row], parts)[0]


def _find_whole(session: orm.Session, lease_id: str) -> Lease | None:
    found = session.execute(_WHOLE, {'wanted': lease_id}).all()
    if not found:
        return None
    width = len(_LEASE_NAMES)
    contents = [row[width:] for row in found]
    return _build_lease(session, found[0][:width], *_read_contents(session, contents))


def _lock_whole(session: orm.Session, lease_id: str) -> Lease | None:
    """Lock a lease before its reservations and events are read, which may change concurrently."""
    row = session.execute(_LOCK, {'wanted': lease_id}).first()
    if row is None:
        return None
    contents = session.execute(_CONTENTS, {'wanted': lease_id}).all()
    return _build_lease(session, row, *_read_contents(session, contents))


def _read_contents(
    session: orm.Session, found: Sequence[Sequence[Any]]
) -> tuple[Sequence[Reservation], Sequence[Event]]:
    """Read the rows of a lease without its own columns."""
    width = len(RESERVATION_COLUMNS)
    held = [build_reservation(session, row[:width]) for row in found if row[0] is not None]
    events = [_build_event(row[width:]) for row in found if row[width] is not None]
    return attach_allocations(session, held), events


def lock_all(
    session: orm.Session, ids: Collection[str], parts: Collection[str] = PARTS
) -> dict[str, Lease]:
    """Read leases by their ids, and lock them, in the order of their ids."""
    found = build_leases(session, session.execute(_LOCK_ALL, {'wanted': list(ids)}).all(), parts)
    return {each.id: each for each in found}


class QueueEntry(NamedTuple):
    """The place of a lease in the queue.

    :ivar needs_forecast: whether it requests more than units of the calendar
    """

    id: str
    project_id: str
    needs_forecast: bool


def read_queue(session: orm.Session) -> list[QueueEntry]:
    """Read which leases are queued, in the order of the queue, and nothing else of them."""
    no_units = RESERVATIONS.c.unit_kind.is_(None)
    needs_forecast = sa.exists().where(RESERVATIONS.c.lease_id == LEASES.c.id, no_units)
    query = sa.select(LEASES.c.id, LEASES.c.project_id, needs_forecast)
    found = session.execute(query.where(*_IS_WAITING).order_by(*_QUEUE_ORDER))
    return [QueueEntry(row[0], row[1], bool(row[2])) for row in found]


def read_waiting(session: orm.Session, ids: Sequence[str]) -> list[Lease]:
    """Read the queued leases of some ids, in the order of the queue.

    They have neither events nor webhooks, and short params. The read ends before the first lease
    that has more than :data:`MAX_QUEUE_BYTES` before it.
    """
    wanted = [sa.null() if each is LEASES.c.webhook else each for each in COLUMNS]
    total = sa.select(SHORT_BYTES).where(RESERVATIONS.c.lease_id == LEASES.c.id)
    query = sa.select(*wanted, total.scalar_subquery()).where(*_IS_WAITING, LEASES.c.id.in_(ids))
    found = session.execute(query.order_by(*_QUEUE_ORDER)).all()
    sizes = {row[0]: int(row[-1] or 0) for row in found}
    first = {
        *sql.limit_bytes(((lease_id, sizes.get(lease_id, 0)) for lease_id in ids), MAX_QUEUE_BYTES)
    }
    read = [row[:-1] for row in found if row[0] in first]
    return build_leases(session, read, ('reservations',), SHORT_RESERVATION_COLUMNS)


def is_any_waiting(session: orm.Session, priority: int) -> bool:
    """Return whether a queued lease comes before a new lease of a priority."""
    query = sa.select(LEASES.c.id).where(
        *_IS_WAITING,
        LEASES.c.preemptible.is_(False),
        LEASES.c.priority >= priority,
    )
    return session.execute(query.limit(1)).first() is not None


def queue_positions(session: orm.Session, found: Iterable[Lease | LeaseSummary]) -> dict[str, int]:
    """Return the places of queued leases in the queue, from 1 on, by their ids.

    One statement if any of the leases is queued, none otherwise.
    """
    if all(lease.status != states.LeaseStatus.WAITING for lease in found):
        return {}
    query = sa.select(LEASES.c.id).where(*_IS_WAITING)
    ids = session.scalars(query.order_by(*_QUEUE_ORDER))
    return {lease_id: number for number, lease_id in enumerate(ids, 1)}


def build_leases(
    session: orm.Session,
    found: Sequence[Sequence[Any]],
    parts: Collection[str] = PARTS,
    reservation_columns: Sequence[sa.ColumnElement[Any]] = RESERVATION_COLUMNS,
) -> list[Lease]:
    """Build leases from rows of :data:`COLUMNS`, in order; a statement for each part.

    :param reservation_columns: :data:`RESERVATION_COLUMNS`, or the same with short params
    """
    ids = [row[0] for row in found]
    contents: dict[str, Sequence[Sequence[Any]]] = {}
    for name in parts if ids else ():
        table, columns = PART_COLUMNS[name]
        columns = reservation_columns if name == 'reservations' else columns
        query = sa.select(*columns).where(table.c.lease_id.in_(ids))
        contents[name] = session.execute(query).all()
    return _join_parts(session, found, contents)


def _join_parts(
    session: orm.Session,
    found: Iterable[Sequence[Any]],
    contents: Mapping[str, Iterable[Sequence[Any]]],
) -> list[Lease]:
    """Build leases from their rows, and the rows of their parts, in any order."""
    held = [build_reservation(session, row) for row in contents.get('reservations', ())]
    reservations: dict[str, list[Reservation]] = defaultdict(list)
    for reservation in attach_allocations(session, sorted(held, key=_BY_CREATION)):
        reservations[reservation.lease_id].append(reservation)
    events: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(map(_build_event, contents.get('events', ())), key=_BY_TIME):
        events[event.lease_id].append(event)
    return [_build_lease(session, row, reservations[row[0]], events[row[0]]) for row in found]


def _build_lease(
    session: orm.Session,
    row: Sequence[Any],
    reservations: Sequence[Reservation] = (),
    events: Sequence[Event] = (),
) -> Lease:
    """Build a lease from a row of :data:`COLUMNS`."""
    values = dict(zip(_LEASE_NAMES, row, strict=True))
    values['before_start'] = tuple(values['before_start'])
    if values['webhook'] is not None:
        values['webhook'] = secrets.open_webhook(session, values['id'], values['webhook'])
    return Lease(**values, reservations=tuple(reservations), events=tuple(events))


def _build_event(row: Sequence[Any]) -> Event:
    return Event(**dict(zip(_EVENT_NAMES, row, strict=True)))
