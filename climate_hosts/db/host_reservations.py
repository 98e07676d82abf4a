# SPDX-License-Identifier: Apache-2.0
"""Read which reservations have the hosts of the pools, and lanes of them."""

import datetime
from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import allocations, sql, tables
from climate_hosts.db.tables import HOSTS
from climate_hosts.domain import hosts

_UNIT, _HOST = tables.UNITS, HOSTS
_ALLOCATION, _LEASE, _RESERVATION = tables.ALLOCATIONS, tables.LEASES, tables.RESERVATIONS


class WatchedHost(NamedTuple):
    """A host of a pool, as far as the watch of failures reads it.

    :param capacity: as it is stored
    :param power: see :mod:`climate_hosts.domain.power`; None: it is on
    """

    id: int
    name: str
    service_name: str
    available: bool
    state: str
    disabled_reason: str | None
    capacity: str
    power: str | None = None

    @property
    def failed(self) -> bool:
        """Return whether it is marked as failed."""
        return self.state == hosts.State.FAILED


def list_watched(session: orm.Session) -> tuple[list[WatchedHost], datetime.datetime]:
    """Read all hosts, and the time."""
    query = sa.select(
        _UNIT.c.id,
        _HOST.c.hypervisor_hostname,
        _HOST.c.service_name,
        _UNIT.c.available,
        _HOST.c.state,
        _HOST.c.disabled_reason,
        sa.type_coerce(_UNIT.c.capacity, sa.Text).label('capacity'),
        _HOST.c.power,
        sql.now(session).label('now'),
    ).join_from(_HOST, _UNIT, _HOST.c.unit_id == _UNIT.c.id)
    found = session.execute(query.order_by(_UNIT.c.id)).all()
    now = found[0].now if found else sql.read_time(session)
    return [WatchedHost(*row[:-1]) for row in found], now


class ReservedHost(NamedTuple):
    """A live reservation that has a host, or released it while its lease was active."""

    unit_id: int
    reservation_id: str
    lease_id: str
    lease_status: str
    start: datetime.datetime
    released: bool


def get_name(session: orm.Session, host_id: int) -> str:
    """Read the name of a host."""
    query = sa.select(_HOST.c.hypervisor_hostname).where(_HOST.c.unit_id == host_id)
    return str(session.scalar(query))


def list_reserved(session: orm.Session, unit_ids: Collection[int]) -> list[ReservedHost]:
    """Read the live reservations that have hosts, or released them; one statement."""
    return _list_reserved(session, _ALLOCATION.c.unit_id.in_(sorted(unit_ids)))


def list_incomplete(session: orm.Session, resource_types: Collection[str]) -> list[ReservedHost]:
    """Read the live reservations that lack hosts, with the hosts that they have."""
    lacking = (
        _RESERVATION.c.resource_type.in_(sorted(resource_types)),
        _RESERVATION.c.missing_resources.is_(True),
    )
    return [each for each in _list_reserved(session, *lacking) if not each.released]


def _list_reserved(session: orm.Session, *where: sa.ColumnElement[bool]) -> list[ReservedHost]:
    query = (
        sa.select(
            _ALLOCATION.c.unit_id,
            _RESERVATION.c.id,
            _RESERVATION.c.lease_id,
            _LEASE.c.status,
            _ALLOCATION.c.start,
            allocations.is_released().label('released'),
        )
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .join(_LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .where(_RESERVATION.c.hold == 1, *where)
        .order_by(_RESERVATION.c.id, _ALLOCATION.c.unit_id)
    )
    return [ReservedHost(*row) for row in session.execute(query)]


class ReservedLane(NamedTuple):
    """A lane that a reservation has, or had, since a time that has come.

    :param lane: its number among those of the host
    """

    unit_id: int
    lane: int
    reservation_id: str
    lease_id: str


def list_reserved_lanes(
    session: orm.Session, unit_ids: Collection[int], live: bool, started: bool = True
) -> list[ReservedLane]:
    """Read which reservations have lanes of hosts; one statement.

    :param live: reservations that have not ended; else those that have
    :param started: only allocations that have started; else also those whose lanes may be prepared
    """
    now = sql.now(session)
    query = (
        sa.select(
            _ALLOCATION.c.unit_id,
            _ALLOCATION.c.lane,
            _RESERVATION.c.id,
            _RESERVATION.c.lease_id,
        )
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .where(
            _ALLOCATION.c.unit_id.in_(sorted(unit_ids)),
            *([_ALLOCATION.c.start <= now] if started else []),
            _RESERVATION.c.hold == 1 if live else _RESERVATION.c.hold.is_(None),
        )
    )
    return [ReservedLane(*row) for row in session.execute(query)]
