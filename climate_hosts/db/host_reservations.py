# SPDX-License-Identifier: Apache-2.0
"""Read which reservations have the hosts of the pools, and which shared hosts no lease has.

There may be thousands of shared hosts. So their details from Nova and Placement are not read, and
no statement reads a single host.
"""

import datetime
from collections.abc import Collection
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import calendar, sql, tables
from climate_core.lease import states
from climate_hosts import hosts
from climate_hosts.db.hosts import HOSTS

_UNIT, _HOST = tables.UNITS, HOSTS.table
_ALLOCATION, _LEASE, _RESERVATION = tables.ALLOCATIONS, tables.LEASES, tables.RESERVATIONS


class WatchedHost(NamedTuple):
    """A host of a pool, as far as the watch of failures reads it.

    :param capacity: as it is stored
    :param power: see :mod:`climate_hosts.power.states`; None: it is on
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
            calendar.is_released().label('released'),
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


_LIVE = [str(status) for status in states.LIVE]
_State = hosts.State

#: The signal that a host is to be drained, so that it is in its pool.
DRAINING: Final = 'hosts.draining'


class SharedHost(NamedTuple):
    """A shared host.

    :param emptied_for: the id of the lease for which it is drained; None: it is not drained
    """

    id: int
    name: str
    service_name: str
    provider_id: str
    emptied_for: str | None = None


_COLUMNS = (
    _HOST.c.unit_id,
    _HOST.c.hypervisor_hostname,
    _HOST.c.service_name,
    _HOST.c.provider_id,
)


class UnneededHost(NamedTuple):
    """A shared host that no lease has.

    :param seconds: how long it stays isolated all the same, for example to be cleaned
    """

    id: int
    name: str
    seconds: float


def list_available(session: orm.Session) -> list[SharedHost]:
    """Read hosts that serve ordinary servers, and that leases may get; one statement."""
    query = sa.select(*_COLUMNS).where(
        _HOST.c.open_to_unreserved.is_(True),
        _HOST.c.state == _State.ENROLLED,
        _HOST.c.disabled_reason.is_(None),
    )
    return [SharedHost(*row) for row in session.execute(query.order_by(_HOST.c.unit_id))]


def list_evacuating(session: orm.Session, lease_id: str | None = None) -> list[SharedHost]:
    """Read hosts that are being evacuated or drained, for one lease or for any; one statement.

    Hosts for older leases come first.
    """
    query = (
        sa.select(*_COLUMNS, _HOST.c.emptied_for)
        .join_from(_HOST, _LEASE, _LEASE.c.id == _HOST.c.emptied_for, isouter=True)
        .where(_HOST.c.state == _State.EMPTYING)
        .order_by(_LEASE.c.created_at, _HOST.c.emptied_for, _HOST.c.unit_id)
    )
    if lease_id is not None:
        query = query.where(_HOST.c.emptied_for == lease_id)
    return [SharedHost(*row) for row in session.execute(query)]


def list_unneeded(session: orm.Session, host_id: int | None = None) -> list[UnneededHost]:
    """Read isolated hosts that no lease has, or is to have.

    One statement, and one for the time.

    :param host_id: only this host
    """
    now = sql.read_time(session)
    has_promise = sa.exists().where(
        _ALLOCATION.c.unit_id == _HOST.c.unit_id,
        _ALLOCATION.c.reservation_id == _RESERVATION.c.id,
        _RESERVATION.c.status.in_(_LIVE),
        sa.not_(calendar.is_released()),
    )
    is_needed = sa.exists().where(
        _LEASE.c.id == _HOST.c.emptied_for, _LEASE.c.status == states.LeaseStatus.IN_PROGRESS
    )
    until = sa.select(sa.func.max(_ALLOCATION.c.end)).where(
        _ALLOCATION.c.unit_id == _HOST.c.unit_id, _ALLOCATION.c.end > now
    )
    is_draining = _HOST.c.state == _State.EMPTYING
    query = (
        sa.select(
            _HOST.c.unit_id,
            _HOST.c.hypervisor_hostname,
            sa.type_coerce(until.scalar_subquery(), tables.Time()),
        )
        .select_from(_HOST)
        .where(
            _HOST.c.open_to_unreserved.is_(False),
            _HOST.c.state.not_in((_State.LEAVING, _State.FAILED)),
            sa.case((is_draining, sa.not_(is_needed)), else_=sa.not_(has_promise)),
        )
    )
    if host_id is not None:
        query = query.where(_HOST.c.unit_id == host_id)
    return [
        UnneededHost(host_id, name, 0.0 if end is None else (end - now).total_seconds())
        for host_id, name, end in session.execute(query)
    ]
