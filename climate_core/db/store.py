# SPDX-License-Identifier: Apache-2.0
"""Write leases with all that belongs to them, in the transaction that read them; purge them.

A write includes the reservations, the events, the history, the notifications and the calls of
webhooks about it.
"""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions, notifications
from climate_core.db import calendar, events, outbox, secrets, sql, trusts
from climate_core.db.engine import Database, Stale, signal
from climate_core.db.tables import EVENTS, HISTORY, LEASES, RESERVATIONS
from climate_core.lease import events as lease_events
from climate_core.lease import history as lease_history
from climate_core.lease import model, states
from climate_core.lease.history import Cause, describe_change
from climate_core.lease.model import (
    SEALED,
    SPECIFICATIONS,
    Reservation,
)
from climate_core.lease.transitions import Change

#: Inserts a lease if its trust is live. Built once: that takes longer than to execute it.
_INSERT_SHARING: Final = (
    sa.insert(LEASES)
    .from_select(
        [each.name for each in LEASES.columns],
        trusts.select_if_live(
            sa.bindparam('taken'),
            [sa.bindparam(each.name, type_=each.type) for each in LEASES.columns],
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
    with sql.deferred_writes(session):
        _create_contents(session, new)


def _create_contents(session: orm.Session, new: Sequence[NewLease]) -> None:
    insert_reservations(session, [r for each in new for r in each.lease.reservations])
    insert_events(session, [(each.lease, each.lease.events) for each in new])
    for lease, now, cause in new:
        add_history(session, describe_change(None, lease, cause, now))
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
        if old is not None and old != event and not update_event(session, old, event):
            raise Stale(f'event {event.id}')
    update_event_types(session, before, after)
    insert_events(session, [(after, [e for e in after.events if e.id not in old_events])])
    kept = {e.id for e in after.events}
    delete_events(session, [e for e in before.events if e.id not in kept])
    old_ones = {r.id: r for r in before.reservations}
    changed = [(old_ones[r.id], r) for r in after.reservations if r.id in old_ones]
    update_reservations(session, [(old, new) for old, new in changed if old != new])
    insert_reservations(session, [r for r in after.reservations if r.id not in old_ones])
    add_history(session, describe_change(before, after, cause, now), after.generation)
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
    built = [
        notifications.build(event_type, lease, now, why) for event_type, why in notices.items()
    ]
    outbox.add_deliveries(session, lease, outbox.add_notifications(session, built, now), now)


def _save_lease(
    session: orm.Session, before: model.Lease, change: Change, now: datetime.datetime
) -> model.Lease:
    values = sql.difference(build_lease_row(change.lease), build_lease_row(before))
    # A change of reservations or events by a user counts as a change of the lease.
    if not values and 'lease.update' not in change.notifications:
        return change.lease
    values['updated_at'] = now
    if not update_lease(session, before, **values):
        raise Stale(f'lease {before.id}')
    return dataclasses.replace(change.lease, generation=before.generation + 1, updated_at=now)


def insert_leases(session: orm.Session, new: Sequence[model.Lease]) -> None:
    """Write leases without their reservations and events; DBDuplicateEntry: an id is taken."""
    sql.insert(session, LEASES, [_sealed_row(session, each) for each in new])


def insert_sharing_trust(session: orm.Session, lease: model.Lease) -> None:
    """Write a lease, as :func:`insert_leases`, that shares its trust.

    :raises climate_core.db.trusts.TrustRetired: its trust was retired concurrently
    """
    new = {**_sealed_row(session, lease), 'taken': lease.trust_id}
    if session.connection().execute(_INSERT_SHARING, new).rowcount != 1:
        raise trusts.TrustRetired


def build_lease_row(lease: model.Lease) -> dict[str, Any]:
    """Return the row of a lease, with its secrets in plain."""
    return sql.values(LEASES, lease)


def _sealed_row(session: orm.Session, lease: model.Lease) -> dict[str, Any]:
    webhook = secrets.seal_webhook(session, lease.id, lease.webhook)
    return {**build_lease_row(lease), 'webhook': webhook}


def update_lease(session: orm.Session, lease: model.Lease, **values: Any) -> bool:
    """Change columns of a lease, its generation and ``updated_at``, unless it has changed.

    :returns: False if the lease was changed concurrently; nothing is written then
    """
    if 'updated_at' not in values:
        values['updated_at'] = sql.read_time(session)
    if 'webhook' in values:
        values['webhook'] = secrets.seal_webhook(session, lease.id, values['webhook'])
    values['generation'] = lease.generation + 1
    return sql.change_row(session, LEASES, lease.id, lease.generation, values)


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
    query = sa.select(LEASES.c.id).where(LEASES.c.id > after, _is_purgeable(before))
    ids = session.scalars(query.order_by(LEASES.c.id).limit(most)).all()
    if not ids:
        return None
    unwanted = sa.delete(LEASES).where(LEASES.c.id.in_(ids), _is_purgeable(before))
    return sql.change(session, unwanted), ids[-1]


def count_purgeable(session: orm.Session, before: datetime.datetime) -> int:
    """Count what :func:`purge` would remove."""
    query = sa.select(sa.func.count()).select_from(LEASES).where(_is_purgeable(before))
    return session.execute(query).scalar_one()


def _is_purgeable(before: datetime.datetime) -> sa.ColumnElement[bool]:
    # An open event needs the lease and its trust.
    busy = sa.select(EVENTS.c.id).where(
        EVENTS.c.lease_id == LEASES.c.id, EVENTS.c.next_at.is_not(None)
    )
    # Not by its end: a cancelled lease has ended before it, one that was hard to free after it.
    ended = sa.and_(
        LEASES.c.status == states.LeaseStatus.TERMINATED,
        sa.func.coalesce(LEASES.c.updated_at, LEASES.c.created_at) < before,
    )
    return sa.and_(sa.or_(LEASES.c.deleted_at < before, ended), ~busy.exists())


#: The types of events for which the plugins of the resources of a lease are called.
_CALLING: Final = sorted(
    handler.event_type for handler in lease_events.TABLE if handler.plugin_methods
)


def insert_events(
    session: orm.Session, new: Iterable[tuple[model.Lease, Iterable[model.Event]]]
) -> None:
    """Write new events of leases."""
    sql.insert(
        session, EVENTS, [row for lease, added in new for row in build_event_rows(lease, added)]
    )


def build_event_rows(lease: model.Lease, new: Iterable[model.Event]) -> list[dict[str, Any]]:
    """Return the rows of new events of a lease."""
    types = _list_types(lease)

    def has_calls(event: model.Event) -> bool:
        return bool(lease_events.get_handler(event.event_type).plugin_methods)

    return [
        build_event_row(event) | {'resource_types': types if has_calls(event) else None}
        for event in new
    ]


def update_event_types(session: orm.Session, before: model.Lease, after: model.Lease) -> None:
    """Write the types of resources of a lease with its events, if they have changed."""
    types = _list_types(after)
    if types != _list_types(before):
        mine = sa.and_(EVENTS.c.lease_id == after.id, EVENTS.c.event_type.in_(_CALLING))
        sql.change(session, sa.update(EVENTS).where(mine).values(resource_types=types))


def _list_types(lease: model.Lease) -> str:
    """Return the value of the column ``resource_types``: each type is between two spaces."""
    return ' '.join(('', *sorted({r.resource_type for r in lease.reservations}), ''))


def delete_events(session: orm.Session, events: list[model.Event]) -> None:
    """Delete events that their user cancelled; a manager that works on one loses its claim."""
    if events:
        sql.change(session, sa.delete(EVENTS).where(EVENTS.c.id.in_([e.id for e in events])))


def build_event_row(event: model.Event) -> dict[str, Any]:
    """Return the row of an event."""
    return sql.values(EVENTS, event) | {
        'priority': lease_events.get_handler(event.event_type).priority
    }


def update_event(session: orm.Session, before: model.Event, after: model.Event) -> bool:
    """Change an event, if it still has the generation that was read."""
    new = sql.difference(build_event_row(after), build_event_row(before))
    return sql.change_row(session, EVENTS, before.id, before.generation, new)


#: What forecasts read of a specification; of lists only whether they are given.
_SHORT_FIELDS: Final = frozenset(
    {
        'availability_zone',
        'block_device_mapping_v2',
        'flavorRef',
        'imageRef',
        'size',
        'volume_type',
    }
)


def _shorten(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return params without what only the creation of a resource needs, up to 1 MB of metadata.

    :returns: None if nothing is left out
    """
    short = {name: value for name, value in params.items() if name != SEALED}
    for name in SPECIFICATIONS:
        specification = params.get(name)
        if isinstance(specification, Mapping):
            short[name] = {
                key: [] if isinstance(value, list) else value
                for key, value in specification.items()
                if key in _SHORT_FIELDS
            }
    return None if short == params else short


def insert_reservations(session: orm.Session, reservations: Sequence[Reservation]) -> None:
    """Write new reservations; DBDuplicateEntry: a resource is reserved already."""
    new = [build_reservation_row(each) for each in reservations]
    for each in new:
        each['params'] = secrets.seal_params(session, each['lease_id'], each['params'])
    sql.insert(session, RESERVATIONS, new)


def build_reservation_row(reservation: Reservation) -> dict[str, Any]:
    """Return the row of a reservation, with its metadata in plain."""
    own = {'hold': 1 if reservation.live else None, 'short_params': _shorten(reservation.params)}
    return sql.values(RESERVATIONS, reservation) | own


def update_reservations(
    session: orm.Session, changes: Sequence[tuple[Reservation, Reservation]]
) -> None:
    """Change pairs of reservations, before and after: one statement for all alike changes."""
    groups: dict[tuple[str, str], tuple[dict[str, Any], list[str]]] = {}
    for before, after in changes:
        values = sql.difference(build_reservation_row(after), build_reservation_row(before))
        # Sealed metadata is bound to its lease.
        is_bound = secrets.has_metadata(values.get('params', {}))
        key = before.lease_id if is_bound else '', repr(sorted(values.items()))
        groups.setdefault(key, (values, []))[1].append(before.id)
    for (lease_id, _), (values, ids) in groups.items():
        if lease_id:
            values['params'] = secrets.seal_params(session, lease_id, values['params'])
        if len(ids) == 1:
            sql.change_row(session, RESERVATIONS, ids[0], None, values)
            continue
        changed = sa.update(RESERVATIONS).where(RESERVATIONS.c.id.in_(ids))
        sql.change(session, changed.values(**values))


def add_history(
    session: orm.Session, entry: lease_history.HistoryEntry | None, generation: int | None = None
) -> None:
    """Add an entry, in the transaction of the change; None: no entry.

    Nothing is written if the lease has :data:`.history.MAX_REPEATABLE` entries like it: anyone
    may let servers join a lease and leave it, and the history is stored until the purge.

    :param generation: of the lease; None: the entry is written in any case
    """
    if generation is not None:
        entry = _limit_repeatable(session, entry, generation)
    if entry is not None:
        kept = sql.values(HISTORY, entry)
        seal = functools.partial(secrets.seal_params, session, entry.lease_id)
        kept['changes'] = secrets.change_history(entry.changes, seal)
        sql.insert_deferred(session, HISTORY, [kept])


def _limit_repeatable(
    session: orm.Session, entry: lease_history.HistoryEntry | None, generation: int
) -> lease_history.HistoryEntry | None:
    most = lease_history.MAX_REPEATABLE
    # A change of a lease writes about two entries: those of few changes need not be counted.
    if entry is None or entry.action not in lease_history.REPEATABLE or 2 * generation + 1 < most:
        return entry
    count = _count_history(session, entry.lease_id, lease_history.REPEATABLE)
    if count >= most:
        return None
    if count < most - 1:
        return entry
    return dataclasses.replace(
        entry, reason=' '.join(filter(None, (entry.reason, lease_history.LAST_REASON)))
    )


def _count_history(session: orm.Session, lease_id: str, actions: Collection[str]) -> int:
    mine = HISTORY.c.lease_id == lease_id, HISTORY.c.action.in_(sorted(actions))
    return session.scalar(sa.select(sa.func.count()).select_from(HISTORY).where(*mine)) or 0


def check_changes(session: orm.Session, lease_id: str, generation: int, most: int) -> None:
    """Check that a user may change a lease once more.

    Older entries are never dropped: otherwise a user could push a change out of the history.

    :param generation: of the lease; it counts each change by a user, and others
    :param most: the maximum number of :data:`.history.LIMITED` changes; additions by services and
        releases are not counted, otherwise anyone whose servers join and leave the lease could
        use up the changes of its owner
    :raises climate_core.exceptions.LimitExceeded: the history has as many
    """
    # The create is an entry, and the generation after it is 0.
    if generation + 1 < most:
        return
    count = _count_history(session, lease_id, lease_history.LIMITED)
    if count >= most:
        raise exceptions.LimitExceeded(
            f'changes_per_lease: the lease has {count} changes, the maximum is {most}. '
            'It can be started, ended and deleted; create another lease for other changes.',
            field='changes_per_lease',
        )
