# SPDX-License-Identifier: Apache-2.0
"""The outbox: notifications that are written with the change they tell of, and sent afterwards."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

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
    """Insert notifications into the outbox.

    :param notices: event types and payloads
    :returns: them again; each payload has got an ``event_id``, by which a receiver knows one that
        is sent twice
    """
    told = [
        (kind, {**payload, 'event_id': uuidutils.generate_uuid()}) for kind, payload in notices
    ]
    rows.enqueue(session, _ROW, told, now, FILLED)
    return told


class ClaimedBatch(NamedTuple):
    """Notifications that one manager has for a time, in the order of their ids.

    :param due_in: in how many seconds there is one more to send; None: there is none
    """

    name: str
    notifications: Sequence[Notification]
    due_in: float | None


def claim(session: orm.Session, ttl: float, limit: int) -> ClaimedBatch:
    """Take the notifications that were due first for ``ttl`` seconds."""
    clock, next_at = utcnow.now(session), _ROW.c.next_at
    query = sa.select(clock, next_at, *rows.columns(_ROW, Notification))
    found = session.execute(query.order_by(next_at, _ROW.c.id).limit(limit + 1)).all()
    due = [Notification(*row[2:]) for row in found[:limit] if row[1] <= row[0]]
    later = [max(0.0, (row[1] - row[0]).total_seconds()) for row in found[len(due) :]]
    name, count = rows.take(session, _ROW, [each.id for each in due], ttl)
    if count < len(due):
        # Another manager took some of them meanwhile, and has them until then.
        due, later = rows.taken(session, _ROW, Notification, name), [ttl, *later]
    return ClaimedBatch(name, sorted(due, key=attrgetter('id')), min(later, default=None))


def sent(session: orm.Session, claim: str, ids: Sequence[int]) -> None:
    """Delete notifications that were sent under a claim."""
    rows.change(session, sa.delete(_ROW).where(_ROW.c.claim == claim, _ROW.c.id.in_(ids)))
