# SPDX-License-Identifier: Apache-2.0
"""Count leases, events and queues for the metrics, in one statement.

Each part reads an index only: leases_live_idx, events_next_idx, notifications_next_idx,
webhook_deliveries_next_idx. Queues are counted up to :data:`MOST`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables

#: The most that is counted of a queue.
MOST = 100_000

_LEASE = 'lease'


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """The numbers that the metrics show of the database.

    :param leases: by status; one that is deleted counts as TERMINATED until it is purged
    :param due: events that are due and not claimed
    :param overdue: those of them that should have been taken up long ago
    :param outbox: notifications that are not sent yet
    :param deliveries: calls of webhooks that are not made yet
    """

    leases: Mapping[str, int]
    due: int
    overdue: int
    outbox: int
    deliveries: int


def read(session: orm.Session, overdue_seconds: float) -> Counts:
    """Count everything in one statement; an event is overdue so many seconds after its time."""
    table = tables.LEASES.c.status
    parts: list[Any] = [
        sa.select(
            sa.literal(_LEASE).label('what'), table.label('which'), sa.func.count()
        ).group_by(table),
        _few('due', tables.EVENTS, tables.EVENTS.c.next_at <= sql.now(session)),
        _few(
            'overdue',
            tables.EVENTS,
            tables.EVENTS.c.next_at <= sql.now(session, -overdue_seconds),
        ),
        _few('outbox', tables.NOTIFICATIONS, sa.true()),
        _few('deliveries', tables.DELIVERIES, sa.true()),
    ]
    rows = session.execute(sa.union_all(*parts)).all()
    found = {what: number for what, _, number in rows if what != _LEASE}
    return Counts({which: number for what, which, number in rows if what == _LEASE}, **found)


def _few(what: str, table: sa.Table, where: sa.ColumnElement[bool]) -> Any:
    some = sa.select(table.c.next_at).where(where).limit(MOST).subquery()
    return sa.select(sa.literal(what), sa.literal(''), sa.func.count()).select_from(some)
