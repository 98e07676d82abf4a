# SPDX-License-Identifier: Apache-2.0
"""Read leases: one in one statement, several, and the queue. Pages are in ``listing``."""

import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import allocations, rows, secrets, tables
from climate_core.db import reservations as db_reservations
from climate_core.lease import states
from climate_core.lease.model import Event, Lease, Reservation, ResourceKey, queue_order
from climate_core.lease.views import LeaseSummary

_LEASE, _RESERVATION, _EVENT = tables.LEASES, tables.RESERVATIONS, tables.EVENTS

_EVENT_COLUMNS = rows.columns(_EVENT, Event)
#: All of them; the id is the first.
COLUMNS: Final = tuple(_LEASE.columns)
_LEASE_NAMES = tuple(_LEASE.columns.keys())
_EVENT_NAMES = tuple(each.name for each in _EVENT_COLUMNS)

#: The order of queued leases. They are few, so it needs no index.
_QUEUE_ORDER = queue_order(_LEASE.c)
_IS_WAITING: Final = (
    _LEASE.c.status == states.LeaseStatus.WAITING,
    _LEASE.c.deleted_at.is_(None),
)

#: A part of a lease -> its table and its columns.
PART_COLUMNS: Final[Mapping[str, tuple[sa.Table, Sequence[sa.ColumnElement[Any]]]]] = {
    'reservations': (_RESERVATION, db_reservations.COLUMNS),
    'events': (_EVENT, _EVENT_COLUMNS),
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
    reservation = sa.and_(part == 1, _RESERVATION.c.lease_id == _LEASE.c.id)
    event = sa.and_(part == 2, _EVENT.c.lease_id == _LEASE.c.id)
    query = sa.select(*of_lease, *db_reservations.COLUMNS, *_EVENT_COLUMNS)
    return (
        query.join_from(part.table, _LEASE, _LEASE.c.id == sa.bindparam('wanted'))
        .outerjoin(_RESERVATION, reservation)
        .outerjoin(_EVENT, event)
        .order_by(part, _RESERVATION.c.created_at, _RESERVATION.c.id, _EVENT.c.time, _EVENT.c.id)
    )


#: Built once: that takes longer than to execute it.
_WHOLE: Final = _select_whole(*_LEASE.columns)
_CONTENTS: Final = _select_whole()
_LOCK: Final = sa.select(_LEASE).where(_LEASE.c.id == sa.bindparam('wanted')).with_for_update()
_LOCK_ALL: Final = (
    sa.select(_LEASE)
    .where(_LEASE.c.id.in_(sa.bindparam('wanted', expanding=True)))
    .order_by(_LEASE.c.id)
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
    query = sa.select(_LEASE).where(_LEASE.c.id == lease_id)
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
    width = len(db_reservations.COLUMNS)
    held = [
        db_reservations.build_reservation(session, row[:width])
        for row in found
        if row[0] is not None
    ]
    events = [_build_event(row[width:]) for row in found if row[width] is not None]
    return allocations.attach_allocations(session, held), events


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
    no_units = _RESERVATION.c.unit_kind.is_(None)
    needs_forecast = sa.exists().where(_RESERVATION.c.lease_id == _LEASE.c.id, no_units)
    query = sa.select(_LEASE.c.id, _LEASE.c.project_id, needs_forecast)
    found = session.execute(query.where(*_IS_WAITING).order_by(*_QUEUE_ORDER))
    return [QueueEntry(row[0], row[1], bool(row[2])) for row in found]


def read_waiting(session: orm.Session, ids: Sequence[str]) -> list[Lease]:
    """Read the queued leases of some ids, in the order of the queue.

    They have neither events nor webhooks, and short params. The read ends before the first lease
    that has more than :data:`MAX_QUEUE_BYTES` before it.
    """
    wanted = [sa.null() if each is _LEASE.c.webhook else each for each in COLUMNS]
    total = sa.select(db_reservations.SHORT_BYTES).where(_RESERVATION.c.lease_id == _LEASE.c.id)
    query = sa.select(*wanted, total.scalar_subquery()).where(*_IS_WAITING, _LEASE.c.id.in_(ids))
    found = session.execute(query.order_by(*_QUEUE_ORDER)).all()
    sizes = {row[0]: int(row[-1] or 0) for row in found}
    first = {
        *rows.limit_bytes(
            ((lease_id, sizes.get(lease_id, 0)) for lease_id in ids), MAX_QUEUE_BYTES
        )
    }
    read = [row[:-1] for row in found if row[0] in first]
    return build_leases(session, read, ('reservations',), db_reservations.SHORT_COLUMNS)


def is_any_waiting(session: orm.Session, priority: int) -> bool:
    """Return whether a queued lease comes before a new lease of a priority."""
    query = sa.select(_LEASE.c.id).where(
        *_IS_WAITING,
        _LEASE.c.preemptible.is_(False),
        _LEASE.c.priority >= priority,
    )
    return session.execute(query.limit(1)).first() is not None


def queue_positions(session: orm.Session, found: Iterable[Lease | LeaseSummary]) -> dict[str, int]:
    """Return the places of queued leases in the queue, from 1 on, by their ids.

    One statement if any of the leases is queued, none otherwise.
    """
    if all(lease.status != states.LeaseStatus.WAITING for lease in found):
        return {}
    query = sa.select(_LEASE.c.id).where(*_IS_WAITING)
    ids = session.scalars(query.order_by(*_QUEUE_ORDER))
    return {lease_id: number for number, lease_id in enumerate(ids, 1)}


def find_holders(session: orm.Session, keys: Iterable[ResourceKey]) -> dict[ResourceKey, Lease]:
    """Find the leases that hold resources, by type and id, without their parts. One statement."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for resource_type, resource_id in keys:
        by_type[resource_type].append(resource_id)
    if not by_type:
        return {}
    column = _RESERVATION.c
    wanted = [
        sa.and_(db_reservations.is_held(kind), column.resource_id.in_(ids))
        for kind, ids in by_type.items()
    ]
    query = (
        sa.select(column.resource_type, column.resource_id, *_LEASE.columns)
        .join_from(_RESERVATION, _LEASE, column.lease_id == _LEASE.c.id)
        .where(sa.or_(*wanted))
    )
    return {(row[0], row[1]): _build_lease(session, row[2:]) for row in session.execute(query)}


def build_leases(
    session: orm.Session,
    found: Sequence[Sequence[Any]],
    parts: Collection[str] = PARTS,
    reservation_columns: Sequence[sa.ColumnElement[Any]] = db_reservations.COLUMNS,
) -> list[Lease]:
    """Build leases from rows of :data:`COLUMNS`, in order; a statement for each part.

    :param reservation_columns: :data:`.reservations.COLUMNS`, or the same with short params
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
    held = [
        db_reservations.build_reservation(session, row) for row in contents.get('reservations', ())
    ]
    reservations: dict[str, list[Reservation]] = defaultdict(list)
    for reservation in allocations.attach_allocations(session, sorted(held, key=_BY_CREATION)):
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
