# SPDX-License-Identifier: Apache-2.0
"""The outbox: notifications that are written with the change they tell of, and sent afterwards."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import rows, tables, utcnow

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
    told = [
        (kind, {**payload, 'event_id': uuidutils.generate_uuid()}) for kind, payload in notices
    ]
    rows.enqueue(session, _ROW, told, now, FILLED)
    return told


def due_in(session: orm.Session) -> float | None:
    """Tell in how many seconds there is something to send; None when the outbox is empty."""
    return rows.due_in(session, _ROW)


def claim(session: orm.Session, ttl: float, limit: int) -> tuple[str, list[Notification]]:
    """Take the oldest notifications for ``ttl`` seconds; return the name of the claim and them."""
    query = sa.select(*rows.columns(_ROW, Notification))
    query = query.where(_ROW.c.next_at <= utcnow.now(session)).order_by(_ROW.c.id).limit(limit)
    found = [Notification(*row) for row in session.execute(query)]
    name, count = rows.take(session, _ROW, [each.id for each in found], ttl)
    if count < len(found):
        # Another manager took some of them meanwhile.
        found = rows.taken(session, _ROW, Notification, name)
    return name, found


def sent(session: orm.Session, claim: str, ids: Sequence[int]) -> float | None:
    """Forget notifications that were sent under a claim; return what :func:`due_in` does."""
    rows.change(session, sa.delete(_ROW).where(_ROW.c.claim == claim, _ROW.c.id.in_(ids)))
    return due_in(session)
