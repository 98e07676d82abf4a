# SPDX-License-Identifier: Apache-2.0
"""The outbox: notifications and calls of webhooks, written with the change that they report.

They are sent after the commit. Any number of managers send: a row is claimed by one manager for a
time, and sent by another one if the claim expires. One call of a lease is in progress at a time,
and a limited number for a host or a project, so that a host that does not answer delays no calls
to other hosts.
"""

import collections
import copy
import dataclasses
import datetime
import fnmatch
import functools
import urllib.parse
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa
from oslo_log import log
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_common import limits
from climate_core.db import secrets, sql
from climate_core.db.engine import after_commit, signal
from climate_core.db.tables import DELIVERIES, NOTIFICATIONS
from climate_core.lease import model

LOG = log.getLogger(__name__)

T = TypeVar('T')


#: Key of ``Session.info`` under which the :class:`Sender` of this process is, if it has one.
SENDER: Final = 'outbox.sender'
#: The signal that there are new notifications to send.
NOTIFICATIONS_ADDED: Final = 'outbox.filled'
#: The signal that there are new calls of webhooks to send.
DELIVERIES_ADDED: Final = 'deliveries.added'

#: Maximum number of notifications of a lease that wait for its webhook. Each contains the whole
#: lease, so that changes of a large lease would fill the database while its webhook is down.
MAX_QUEUED_DELIVERIES: Final = 100

#: Rows that are read for each that is wanted: some may have to wait for others.
_CANDIDATES_PER_DELIVERY = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """One notification to send."""

    id: int
    event_id: str
    event_type: str
    payload: Mapping[str, Any]


