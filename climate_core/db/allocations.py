# SPDX-License-Identifier: Apache-2.0
"""Read the allocations of reservations for their plugins."""

import dataclasses
import datetime
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import packages
from climate_core.db import sql, tables
from climate_core.lease import states
from climate_core.lease.model import HOST_KIND, Allocation, Reservation

_ALLOCATION, _RESERVATION, _LEASE = tables.ALLOCATIONS, tables.RESERVATIONS, tables.LEASES

_LIVE = [str(status) for status in states.LIVE]


def is_released() -> sa.ColumnElement[bool]:
    """Return the condition for allocations that were released while the lease was running."""
    return _ALLOCATION.c.released.is_(True)


_ALLOCATION_COLUMNS = tuple(
    _ALLOCATION.c[name] for name in ('unit_id', 'start', 'end', 'pieces', 'lane')
)
#: The columns that identify the reservation of an allocation.
_KEY_COLUMNS = (_ALLOCATION.c.reservation_id, is_released().label('released'))


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
) -> Mapping[tuple[str, bool], Sequence[Allocation]]:
    """Read the allocations of reservations, by their ids and whether they were released."""
    found: dict[tuple[str, bool], list[Allocation]] = defaultdict(list)
    every: sa.FromClause = _ALLOCATION
    for units in packages.find_unit_tables().values():
        every = every.outerjoin(units.table, _ALLOCATION.c.unit_id == units.table.c.unit_id)
    query = (
        sa.select(*_ALLOCATION_COLUMNS, *_KEY_COLUMNS, *_unit_columns())
        .select_from(every)
        .where(_ALLOCATION.c.reservation_id.in_(reservation_ids))
        .order_by(_ALLOCATION.c.unit_id)
    )
    for row in session.execute(query).mappings():
        values = {column.name: row[column.name] for column in _ALLOCATION_COLUMNS}
        key = row['reservation_id'], bool(row['released'])
        found[key].append(Allocation(**values, unit=_unit(row)))
    return found


def _unit(row: sa.RowMapping) -> dict[str, Any]:
    """Return what plugins know of a unit."""
    for units in packages.find_unit_tables().values():
        prefix = units.table.name
        if row[f'{prefix}_unit_id'] is not None:
            return {name: row[f'{prefix}_{name}'] for name in units.allocation_columns}
    return dict.fromkeys(packages.find_unit_tables()[HOST_KIND].allocation_columns)


def _with_allocations(
    reservation: Reservation, found: Mapping[tuple[str, bool], Sequence[Allocation]]
) -> Reservation:
    """Return a reservation with its allocations, and with what was released."""
    return dataclasses.replace(
        reservation,
        allocations=tuple(found.get((reservation.id, False), ())),
        released=tuple(found.get((reservation.id, True), ())),
    )


def find_last_allocation(
    session: orm.Session, unit_id: int
) -> tuple[int, datetime.datetime] | None:
    """Return the number of live reservations that have a unit, and when the last of them ends.

    A lease that was deleted or cancelled before its start has not used the unit, and no longer
    needs it, although the engine may not have ended the lease yet.

    :returns: None if there are none
    """
    was_cancelled = sa.and_(
        _LEASE.c.status.in_(map(str, states.ENDING)),
        _RESERVATION.c.status == str(states.ReservationStatus.PENDING),
        _ALLOCATION.c.start > sql.now(session),
    )
    query = (
        sa.select(sa.func.count(_RESERVATION.c.id.distinct()), sa.func.max(_ALLOCATION.c.end))
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .join(_LEASE, _LEASE.c.id == _RESERVATION.c.lease_id)
        .where(
            _ALLOCATION.c.unit_id == unit_id,
            _RESERVATION.c.status.in_(_LIVE),
            sa.not_(is_released()),
            sa.not_(was_cancelled),
        )
    )
    count, end = session.execute(query).one()
    return (count, end) if count else None
