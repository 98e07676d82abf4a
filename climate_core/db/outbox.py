# SPDX-License-Identifier: Apache-2.0
"""The outbox: notifications that are written with the change they tell of, and sent afterwards."""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import rows, sql, tables
from climate_core.db.engine import after_commit

_ROW = tables.NOTIFICATIONS

#: Key of ``Session.info`` under which the :class:`Sender` of this process is, if it has one.
SENDER: Final = 'outbox.sender'
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
    *,
    are_many: bool = False,
) -> list[tuple[str, dict[str, Any]]]:
    """Insert notifications into the outbox.

    :param notices: event types and payloads
    :param are_many: whether a transaction writes so many that its process does not keep them all
    :returns: them again; each payload has got an ``event_id``, by which a receiver knows one that
        is sent twice
    """
    told = [
        (kind, {**payload, 'event_id': uuidutils.generate_uuid()}) for kind, payload in notices
    ]
    sender: Sender | None = session.info.get(SENDER)
    # What tells of a request has its time, which may be long ago: the claim begins now.
    expiry = sender.expiry_of_new() if sender and told and not are_many else None
    if sender is None or expiry is None:
        rows.enqueue(session, _ROW, told, now, FILLED)
        return told
    name = uuidutils.generate_uuid()
    rows.enqueue(session, _ROW, told, now, None, claim=name, next_at=expiry.at)
    mine = [NewNotification(name, payload['event_id'], kind, payload) for kind, payload in told]
    after_commit(session, functools.partial(sender.take, mine, expiry.monotonic))
    return told


class NewNotification(NamedTuple):
    """A notification that the process which writes it has claimed for a time."""

    claim: str
    event_id: str
    event_type: str
    payload: Mapping[str, Any]


class Expiry(NamedTuple):
    """When a claim ends, by the clock of the database and by the monotonic one of this process."""

    at: datetime.datetime
    monotonic: float


class Sender(Protocol):
    """Send the notifications that its process writes: they are claimed as they are written.

    If the process dies they are sent when the claim expires, like those of any claim.
    """

    def expiry_of_new(self) -> Expiry | None:
        """Return when the claim of new ones ends; None: others may send them."""

    def take(self, notifications: Sequence[NewNotification], until: float) -> None:
        """Send these, which are committed; quick.

        :param until: when the claim expires, by the monotonic clock
        """


class ClaimedBatch(NamedTuple):
    """Notifications that one manager has for a time, in the order of their ids.

    :param due_in: in how many seconds there is one more to send; None: there is none
    """

    name: str
    notifications: Sequence[Notification]
    due_in: float | None


def claim(session: orm.Session, ttl: float, limit: int) -> ClaimedBatch:
    """Take the notifications that were due first for ``ttl`` seconds."""
    clock, next_at = sql.now(session), _ROW.c.next_at
    query = sa.select(clock, next_at, *rows.columns(_ROW, Notification))
    found = session.execute(query.order_by(next_at, _ROW.c.id).limit(limit + 1)).all()
    due = [Notification(*row[2:]) for row in found[:limit] if row[1] <= row[0]]
    later = [max(0.0, (row[1] - row[0]).total_seconds()) for row in found[len(due) :]]
    name, count = rows.take(session, _ROW, [each.id for each in due], ttl)
    if count < len(due):
        # Another manager took some of them meanwhile, and has them until then.
        due, later = rows.taken(session, _ROW, Notification, name), [ttl, *later]
    return ClaimedBatch(name, sorted(due, key=attrgetter('id')), min(later, default=None))


def new_sent(session: orm.Session, sent: Sequence[NewNotification]) -> None:
    """Delete notifications that were sent by the process that wrote them."""
    claims = {each.claim for each in sent}
    mine = sa.and_(_ROW.c.claim.in_(claims), _ROW.c.event_id.in_([each.event_id for each in sent]))
    rows.change(session, sa.delete(_ROW).where(mine))


def sent(session: orm.Session, claim: str, ids: Sequence[int]) -> None:
    """Delete notifications that were sent under a claim."""
    rows.change(session, sa.delete(_ROW).where(_ROW.c.claim == claim, _ROW.c.id.in_(ids)))


def release(session: orm.Session, claims: Collection[str]) -> None:
    """Have any manager send what is left of claims, at once."""
    left = sa.update(_ROW).where(_ROW.c.claim.in_(claims))
    rows.change(session, left.values(claim=None, next_at=sql.now(session)))