def add_notifications(
    session: orm.Session,
    notices: Sequence[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
    *,
    are_many: bool = False,
) -> list[tuple[str, dict[str, Any]]]:
    """Insert notifications into the outbox.

    :param notices: event types and payloads
    :param are_many: whether a transaction writes too many for its process to keep them
    :returns: the same with an ``event_id`` in each payload, by which a receiver recognizes a
        notification that is sent twice
    """
    identified = [
        (event_type, {**payload, 'event_id': uuidutils.generate_uuid()})
        for event_type, payload in notices
    ]
    sender: Sender | None = session.info.get(SENDER)
    # Notifications of a request have its time, which may be long ago: the claim starts now.
    expiry = sender.expiry_of_new() if sender and identified and not are_many else None
    if sender is None or expiry is None:
        _enqueue(session, NOTIFICATIONS, identified, now, NOTIFICATIONS_ADDED)
        return identified
    name = uuidutils.generate_uuid()
    _enqueue(session, NOTIFICATIONS, identified, now, None, claim=name, next_at=expiry.at)
    mine = [
        NewNotification(name, payload['event_id'], event_type, payload)
        for event_type, payload in identified
    ]
    after_commit(session, functools.partial(sender.take, mine, expiry.monotonic))
    return identified


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

    :param due_in: seconds until there is another one to send; None: there is none
    """

    name: str
    notifications: Sequence[Notification]
    due_in: float | None


def claim_notifications(session: orm.Session, ttl: float, limit: int) -> ClaimedBatch:
    """Claim the notifications that were due first for ``ttl`` seconds."""
    clock, next_at = sql.now(session), NOTIFICATIONS.c.next_at
    query = sa.select(clock, next_at, *sql.columns(NOTIFICATIONS, Notification))
    found = session.execute(query.order_by(next_at, NOTIFICATIONS.c.id).limit(limit + 1)).all()
    due = [Notification(*row[2:]) for row in found[:limit] if row[1] <= row[0]]
    later = [max(0.0, (row[1] - row[0]).total_seconds()) for row in found[len(due) :]]
    name, count = claim_rows(session, NOTIFICATIONS, [each.id for each in due], ttl)
    if count < len(due):
        # Another manager has claimed some of them concurrently, until then.
        due, later = _read_claimed(session, NOTIFICATIONS, Notification, name), [ttl, *later]
    return ClaimedBatch(name, sorted(due, key=attrgetter('id')), min(later, default=None))


def delete_sent_new(session: orm.Session, sent: Sequence[NewNotification]) -> None:
    """Delete notifications that were sent by the process that wrote them."""
    claims = {each.claim for each in sent}
    mine = sa.and_(
        NOTIFICATIONS.c.claim.in_(claims),
        NOTIFICATIONS.c.event_id.in_([each.event_id for each in sent]),
    )
    sql.change(session, sa.delete(NOTIFICATIONS).where(mine))


def delete_sent(session: orm.Session, claim: str, ids: Sequence[int]) -> None:
    """Delete notifications that were sent under a claim."""
    sql.change(
        session,
        sa.delete(NOTIFICATIONS).where(
            NOTIFICATIONS.c.claim == claim, NOTIFICATIONS.c.id.in_(ids)
        ),
    )


def release_claims(session: orm.Session, claims: Collection[str]) -> None:
    """Let any manager send what is left of claims, immediately."""
    left = sa.update(NOTIFICATIONS).where(NOTIFICATIONS.c.claim.in_(claims))
    sql.change(session, left.values(claim=None, next_at=sql.now(session)))


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """One notification for one webhook; ``target`` is the host and port of its URL.

    :param url: empty if no key opens it
    """

    id: int
    lease_id: str
    project_id: str
    target: str
    event_id: str
    event_type: str
    payload: Mapping[str, Any]
    url: str = dataclasses.field(repr=False)
    secret: str = dataclasses.field(repr=False)
    attempts: int
    created_at: datetime.datetime
    claim: str


class DeliveriesInProgress:
    """The deliveries in progress, and how many more are allowed.

    :param share: deliveries for one project at the same time; half of it is the share of a host
    """

    def __init__(self, share: int, deliveries: Iterable[Delivery] = ()) -> None:
        self._limits = {'lease_id': 1, 'project_id': share, 'target': max(1, share // 2)}
        self._counts = {name: collections.Counter[str]() for name in self._limits}
        for each in deliveries:
            self.take(each)

    def take(self, row: Any) -> bool:
        """Count a delivery; False, and nothing is counted, if a limit is reached."""
        keys = {name: getattr(row, name) for name in self._limits}
        if any(self._counts[name][key] >= self._limits[name] for name, key in keys.items()):
            return False
        for name, key in keys.items():
            self._counts[name][key] += 1
        return True

    def full(self, name: str) -> list[str]:
        """Return the values of a column that have reached its limit."""
        return [key for key, count in self._counts[name].items() if count >= self._limits[name]]

    def sendable_condition(self) -> sa.ColumnElement[bool]:
        """Return the SQL condition for rows that may be sent now."""
        full = {name: self.full(name) for name in self._limits}
        return sa.and_(
            sa.true(), *(DELIVERIES.c[name].not_in(keys) for name, keys in full.items() if keys)
        )


def add_deliveries(
    session: orm.Session,
    lease: model.Lease,
    notices: Sequence[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
) -> None:
    """Write the notifications that the webhook of a lease subscribes to, if it has one."""
    if lease.webhook is None:
        return
    patterns = lease.webhook.get('events') or ['*']
    wanted = [
        (event_type, payload)
        for event_type, payload in notices
        if any(fnmatch.fnmatchcase(event_type, pattern) for pattern in patterns)
    ]
    if wanted and lease.generation >= MAX_QUEUED_DELIVERIES:
        _drop_oldest(session, lease.id, MAX_QUEUED_DELIVERIES - len(wanted))
    hook = _seal_call(session, lease.id, lease.webhook)
    common = {'lease_id': lease.id, 'project_id': lease.project_id, 'attempts': 0, **hook}
    _enqueue(session, DELIVERIES, wanted, now, DELIVERIES_ADDED, **common)


def _drop_oldest(session: orm.Session, lease_id: str, left: int) -> None:
    """Delete all but the last notifications of a lease that wait for its webhook."""
    waiting = (
        sa.select(DELIVERIES.c.id)
        .where(DELIVERIES.c.lease_id == lease_id)
        .order_by(DELIVERIES.c.id.desc())
    )
    dropped = session.scalars(waiting).all()[max(left, 0) :]
    if dropped:
        sql.change(session, sa.delete(DELIVERIES).where(DELIVERIES.c.id.in_(dropped)))
        LOG.warning(
            'Dropped %d notifications of lease %s: its webhook has not accepted the next %d',
            len(dropped),
            lease_id,
            MAX_QUEUED_DELIVERIES,
        )


def redirect_deliveries(session: orm.Session, lease: model.Lease) -> None:
    """Send the queued calls of a lease to its present webhook; delete them if it has none."""
    mine = DELIVERIES.c.lease_id == lease.id
    if lease.webhook is None:
        sql.change(session, sa.delete(DELIVERIES).where(mine))
    else:
        sql.change(
            session,
            sa.update(DELIVERIES)
            .where(mine)
            .values(**_seal_call(session, lease.id, lease.webhook)),
        )


def _seal_call(session: orm.Session, lease_id: str, webhook: Mapping[str, Any]) -> dict[str, str]:
    # The length of the column; a host that is longer does not exist.
    target = urllib.parse.urlsplit(webhook['url']).netloc.lower()[: limits.NAME_LENGTH]
    url, secret = secrets.seal_call(session, lease_id, webhook)
    return {'url': url, 'secret': secret, 'target': target}


def seconds_until_delivery(session: orm.Session, busy: DeliveriesInProgress) -> float | None:
    """Return in how many seconds a delivery is due that no limit delays."""
    return _seconds_until_due(session, DELIVERIES, busy.sendable_condition())


def claim_deliveries(
    session: orm.Session, ttl: float, limit: int, busy: DeliveriesInProgress
) -> list[Delivery]:
    """Claim at most ``limit`` deliveries that were due first for ``ttl`` seconds.

    :param busy: the deliveries in progress
    """
    query = (
        sa.select(
            DELIVERIES.c.id, DELIVERIES.c.lease_id, DELIVERIES.c.project_id, DELIVERIES.c.target
        )
        .where(DELIVERIES.c.next_at <= sql.now(session), busy.sendable_condition())
        .order_by(DELIVERIES.c.next_at, DELIVERIES.c.id)
        .limit(limit * _CANDIDATES_PER_DELIVERY)
    )
    # A copy: the transaction may be repeated, and not every chosen row is claimed.
    taken = copy.deepcopy(busy)
    ids = [row.id for row in session.execute(query) if taken.take(row)][:limit]
    name, count = claim_rows(session, DELIVERIES, ids, ttl)
    found = _read_claimed(session, DELIVERIES, Delivery, name) if count else []
    return [_open_delivery(session, each) for each in found]


def _open_delivery(session: orm.Session, sealed: Delivery) -> Delivery:
    url, secret = secrets.open_call(session, sealed.lease_id, sealed.url, sealed.secret)
    return dataclasses.replace(sealed, url=url, secret=secret)


def delete_delivery(session: orm.Session, delivery: Delivery) -> bool:
    """Delete a delivery that was sent or abandoned; False if its claim is lost."""
    return sql.change(session, sa.delete(DELIVERIES).where(_is_claimed(delivery))) == 1


def postpone_delivery(session: orm.Session, delivery: Delivery, seconds: float) -> None:
    """Release a delivery that failed, to be sent again after a number of seconds."""
    again = {
        'attempts': DELIVERIES.c.attempts + 1,
        'claim': None,
        'next_at': sql.now(session, seconds),
    }
    sql.change(session, sa.update(DELIVERIES).where(_is_claimed(delivery)).values(again))


def _is_claimed(delivery: Delivery) -> sa.ColumnElement[bool]:
    return sa.and_(DELIVERIES.c.id == delivery.id, DELIVERIES.c.claim == delivery.claim)


def _enqueue(
    session: orm.Session,
    table: sa.Table,
    notices: Iterable[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
    added: str | None,
    **common: Any,
) -> None:
    """Insert event types and payloads into a queue; send the signal ``added`` if there are any.

    :param added: None: no signal, they are claimed by this process
    :param common: columns that all rows of this queue have beside those of every queue, or in
        their place
    """
    common = {'claim': None, 'next_at': now, 'created_at': now, **common}
    new = [
        {**common, 'event_id': payload['event_id'], 'event_type': event_type, 'payload': payload}
        for event_type, payload in notices
    ]
    if new:
        sql.insert_deferred(session, table, new)
        if added is not None:
            signal(session, added)


def _seconds_until_due(
    session: orm.Session, table: sa.Table, *conditions: sa.ColumnElement[bool]
) -> float | None:
    """Return in how many seconds the next row of a queue is due; None if there is none."""
    next_at = table.c.next_at
    query = sa.select(next_at, sql.now(session)).where(*conditions).order_by(next_at).limit(1)
    row = session.execute(query).first()
    return None if row is None else max(0.0, (row[0] - row[1]).total_seconds())


def claim_rows(
    session: orm.Session, table: sa.Table, ids: Collection[int], ttl: float
) -> tuple[str, int]:
    """Claim rows of a queue that are still due; return the name of the claim and how many.

    :param ttl: seconds until they are due again, unless the claim is finished or renewed
    """
    if not ids:
        return '', 0
    name = uuidutils.generate_uuid()
    due = table.c.next_at <= sql.now(session)
    claimed = {'claim': name, 'next_at': sql.now(session, ttl)}
    statement = sa.update(table).where(table.c.id.in_(ids), due).values(claimed)
    return name, sql.change(session, statement)


def _read_claimed(session: orm.Session, table: sa.Table, kind: type[T], claim: str) -> list[T]:
    """Read the rows of a claim, in their order."""
    query = sa.select(*sql.columns(table, kind)).where(table.c.claim == claim).order_by(table.c.id)
    return [kind(*row) for row in session.execute(query)]
