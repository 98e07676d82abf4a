# SPDX-License-Identifier: Apache-2.0
"""Leases in the database. Reading one takes three statements; pages are in ``listing``."""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import reservations as db_reservations
from climate_core.db import tables, utcnow
from climate_core.lease import model, states

_LEASE, _RESERVATION, _EVENT = tables.LEASES, tables.RESERVATIONS, tables.EVENTS

_RESERVATION_COLUMNS = [c for c in _RESERVATION.columns if c.name != 'hold']
_EVENT_COLUMNS = [c for c in _EVENT.columns if c.name != 'priority']

#: What is read with a lease unless it is not asked for.
PARTS: Final = frozenset({'reservations', 'events'})


def get(
    session: orm.Session, lease_id: str, lock: bool = False, parts: Collection[str] = PARTS
) -> model.Lease:
    """Read one lease with its reservations and events.

    :param lock: keep other transactions from changing the lease until the end of this one
    :param parts: which of :data:`PARTS` are read; a statement for each
    :raises climate_core.exceptions.LeaseNotFound: there is none, or it is deleted
    """
    found = find(session, lease_id, lock, parts)
    if found is None or found.deleted_at is not None:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    return found


def find(
    session: orm.Session, lease_id: str, lock: bool = False, parts: Collection[str] = PARTS
) -> model.Lease | None:
    """Read one lease, also a deleted one; None when there is none."""
    query = sa.select(_LEASE).where(_LEASE.c.id == lease_id)
    row = session.execute(query.with_for_update() if lock else query).mappings().first()
    return None if row is None else assemble(session, [row], parts)[0]


def assemble(
    session: orm.Session, rows: Sequence[Any], parts: Collection[str] = PARTS
) -> list[model.Lease]:
    """Make leases of their rows, in their order.

    :param parts: which of :data:`PARTS` are read for all of them; a statement for each
    """
    reservations: dict[str, list[model.Reservation]] = {row['id']: [] for row in rows}
    events: dict[str, list[model.Event]] = {row['id']: [] for row in rows}
    ids = list(reservations)
    if 'reservations' in parts:
        order = _RESERVATION.c.created_at, _RESERVATION.c.id
        for row in _children(session, _RESERVATION_COLUMNS, _RESERVATION.c.lease_id, ids, order):
            reservations[row['lease_id']].append(db_reservations.read(row))
    if 'events' in parts:
        order = _EVENT.c.time, _EVENT.c.id
        for row in _children(session, _EVENT_COLUMNS, _EVENT.c.lease_id, ids, order):
            events[row['lease_id']].append(model.Event(**row))
    return [read(row, reservations[row['id']], events[row['id']]) for row in rows]


def _children(
    session: orm.Session,
    columns: Sequence[Any],
    lease_id: sa.Column[Any],
    ids: Sequence[str],
    order: Sequence[Any],
) -> Iterable[Any]:
    if not ids:
        return ()
    query = sa.select(*columns).where(lease_id.in_(ids)).order_by(*order)
    return session.execute(query).mappings()


def read(
    row: Mapping[Any, Any],
    reservations: Sequence[model.Reservation] = (),
    events: Sequence[model.Event] = (),
) -> model.Lease:
    """Make a lease of a row, which may have more columns than those of a lease."""
    values = {c.name: row[c.name] for c in _LEASE.columns}
    # What the release before this one writes has no list.
    values['before_start'] = tuple(values['before_start'] or ())
    return model.Lease(**values, reservations=tuple(reservations), events=tuple(events))


def insert(session: orm.Session, lease: model.Lease) -> None:
    """Write a new lease without its reservations and events.

    :raises oslo_db.exception.DBDuplicateEntry: the id is taken
    """
    session.execute(sa.insert(_LEASE).values(columns(lease)))


def columns(lease: model.Lease) -> dict[str, Any]:
    """Return what the table keeps of a lease."""
    return {c.name: getattr(lease, c.name) for c in _LEASE.columns}


def update(session: orm.Session, lease: model.Lease, **values: Any) -> bool:
    """Change a lease, if it is still the one that was read.

    :param lease: what was read
    :param values: the new values of columns; ``generation`` and ``updated_at`` are added
    :returns: False if the lease was changed meanwhile; nothing is written then
    """
    statement = (
        sa.update(_LEASE)
        .where(_LEASE.c.id == lease.id, _LEASE.c.generation == lease.generation)
        .values(generation=lease.generation + 1, **{'updated_at': utcnow.now(session), **values})
    )
    return session.connection().execute(statement).rowcount == 1


def purge(session: orm.Session, before: datetime.datetime) -> int:
    """Remove leases that were deleted, or were over, before a time, with all that is theirs.

    :returns: how many
    """
    return session.connection().execute(sa.delete(_LEASE).where(_gone(before))).rowcount


def purgeable(session: orm.Session, before: datetime.datetime) -> int:
    """Count what :func:`purge` would remove."""
    query = sa.select(sa.func.count()).select_from(_LEASE).where(_gone(before))
    return session.execute(query).scalar_one()


def _gone(before: datetime.datetime) -> sa.ColumnElement[bool]:
    # What the trust still needs is kept.
    busy = sa.select(_EVENT.c.lease_id).where(_EVENT.c.next_at.is_not(None))
    # Not by its end: one that was cancelled is over before it, one that was hard to free after it.
    over = sa.and_(
        _LEASE.c.status == states.LeaseStatus.TERMINATED,
        sa.func.coalesce(_LEASE.c.updated_at, _LEASE.c.created_at) < before,
    )
    return sa.and_(sa.or_(_LEASE.c.deleted_at < before, over), _LEASE.c.id.not_in(busy))
