# SPDX-License-Identifier: Apache-2.0
"""The outbox: notifications that are written with the change they tell of, and sent afterwards."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import queue, tables, utcnow
from climate_core.db.engine import signal

_ROW = tables.NOTIFICATIONS

#: Sent by :func:`climate_core.db.engine.signal` when there is something new to send.
FILLED: Final = 'outbox.filled'


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """One notification to send."""

    id: int
    event_id: str
    event_type: str
    payload: Mapping[str, Any]


def add(
    session: orm.Session,
    notices: Sequence[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
) -> list[tuple[str, dict[str, Any]]]:
    """Put notifications into the outbox.

    :param notices: event types and payloads
    :returns: them again; each payload has got an ``event_id``, by which a receiver knows one that
        is sent twice
    """
    rows: list[dict[str, Any]] = []
    for event_type, payload in notices:
        event_id = uuidutils.generate_uuid()
        rows.append(
            {
                'event_id': event_id,
                'event_type': event_type,
                'payload': {**payload, 'event_id': event_id},
                'claim': None,
                'next_at': now,
                'created_at': now,
            }
        )
    if rows:
        session.connection().execute(sa.insert(_ROW), rows)
        signal(session, FILLED)
    return [(row['event_type'], row['payload']) for row in rows]


def due_in(session: orm.Session) -> float | None:
    """Tell in how many seconds there is something to send; None when the outbox is empty."""
    return queue.due_in(session, _ROW)


def claim(session: orm.Session, ttl: float, limit: int) -> tuple[str, list[Notification]]:
    """Take the oldest notifications for ``ttl`` seconds, so that no other manager sends them.

    :returns: the name of the claim and what it has
    """
    due = _ROW.c.next_at <= utcnow.now(session)
    ids = session.scalars(sa.select(_ROW.c.id).where(due).order_by(_ROW.c.id).limit(limit)).all()
    if not ids:
        return '', []
    name = queue.claim(session, _ROW, ids, ttl)
    query = (
        sa.select(_ROW.c.id, _ROW.c.event_id, _ROW.c.event_type, _ROW.c.payload)
        .where(_ROW.c.claim == name)
        .order_by(_ROW.c.id)
    )
    return name, [Notification(*row) for row in session.execute(query)]


def sent(session: orm.Session, claim: str, ids: Sequence[int]) -> None:
    """Forget notifications that were sent under a claim."""
    session.connection().execute(sa.delete(_ROW).where(_ROW.c.claim == claim, _ROW.c.id.in_(ids)))
