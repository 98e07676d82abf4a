# SPDX-License-Identifier: Apache-2.0
"""Read what preemptible leases are promised, or have."""

import dataclasses
import datetime
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common.resource_types import SERVER
from climate_core.db import calendar, events, tables
from climate_core.db.calendar import StoredAllocation
from climate_core.lease import model, states

_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS
_L, _R = states.LeaseStatus, states.ReservationStatus


@dataclasses.dataclass(slots=True)
class Preemptible:
    """A preemptible lease that has promises.

    :param runs: whether it has begun to use them
    """

    runs: bool
    start: datetime.datetime
    end: datetime.datetime
    promises: list[StoredAllocation]

    def overlaps(self, start: datetime.datetime, end: datetime.datetime) -> bool:
        """Tell whether it has a time in common with another lease."""
        return self.start < end and self.end > start


def find(
    session: orm.Session, start: datetime.datetime, end: datetime.datetime, now: datetime.datetime
) -> dict[str, Preemptible]:
    """Read the preemptible leases that can give something up in a period, in two statements.

    One statement if there are none.

    :returns: by their ids: those that have not begun first, of these the youngest
    """
    asleep = sa.and_(
        _LEASE.c.status == _L.PENDING,
        _LEASE.c.start_date > now,
        _RESERVATION.c.status == _R.PENDING,
        ~events.has_begun(_LEASE.c.id, model.PREPARE),
    )
    runs = sa.and_(
        _LEASE.c.status == _L.ACTIVE,
        _RESERVATION.c.status == _R.ACTIVE,
        ~events.is_open(_LEASE.c.id, model.PREEMPT),
    )
    query = (
        sa.select(
            _LEASE.c.id,
            _RESERVATION.c.id,
            _LEASE.c.status,
            _LEASE.c.start_date,
            _LEASE.c.end_date,
        )
        .join_from(_RESERVATION, _LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .where(
            _LEASE.c.preemptible.is_(True),
            _LEASE.c.start_date < end,
            _LEASE.c.end_date > start,
            _RESERVATION.c.hold == 1,
            _RESERVATION.c.unit_kind.is_not(None),
            sa.or_(asleep, runs),
        )
        .order_by(_LEASE.c.status == _L.ACTIVE, _LEASE.c.created_at.desc(), _LEASE.c.id)
    )
    found: dict[str, Preemptible] = {}
    lease_of = {}
    for lease_id, reservation_id, status, began, ends in session.execute(query):
        found.setdefault(lease_id, Preemptible(status == _L.ACTIVE, began, ends, []))
        lease_of[reservation_id] = lease_id
    for each in calendar.allocations_of_reservations(session, lease_of) if lease_of else ():
        if not each.released:
            found[lease_of[each.reservation_id]].promises.append(each)
    return {lease_id: each for lease_id, each in found.items() if each.promises}


@dataclasses.dataclass(frozen=True, slots=True)
class PreemptibleServers:
    """A preemptible lease of servers.

    :param runs: whether its servers exist; if not, they are to be made later
    :param given_up_at: when it gives them up, if another lease needs what they have
    :param servers: what each has, by the ids of the servers
    """

    lease_id: str
    project_id: str
    runs: bool
    given_up_at: datetime.datetime | None
    servers: dict[str, Mapping[str, int]]


def find_servers(session: orm.Session, end: datetime.datetime) -> list[PreemptibleServers]:
    """Read the preemptible leases of servers that have room, or are to have some, before a time.

    One statement. Those that give way already are among them.

    :returns: those that are not made yet first, of each the youngest
    """
    query = (
        sa.select(
            _LEASE.c.id,
            _LEASE.c.project_id,
            _LEASE.c.status,
            _RESERVATION.c.resource_type,
            _RESERVATION.c.resource_id,
            _RESERVATION.c.status,
            _RESERVATION.c.amounts,
            tables.EVENTS.c.time,
        )
        .join_from(_RESERVATION, _LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .outerjoin(tables.EVENTS, events.preemption(_LEASE))
        .where(
            _LEASE.c.preemptible.is_(True),
            _LEASE.c.status.in_((_L.PENDING, _L.ACTIVE)),
            _LEASE.c.start_date < end,
            _RESERVATION.c.hold == 1,
            sa.or_(_LEASE.c.status == _L.ACTIVE, ~events.has_begun(_LEASE.c.id, model.PREPARE)),
        )
        .order_by(_LEASE.c.status == _L.ACTIVE, _LEASE.c.created_at.desc(), _LEASE.c.id)
    )
    found: dict[str, PreemptibleServers] = {}
    others = set()
    result = session.execute(query)
    for lease_id, project_id, status, kind, resource_id, state, held, given_up_at in result:
        runs = status == _L.ACTIVE
        is_made = not resource_id.startswith(model.UNMADE)
        if (kind, runs, state) != (SERVER, is_made, _R.ACTIVE if runs else _R.PENDING):
            others.add(lease_id)
            continue
        empty = PreemptibleServers(lease_id, project_id, runs, given_up_at, {})
        found.setdefault(lease_id, empty).servers[resource_id] = held or {}
    return [each for lease_id, each in found.items() if lease_id not in others]
