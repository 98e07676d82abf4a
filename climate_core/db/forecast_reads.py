# SPDX-License-Identifier: Apache-2.0
"""Read what leases will create, free or release: for forecasts and for preemption."""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common.resource_types import SERVER, STACK
from climate_core.db import calendar, events, sql, tables
from climate_core.db.held_resources import is_held
from climate_core.db.leases import SHORT_PARAMS
from climate_core.db.tables import LEASES, RESERVATIONS
from climate_core.lease import model, states
from climate_core.lease.model import (
    PARTS,
    PREPARE,
    UNMADE,
    Allocation,
)

_L, _R = states.LeaseStatus, states.ReservationStatus


@dataclasses.dataclass(slots=True)
class PreemptibleLease:
    """A preemptible lease that has allocations.

    :param runs: whether it uses them already
    """

    runs: bool
    start: datetime.datetime
    end: datetime.datetime
    allocations: list[Allocation]

    def overlaps(self, start: datetime.datetime, end: datetime.datetime) -> bool:
        """Return whether it overlaps another lease in time."""
        return self.start < end and self.end > start


def find_preemptible(
    session: orm.Session, start: datetime.datetime, end: datetime.datetime, now: datetime.datetime
) -> dict[str, PreemptibleLease]:
    """Read the preemptible leases that can release allocations in a period, in two statements.

    One statement if there are none.

    :returns: by their ids: those that have not started first, of these the youngest
    """
    asleep = sa.and_(
        LEASES.c.status == _L.PENDING,
        LEASES.c.start_date > now,
        RESERVATIONS.c.status == _R.PENDING,
        ~events.has_begun(LEASES.c.id, model.PREPARE),
    )
    runs = sa.and_(
        LEASES.c.status == _L.ACTIVE,
        RESERVATIONS.c.status == _R.ACTIVE,
        ~events.is_open(LEASES.c.id, model.PREEMPT),
    )
    query = (
        sa.select(
            LEASES.c.id,
            RESERVATIONS.c.id,
            LEASES.c.status,
            LEASES.c.start_date,
            LEASES.c.end_date,
        )
        .join_from(RESERVATIONS, LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .where(
            LEASES.c.preemptible.is_(True),
            LEASES.c.start_date < end,
            LEASES.c.end_date > start,
            RESERVATIONS.c.hold == 1,
            RESERVATIONS.c.unit_kind.is_not(None),
            sa.or_(asleep, runs),
        )
        .order_by(LEASES.c.status == _L.ACTIVE, LEASES.c.created_at.desc(), LEASES.c.id)
    )
    found: dict[str, PreemptibleLease] = {}
    lease_of = {}
    for lease_id, reservation_id, status, began, ends in session.execute(query):
        found.setdefault(lease_id, PreemptibleLease(status == _L.ACTIVE, began, ends, []))
        lease_of[reservation_id] = lease_id
    for each in calendar.allocations_of_reservations(session, lease_of) if lease_of else ():
        if not each.released:
            found[lease_of[each.reservation_id]].allocations.append(each)
    return {lease_id: each for lease_id, each in found.items() if each.allocations}


@dataclasses.dataclass(frozen=True, slots=True)
class PreemptibleServers:
    """A preemptible lease of servers.

    :param runs: whether its servers exist; if not, they are created later
    :param given_up_at: when it releases them, if it is being preempted
    :param servers: the amounts of the servers, by their ids
    """

    lease_id: str
    project_id: str
    runs: bool
    given_up_at: datetime.datetime | None
    servers: dict[str, Mapping[str, int]]


def find_preemptible_servers(
    session: orm.Session, end: datetime.datetime
) -> list[PreemptibleServers]:
    """Read the preemptible leases of servers that hold capacity, or will, before a time.

    One statement. Leases that are being preempted are included.

    :returns: those whose servers are not created yet first, of each kind the youngest
    """
    query = (
        sa.select(
            LEASES.c.id,
            LEASES.c.project_id,
            LEASES.c.status,
            RESERVATIONS.c.resource_type,
            RESERVATIONS.c.resource_id,
            RESERVATIONS.c.status,
            RESERVATIONS.c.amounts,
            tables.EVENTS.c.time,
        )
        .join_from(RESERVATIONS, LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .outerjoin(tables.EVENTS, events.is_open_preemption(LEASES))
        .where(
            LEASES.c.preemptible.is_(True),
            LEASES.c.status.in_((_L.PENDING, _L.ACTIVE)),
            LEASES.c.start_date < end,
            RESERVATIONS.c.hold == 1,
            sa.or_(LEASES.c.status == _L.ACTIVE, ~events.has_begun(LEASES.c.id, model.PREPARE)),
        )
        .order_by(LEASES.c.status == _L.ACTIVE, LEASES.c.created_at.desc(), LEASES.c.id)
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


class ReservationEnd(NamedTuple):
    """The end of a reservation: its time, its end action, and the amounts until then.

    :param given_up_at: when it releases them before that because of preemption; at the earliest
        now
    """

    resource_id: str
    at: datetime.datetime
    amounts: Mapping[str, int]
    on_end: str | None
    given_up_at: datetime.datetime | None = None


def read_ends(session: orm.Session, resource_type: str) -> list[ReservationEnd]:
    """Read the future ends of all reservations of a type that hold their resource.

    One statement. When a resource that exists after its end is freed is unknown.
    """
    reservation, lease, event = tables.RESERVATIONS, tables.LEASES, tables.EVENTS
    preemption = sa.and_(events.is_open_preemption(lease), lease.c.preemptible.is_(True))
    query = (
        sa.select(
            reservation.c.resource_id,
            lease.c.end_date,
            reservation.c.amounts,
            SHORT_PARAMS,
            event.c.time,
            sql.now(session),
        )
        .join_from(reservation, lease, lease.c.id == reservation.c.lease_id)
        .outerjoin(event, preemption)
        .where(is_held(resource_type), lease.c.end_date > sql.now(session))
    )
    return [
        ReservationEnd(
            resource_id,
            at,
            amounts or {},
            params.get('on_end'),
            given_up and max(given_up, now),
        )
        for resource_id, at, amounts, params, given_up, now in session.execute(query)
    ]


class PlannedResource(NamedTuple):
    """A resource that is not created or not restarted yet, and what it will take.

    :param start: of its lease, as ``end``
    :param params: the part that forecasts read
    """

    start: datetime.datetime
    end: datetime.datetime
    amounts: Mapping[str, int]
    params: Mapping[str, Any]
    resource_id: str


def read_planned(session: orm.Session, resource_type: str) -> dict[str, list[PlannedResource]]:
    """Read what leases will create, by their ids, the first request first.

    These are scheduled leases, and queued leases that were just granted. Stacks are read as their
    members of the type, until their creation has started. Resources of preemptible leases that are
    not active are included: they may have been shelved. One statement.
    """
    reservation, lease = tables.RESERVATIONS, tables.LEASES
    is_unmade = sa.or_(reservation.c.resource_id.startswith(UNMADE), lease.c.preemptible.is_(True))
    is_unfilled = sa.and_(
        reservation.c.progress.is_(None), events.is_unclaimed(PREPARE, reservation)
    )
    query = (
        sa.select(
            lease.c.id,
            lease.c.start_date,
            lease.c.end_date,
            reservation.c.amounts,
            SHORT_PARAMS,
            reservation.c.resource_id,
            reservation.c.resource_type,
        )
        .join_from(reservation, lease, lease.c.id == reservation.c.lease_id)
        .where(
            sa.or_(
                sa.and_(is_held(resource_type), is_unmade),
                sa.and_(is_held(STACK), is_unfilled),
            ),
            reservation.c.status == states.ReservationStatus.PENDING,
            sa.or_(
                lease.c.kind == states.LeaseKind.SCHEDULED,
                lease.c.retries_left.is_not(None),
                lease.c.preemptible.is_(True),
            ),
            lease.c.status.not_in(sorted(states.UNGRANTED)),
            lease.c.end_date > sql.now(session),
        )
        .order_by(lease.c.created_at, lease.c.id)
    )
    found: dict[str, list[PlannedResource]] = defaultdict(list)
    for lease_id, *values in session.execute(query):
        start, end, amounts, params, resource_id, found_type = values
        if found_type == resource_type:
            found[lease_id].append(PlannedResource(start, end, amounts or {}, params, resource_id))
        for each in (params.get(PARTS) or {}).get(resource_type, ()):
            found[lease_id].append(PlannedResource(start, end, {}, each, resource_id))
    return found
