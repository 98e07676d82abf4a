# SPDX-License-Identifier: Apache-2.0
"""Find the look of a lease at its resources that may come at once, when one of them is done.

Nothing is written: a manager that dies before that look leaves it to the next one.
"""

import dataclasses
import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events, rows, tables, utcnow
from climate_core.db.engine import Database
from climate_core.lease import states

_EVENT, _RESERVATION = tables.EVENTS, tables.RESERVATIONS

#: Seconds between two looks at a lease, at least; one of more resources is looked at less often,
#: after a second for so many of them, since each look asks for each of them.
APART: Final = 0.5
_RESOURCES_A_SECOND: Final = 20


def find_early(database: Database, resource_type: str, resource_id: str) -> events.Due | None:
    """Find the event of the lease that waits for a resource, if one does, in one statement.

    An event on which a manager works is left alone: that look may have come too early, and the
    next one comes when it would have come anyway.

    :returns: the event, to be taken at its ``next_at``, which the database does not have; None if
        it is looked at as soon without that
    """
    return database.read(_find, resource_type, resource_id)


def _find(session: orm.Session, resource_type: str, resource_id: str) -> events.Due | None:
    of_lease = _RESERVATION.alias()
    held = sa.select(sa.func.count()).where(
        of_lease.c.lease_id == _EVENT.c.lease_id, of_lease.c.hold == 1
    )
    now = utcnow.now(session)
    query = (
        sa.select(
            *rows.columns(_EVENT, events.Due),
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
    *values, updated_at, resources, read_at = row
    due = events.Due(*values)
    apart = datetime.timedelta(seconds=max(APART, resources / _RESOURCES_A_SECOND))
    at = max(read_at, updated_at + apart) if updated_at else read_at
    return dataclasses.replace(due, next_at=at, is_early=True) if at < due.next_at else None
