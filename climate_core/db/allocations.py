# SPDX-License-Identifier: Apache-2.0
"""Read what the calendar promises to reservations, as their plugins see it."""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.lease import states
from climate_core.lease.model import Allocation, Reservation

_ALLOCATION, _HOST = tables.ALLOCATIONS, tables.HOSTS
_FLOATING_IP, _RESERVATION = tables.FLOATING_IPS, tables.RESERVATIONS

_LIVE = [str(status) for status in states.LIVE]


def is_released() -> sa.ColumnElement[bool]:
    """Return the condition for what a reservation gave up while its lease ran."""
    return _ALLOCATION.c.released.is_(True)


_OWN = tuple(_ALLOCATION.c[name] for name in ('unit_id', 'start', 'end', 'pieces', 'lane'))
#: The columns of a promise beside that condition.
_MORE = (_ALLOCATION.c.reservation_id, is_released().label('released'))
#: What plugins know of a host, and of a floating IP. One statement reads the units of all kinds.
_OF_HOST = tuple(
    _HOST.c[name] for name in ('hypervisor_hostname', 'service_name', 'provider_id', 'lane_ids')
)
_OF_FLOATING_IP = tuple(_FLOATING_IP.c[name] for name in ('network_id', 'address'))


def attach(session: orm.Session, reservations: Sequence[Reservation]) -> Sequence[Reservation]:
    """Return reservations with their allocations; no statement if the calendar has no part."""
    promised = [each.id for each in reservations if each.unit_kind is not None]
    if not promised:
        return reservations
    found: dict[tuple[str, bool], list[Allocation]] = defaultdict(list)
    query = (
        sa.select(*_OWN, *_MORE, *_OF_HOST, *_OF_FLOATING_IP)
        .join_from(_ALLOCATION, _HOST, _ALLOCATION.c.unit_id == _HOST.c.unit_id, isouter=True)
        .outerjoin(_FLOATING_IP, _ALLOCATION.c.unit_id == _FLOATING_IP.c.unit_id)
        .where(_ALLOCATION.c.reservation_id.in_(promised))
        .order_by(_ALLOCATION.c.unit_id)
    )
    for row in session.execute(query).mappings():
        known = _OF_HOST if row['address'] is None else _OF_FLOATING_IP
        unit = {column.name: row[column.name] for column in known}
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


def last_promise(session: orm.Session, unit_id: int) -> tuple[int, datetime.datetime] | None:
    """Count the live reservations that a unit is promised to, and tell when the last one ends.

    :returns: None if there is none
    """
    query = (
        sa.select(sa.func.count(_RESERVATION.c.id.distinct()), sa.func.max(_ALLOCATION.c.end))
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .where(
            _ALLOCATION.c.unit_id == unit_id,
            _RESERVATION.c.status.in_(_LIVE),
            sa.not_(is_released()),
        )
    )
    count, end = session.execute(query).one()
    return (count, end) if count else None
