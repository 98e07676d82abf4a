# SPDX-License-Identifier: Apache-2.0
"""Bring forward the look of a lease at its resources, when one of them is done."""

import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events, tables, utcnow
from climate_core.db.engine import Database, signal
from climate_core.lease import states

_EVENT, _RESERVATION = tables.EVENTS, tables.RESERVATIONS

#: Seconds between two looks at a lease, at least; one of more resources is looked at less often,
#: after a second for so many of them, since each look asks for each of them.
APART: Final = 0.5
_RESOURCES_A_SECOND: Final = 20


def look_now(database: Database, resource_type: str, resource_id: str) -> bool:
    """Let the lease that waits for a resource look at it, if one does.

    An event on which a manager works is left alone: that look may have come too early, and the
    next one comes when it would have come anyway.

    :returns: whether a look was brought forward
    """
    found = database.read(_find, resource_type, resource_id)
    return found is not None and database.write(_bring_forward, *found)


def _find(
    session: orm.Session, resource_type: str, resource_id: str
) -> tuple[str, int, datetime.datetime] | None:
    """Return the id and the generation of the event that waits, and when it may look; or None."""
    of_lease = _RESERVATION.alias()
    held = sa.select(sa.func.count()).where(
        of_lease.c.lease_id == _EVENT.c.lease_id, of_lease.c.hold == 1
    )
    now = utcnow.now(session)
    query = (
        sa.select(
            _EVENT.c.id,
            _EVENT.c.generation,
            _EVENT.c.next_at,
            _EVENT.c.updated_at,
            held.scalar_subquery().label('held'),
            now.label('now'),
        )
        .join_from(_RESERVATION, _EVENT, _EVENT.c.lease_id == _RESERVATION.c.lease_id)
        .where(
            _RESERVATION.c.resource_type == resource_type,
            _RESERVATION.c.resource_id == resource_id,
            _RESERVATION.c.hold == 1,
            _EVENT.c.status == states.EventStatus.UNDONE,
            _EVENT.c.time <= now,
            _EVENT.c.next_at > now,
        )
        .order_by(_EVENT.c.next_at)
    )
    row = session.execute(query).first()
    if row is None:
        return None
    apart = datetime.timedelta(seconds=max(APART, row.held / _RESOURCES_A_SECOND))
    at = max(row.now, row.updated_at + apart) if row.updated_at else row.now
    return (row.id, row.generation, at) if at < row.next_at else None


def _bring_forward(
    session: orm.Session, event_id: str, generation: int, at: datetime.datetime
) -> bool:
    if not events.bring_forward(session, event_id, generation, at):
        return False
    signal(session, events.DUE)
    return True
