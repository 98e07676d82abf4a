# SPDX-License-Identifier: Apache-2.0
"""Read which reservations have lanes of hosts, by what the calendar promises."""

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables

_ALLOCATION, _LEASE, _RESERVATION = tables.ALLOCATIONS, tables.LEASES, tables.RESERVATIONS


class TakenLane(NamedTuple):
    """A lane that a reservation has, or had, since a time that has come.

    :param lane: its number among those of the host
    """

    unit_id: int
    lane: int
    reservation_id: str
    lease_id: str


def taken(
    session: orm.Session, unit_ids: Collection[int], live: bool, started: bool = True
) -> list[TakenLane]:
    """Read which reservations have lanes of hosts; one statement.

    :param live: those that are not over; else those that are
    :param started: only those whose time has come; else those as well whose lanes may be prepared
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
    return [TakenLane(*row) for row in session.execute(query)]
