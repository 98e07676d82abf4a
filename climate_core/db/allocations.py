# SPDX-License-Identifier: Apache-2.0
"""Read what the calendar promises to reservations, as their plugins see it."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.lease.model import Allocation, Reservation

_ALLOCATION, _HOST = tables.ALLOCATIONS, tables.HOSTS


def is_released() -> sa.ColumnElement[bool]:
    """Return the condition for what a reservation gave up while its lease ran."""
    return _ALLOCATION.c.released.is_(True)


_OWN = tuple(_ALLOCATION.c[name] for name in ('unit_id', 'start', 'end', 'pieces', 'lane'))
#: The columns of a promise beside that condition.
_MORE = (_ALLOCATION.c.reservation_id, is_released().label('released'))
#: What plugins know of a host. One statement reads the units of all kinds.
_UNIT = tuple(
    _HOST.c[name] for name in ('hypervisor_hostname', 'service_name', 'provider_id', 'lane_ids')
)


def attach(session: orm.Session, reservations: Sequence[Reservation]) -> Sequence[Reservation]:
    """Return reservations with their allocations; no statement if the calendar has no part."""
    promised = [each.id for each in reservations if each.unit_kind is not None]
    if not promised:
        return reservations
    found: dict[tuple[str, bool], list[Allocation]] = defaultdict(list)
    query = (
        sa.select(*_OWN, *_MORE, *_UNIT)
        .join_from(_ALLOCATION, _HOST, _ALLOCATION.c.unit_id == _HOST.c.unit_id, isouter=True)
        .where(_ALLOCATION.c.reservation_id.in_(promised))
        .order_by(_ALLOCATION.c.unit_id)
    )
    for row in session.execute(query).mappings():
        unit = {column.name: row[column.name] for column in _UNIT}
        values = {column.name: row[column.name] for column in _OWN}
        key = row['reservation_id'], bool(row['released'])
        found[key].append(Allocation(**values, unit=unit))
    return [_with(each, found) for each in reservations]


def _with(
    reservation: Reservation, found: Mapping[tuple[str, bool], Sequence[Allocation]]
) -> Reservation:
    """Return a reservation with its allocations, and with what was released."""
    return dataclasses.replace(
        reservation,
        allocations=tuple(found.get((reservation.id, False), ())),
        released=tuple(found.get((reservation.id, True), ())),
    )
