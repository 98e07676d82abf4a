# SPDX-License-Identifier: Apache-2.0
"""Write what a lease became, with what is told about it, in the transaction that read it."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import orm

from climate_core import notifications
from climate_core.db import calendar, events, history, leases, outbox, reservations, rows
from climate_core.db.engine import Stale, signal
from climate_core.lease import model, states
from climate_core.lease.history import Cause, describe_change
from climate_core.lease.transitions import Change


class NewLease(NamedTuple):
    """A lease to write, when it was made, and who or what made it, for the history."""

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

    :param shares_trust: whether its trust is one that it shares
    :raises oslo_db.exception.DBDuplicateEntry: its id is taken, or a resource is reserved
    :raises climate_core.db.owner_trusts.Retired: its trust is not to be shared any more
    """
    if shares_trust:
        leases.insert_sharing(session, lease)
    else:
        leases.insert(session, [lease])
    _create_contents(session, [NewLease(lease, now, cause)])


def create_all(session: orm.Session, new: Sequence[NewLease]) -> None:
    """Write new leases with all that belongs to them, in five statements.

    Whether their trusts may be shared the caller has looked at in this transaction.

    :raises oslo_db.exception.DBDuplicateEntry: an id is taken, or a resource is reserved
    """
    leases.insert(session, [each.lease for each in new])
    with rows.deferred_writes(session):
        _create_contents(session, new)


def _create_contents(session: orm.Session, new: Sequence[NewLease]) -> None:
    reservations.insert(session, [r for each in new for r in each.lease.reservations])
    events.insert(session, [e for each in new for e in each.lease.events])
    for lease, now, cause in new:
        history.add(session, describe_change(None, lease, cause, now))
        _tell(session, lease, {'lease.create': None}, now)
        if lease.status == states.LeaseStatus.WAITING:
            signal(session, events.QUEUED)


def save(
    session: orm.Session,
    before: model.Lease,
    change: Change,
    now: datetime.datetime,
    cause: Cause,
) -> model.Lease:
    """Write the difference between a lease as it was read, with ``lock``, and as it shall be.

    :param cause: who or what changes it, for the history
    :returns: the lease as it is now
    :raises climate_core.db.engine.Stale: it is not the lease any more that was read
    :raises oslo_db.exception.DBDuplicateEntry: a resource that joins is reserved already
    """
    after = _lease(session, before, change, now)
    old_events = {e.id: e for e in before.events}
    for event in after.events:
        old = old_events.get(event.id)
        if old is not None and old != event and not events.update(session, old, event):
            raise Stale(f'event {event.id}')
    events.insert(session, [e for e in after.events if e.id not in old_events])
    kept = {e.id for e in after.events}
    events.delete(session, [e for e in before.events if e.id not in kept])
    old_ones = {r.id: r for r in before.reservations}
    changed = [(old_ones[r.id], r) for r in after.reservations if r.id in old_ones]
    reservations.update(session, [(old, new) for old, new in changed if old != new])
    reservations.insert(session, [r for r in after.reservations if r.id not in old_ones])
    history.add(session, describe_change(before, after, cause, now), after.generation)
    if before.status == states.LeaseStatus.IN_PROGRESS != after.status:
        # Hosts that were emptied for it may be given back.
        signal(session, calendar.FREED)
    if after.webhook != before.webhook:
        outbox.redirect_deliveries(session, after)
    _tell(session, after, change.notifications, now)
    return after


def _tell(
    session: orm.Session,
    lease: model.Lease,
    notices: Mapping[str, str | None],
    now: datetime.datetime,
) -> None:
    """Write notifications to the outbox, and for the webhook of the lease."""
    told = [notifications.build(kind, lease, now, why) for kind, why in notices.items()]
    outbox.add_deliveries(session, lease, outbox.add_notifications(session, told, now), now)


def _lease(
    session: orm.Session, before: model.Lease, change: Change, now: datetime.datetime
) -> model.Lease:
    values = rows.difference(leases.columns(change.lease), leases.columns(before))
    # What users change of reservations and events counts as a change of the lease.
    if not values and 'lease.update' not in change.notifications:
        return change.lease
    values['updated_at'] = now
    if not leases.update(session, before, **values):
        raise Stale(f'lease {before.id}')
    return dataclasses.replace(change.lease, generation=before.generation + 1, updated_at=now)
