# SPDX-License-Identifier: Apache-2.0
"""Read shared hosts: those that serve ordinary servers, and those that are isolated from them.

There may be thousands. So their details from Nova and Placement are not read, and no statement
reads a single host.
"""

from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import allocations, sql, tables
from climate_core.lease import states
from climate_hosts.db.tables import HOSTS
from climate_hosts.domain import hosts

_UNIT, _HOST, _ALLOCATION = tables.UNITS, HOSTS, tables.ALLOCATIONS
_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS

_LIVE = [str(status) for status in states.LIVE]
_State = hosts.State

#: The signal that a host is to be drained, so that it is in its pool.
EMPTYING: Final = 'hosts.emptying'


class SharedHost(NamedTuple):
    """A shared host.

    :param emptied_for: the id of the lease for which its servers leave it; None: they do not
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
        sa.not_(allocations.is_released()),
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
