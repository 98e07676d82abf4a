# SPDX-License-Identifier: Apache-2.0
"""Calls of webhooks to make: written with the change that they tell of, made afterwards.

Any number of managers send. A row is claimed by one of them for a time; what it does not finish
until then is sent by another. One row of a lease is sent at a time, and only so many to one host
or for one project, so that a host that does not answer delays no other calls.
"""

import collections
import copy
import dataclasses
import datetime
import fnmatch
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import orm

from climate_common import limits
from climate_core.db import rows, secrets, sql, tables
from climate_core.lease import model

LOG = log.getLogger(__name__)

_ROW = tables.DELIVERIES

#: Sent by :func:`climate_core.db.engine.signal` when there is something new to send.
ADDED: Final = 'deliveries.added'

#: Maximum number of notifications of a lease that wait for its webhook. Each contains the whole
#: lease, so that changes of a large lease would fill the database while its webhook is down.
MAX_WAITING: Final = 100

#: Rows that are looked at for each that is wanted: some may have to wait for others.
_WINDOW = 8


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
        """Count a delivery; False, and nothing is counted, if there is no more room for it."""
        keys = {name: getattr(row, name) for name in self._limits}
        if any(self._counts[name][key] >= self._limits[name] for name, key in keys.items()):
            return False
        for name, key in keys.items():
            self._counts[name][key] += 1
        return True

    def full(self, name: str) -> list[str]:
        """List the values of a column of which there may not be more."""
        return [key for key, count in self._counts[name].items() if count >= self._limits[name]]

    def room(self) -> sa.ColumnElement[bool]:
        """Return the SQL condition for rows that may be sent now."""
        full = {name: self.full(name) for name in self._limits}
        return sa.and_(
            sa.true(), *(_ROW.c[name].not_in(keys) for name, keys in full.items() if keys)
        )


def add(
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
        (kind, payload)
        for kind, payload in notices
        if any(fnmatch.fnmatchcase(kind, pattern) for pattern in patterns)
    ]
    if wanted and lease.generation >= MAX_WAITING:
        _drop_oldest(session, lease.id, MAX_WAITING - len(wanted))
    hook = _hook(session, lease.id, lease.webhook)
    common = {'lease_id': lease.id, 'project_id': lease.project_id, 'attempts': 0, **hook}
    rows.enqueue(session, _ROW, wanted, now, ADDED, **common)


def _drop_oldest(session: orm.Session, lease_id: str, left: int) -> None:
    """Delete all but the last notifications of a lease that wait for its webhook."""
    waiting = sa.select(_ROW.c.id).where(_ROW.c.lease_id == lease_id).order_by(_ROW.c.id.desc())
    dropped = session.scalars(waiting).all()[max(left, 0) :]
    if dropped:
        rows.change(session, sa.delete(_ROW).where(_ROW.c.id.in_(dropped)))
        LOG.warning(
            'Dropped %d notifications of lease %s: its webhook has not accepted the next %d',
            len(dropped),
            lease_id,
            MAX_WAITING,
        )


def redirect(session: orm.Session, lease: model.Lease) -> None:
    """Send what waits for the webhook that a lease had to the one that it has, if any."""
    mine = _ROW.c.lease_id == lease.id
    if lease.webhook is None:
        rows.change(session, sa.delete(_ROW).where(mine))
    else:
        rows.change(
            session, sa.update(_ROW).where(mine).values(**_hook(session, lease.id, lease.webhook))
        )


def _hook(session: orm.Session, lease_id: str, webhook: Mapping[str, Any]) -> dict[str, str]:
    # The length of the column; a host that is longer does not exist.
    target = urllib.parse.urlsplit(webhook['url']).netloc.lower()[: limits.NAME_LENGTH]
    url, secret = secrets.seal_call(session, lease_id, webhook)
    return {'url': url, 'secret': secret, 'target': target}


def due_in(session: orm.Session, busy: DeliveriesInProgress) -> float | None:
    """Tell in how many seconds there is something to send for which there is room."""
    return rows.due_in(session, _ROW, busy.room())


def claim(
    session: orm.Session, ttl: float, limit: int, busy: DeliveriesInProgress
) -> list[Delivery]:
    """Take what was due first, at most ``limit``, for ``ttl`` seconds, beside what is busy."""
    query = (
        sa.select(_ROW.c.id, _ROW.c.lease_id, _ROW.c.project_id, _ROW.c.target)
        .where(_ROW.c.next_at <= sql.now(session), busy.room())
        .order_by(_ROW.c.next_at, _ROW.c.id)
        .limit(limit * _WINDOW)
    )
    # A copy: the transaction may be repeated, and not all that is chosen is got.
    taken = copy.deepcopy(busy)
    ids = [row.id for row in session.execute(query) if taken.take(row)][:limit]
    name, count = rows.take(session, _ROW, ids, ttl)
    found = rows.taken(session, _ROW, Delivery, name) if count else []
    return [_opened(session, each) for each in found]


def _opened(session: orm.Session, sealed: Delivery) -> Delivery:
    url, secret = secrets.open_call(session, sealed.lease_id, sealed.url, sealed.secret)
    return dataclasses.replace(sealed, url=url, secret=secret)


def done(session: orm.Session, delivery: Delivery) -> bool:
    """Delete a delivery that was made or given up; False if the claim on it is lost."""
    return rows.change(session, sa.delete(_ROW).where(_claimed(delivery))) == 1


def later(session: orm.Session, delivery: Delivery, seconds: float) -> None:
    """Release a delivery that failed, to be sent again in so many seconds."""
    again = {
        'attempts': _ROW.c.attempts + 1,
        'claim': None,
        'next_at': sql.now(session, seconds),
    }
    rows.change(session, sa.update(_ROW).where(_claimed(delivery)).values(again))


def _claimed(delivery: Delivery) -> sa.ColumnElement[bool]:
    return sa.and_(_ROW.c.id == delivery.id, _ROW.c.claim == delivery.claim)
