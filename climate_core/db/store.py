# SPDX-License-Identifier: Apache-2.0
"""Write leases with all that belongs to them, in the transaction that read them; purge them.

A write includes the history, the notifications and the calls of webhooks about it.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import notifications
from climate_core.db import (
    calendar,
    events,
    history,
    outbox,
    reservations,
    rows,
    secrets,
    sql,
    tables,
    trusts,
)
from climate_core.db.engine import Database, Stale, signal
from climate_core.lease import model, states
from climate_core.lease.history import Cause, describe_change
from climate_core.lease.transitions import Change

_LEASE, _EVENT = tables.LEASES, tables.EVENTS

#: Inserts a lease if its trust is live. Built once: that takes longer than to execute it.
_INSERT_SHARING: Final = (
    sa.insert(_LEASE)
    .from_select(
        [each.name for each in _LEASE.columns],
        trusts.select_if_live(
            sa.bindparam('taken'),
            [sa.bindparam(each.name, type_=each.type) for each in _LEASE.columns],
        ),
    )
    .execution_options(preserve_rowcount=True)
)


class NewLease(NamedTuple):
    """A lease to write, the time of its creation, and its cause for the history."""

    lease: model.Lease
    now: datetime.datetime
    cause: Cause


def create(
    session: orm.Session,
    lease: model.Lease,
    now: datetime.datetime,
    cause: Cause,
    shares_trust: bool = False,
) -> None:
    """Write a new lease with all that belongs to it, in five statements.

    :param shares_trust: whether other leases share its trust
    :raises oslo_db.exception.DBDuplicateEntry: its id is taken, or a resource is reserved
    :raises climate_core.db.trusts.TrustRetired: its trust was retired concurrently
    """
    if shares_trust:
        insert_sharing_trust(session, lease)
    else:
        insert_leases(session, [lease])
    _create_contents(session, [NewLease(lease, now, cause)])


def create_all(session: orm.Session, new: Sequence[NewLease]) -> None:
    """Write new leases with all that belongs to them, in five statements.

    The caller checks in this transaction that their trusts are live.

    :raises oslo_db.exception.DBDuplicateEntry: an id is taken, or a resource is reserved
    """
    insert_leases(session, [each.lease for each in new])
    with rows.deferred_writes(session):
        _create_contents(session, new)


def _create_contents(session: orm.Session, new: Sequence[NewLease]) -> None:
    reservations.insert(session, [r for each in new for r in each.lease.reservations])
    events.insert(session, [(each.lease, each.lease.events) for each in new])
    for lease, now, cause in new:
        history.add(session, describe_change(None, lease, cause, now))
        _notify(session, lease, {'lease.create': None}, now)
        if lease.status == states.LeaseStatus.WAITING:
            signal(session, events.QUEUED)


def save(
    session: orm.Session,
    before: model.Lease,
    change: Change,
    now: datetime.datetime,
    cause: Cause,
) -> model.Lease:
    """Write the difference between a lease as it was read, with ``lock``, and its change.

    :param cause: who or what changes it, for the history
    :returns: the lease as it was written
    :raises climate_core.db.engine.Stale: the lease was changed concurrently
    :raises oslo_db.exception.DBDuplicateEntry: a resource that joins is reserved already
    """
    after = _save_lease(session, before, change, now)
    old_events = {e.id: e for e in before.events}
    for event in after.events:
        old = old_events.get(event.id)
        if old is not None and old != event and not events.update(session, old, event):
            raise Stale(f'event {event.id}')
    events.update_types(session, before, after)
    events.insert(session, [(after, [e for e in after.events if e.id not in old_events])])
    kept = {e.id for e in after.events}
    events.delete(session, [e for e in before.events if e.id not in kept])
    old_ones = {r.id: r for r in before.reservations}
    changed = [(old_ones[r.id], r) for r in after.reservations if r.id in old_ones]
    reservations.update(session, [(old, new) for old, new in changed if old != new])
    reservations.insert(session, [r for r in after.reservations if r.id not in old_ones])
    history.add(session, describe_change(before, after, cause, now), after.generation)
    if before.status == states.LeaseStatus.IN_PROGRESS != after.status:
        # Hosts that were drained for it may be released.
        signal(session, calendar.FREED)
    if after.webhook != before.webhook:
        outbox.redirect_deliveries(session, after)
    _notify(session, after, change.notifications, now)
    return after


def _notify(
    session: orm.Session,
    lease: model.Lease,
    notices: Mapping[str, str | None],
    now: datetime.datetime,
) -> None:
    """Write notifications to the outbox, and for the webhook of the lease."""
    built = [notifications.build(kind, lease, now, why) for kind, why in notices.items()]
    outbox.add_deliveries(session, lease, outbox.add_notifications(session, built, now), now)


def _save_lease(
    session: orm.Session, before: model.Lease, change: Change, now: datetime.datetime
) -> model.Lease:
    values = rows.difference(to_row(change.lease), to_row(before))
    # A change of reservations or events by a user counts as a change of the lease.
    if not values and 'lease.update' not in change.notifications:
        return change.lease
    values['updated_at'] = now
    if not update_lease(session, before, **values):
        raise Stale(f'lease {before.id}')
    return dataclasses.replace(change.lease, generation=before.generation + 1, updated_at=now)


def insert_leases(session: orm.Session, new: Sequence[model.Lease]) -> None:
    """Write leases without their reservations and events; DBDuplicateEntry: an id is taken."""
    rows.insert(session, _LEASE, [_sealed_row(session, each) for each in new])


def insert_sharing_trust(session: orm.Session, lease: model.Lease) -> None:
    """Write a lease, as :func:`insert_leases`, that shares its trust.

    :raises climate_core.db.trusts.TrustRetired: its trust was retired concurrently
    """
    new = {**_sealed_row(session, lease), 'taken': lease.trust_id}
    if session.connection().execute(_INSERT_SHARING, new).rowcount != 1:
        raise trusts.TrustRetired


def to_row(lease: model.Lease) -> dict[str, Any]:
    """Return the row of a lease, with its secrets in plain."""
    return rows.values(_LEASE, lease)


def _sealed_row(session: orm.Session, lease: model.Lease) -> dict[str, Any]:
    webhook = secrets.seal_webhook(session, lease.id, lease.webhook)
    return {**to_row(lease), 'webhook': webhook}


def update_lease(session: orm.Session, lease: model.Lease, **values: Any) -> bool:
    """Change columns of a lease, its generation and ``updated_at``, unless it has changed.

    :returns: False if the lease was changed concurrently; nothing is written then
    """
    if 'updated_at' not in values:
        values['updated_at'] = sql.read_time(session)
    if 'webhook' in values:
        values['webhook'] = secrets.seal_webhook(session, lease.id, values['webhook'])
    values['generation'] = lease.generation + 1
    return rows.change_row(session, _LEASE, lease.id, lease.generation, values)


def purge(database: Database, before: datetime.datetime, batch: int = 500) -> int:
    """Remove leases that were deleted, or ended, before a time, with all of theirs; count them.

    :param batch: maximum number of leases of a transaction, so that it is short
    """
    removed, after = 0, ''
    while True:
        found = database.write(purge_batch, before, after, batch)
        if found is None:
            return removed
        removed, after = removed + found[0], found[1]


def purge_batch(
    session: orm.Session, before: datetime.datetime, after: str, most: int
) -> tuple[int, str] | None:
    """Remove the next leases behind an id.

    :returns: how many, without those that another purge has removed concurrently, and the last
        id; None if there are none
    """
    query = sa.select(_LEASE.c.id).where(_LEASE.c.id > after, _is_purgeable(before))
    ids = session.scalars(query.order_by(_LEASE.c.id).limit(most)).all()
    if not ids:
        return None
    unwanted = sa.delete(_LEASE).where(_LEASE.c.id.in_(ids), _is_purgeable(before))
    return rows.change(session, unwanted), ids[-1]


def count_purgeable(session: orm.Session, before: datetime.datetime) -> int:
    """Count what :func:`purge` would remove."""
    query = sa.select(sa.func.count()).select_from(_LEASE).where(_is_purgeable(before))
    return session.execute(query).scalar_one()


def _is_purgeable(before: datetime.datetime) -> sa.ColumnElement[bool]:
    # An open event needs the lease and its trust.
    busy = sa.select(_EVENT.c.id).where(
        _EVENT.c.lease_id == _LEASE.c.id, _EVENT.c.next_at.is_not(None)
    )
    # Not by its end: a cancelled lease has ended before it, one that was hard to free after it.
    ended = sa.and_(
        _LEASE.c.status == states.LeaseStatus.TERMINATED,
        sa.func.coalesce(_LEASE.c.updated_at, _LEASE.c.created_at) < before,
    )
    return sa.and_(sa.or_(_LEASE.c.deleted_at < before, ended), ~busy.exists())
