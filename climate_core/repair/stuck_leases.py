# SPDX-License-Identifier: Apache-2.0
"""Make stuck leases continue, see :func:`climate_core.db.monitoring.find_stuck`."""

import datetime
from collections.abc import Mapping, Sequence

from sqlalchemy import orm

from climate_core.db import history, leases, sql, store
from climate_core.db.monitoring import Stuck, StuckKind
from climate_core.lease import events, model, states, transitions
from climate_core.lease.history import DONE, Cause, HistoryEntry, describe_change
from climate_core.lease.transitions import Change

#: The action of a repair in the history.
REPAIR = 'operator.repair'
#: The repair of :func:`unstick`. An operator decides about an ERROR.
REMEDIES: Mapping[StuckKind, str] = {
    StuckKind.CLAIM_EXPIRED: 'make the event due now',
    StuckKind.NOT_TAKEN_UP: 'make the event due now',
    StuckKind.RETRIED: 'make the event due now',
    StuckKind.PAST_END: 'make the end due now',
    StuckKind.NO_END: 'give the lease its end again',
    StuckKind.STARTING: 'make the start due now',
    StuckKind.TRUST_KEPT: 'let the trust go',
}
#: The event that is made due for a lease that makes no progress.
_EVENT_DUE_NOW = {StuckKind.PAST_END: model.END, StuckKind.STARTING: model.START}


def unstick(
    session: orm.Session, lease_id: str, findings: Sequence[Stuck], user_id: str | None
) -> list[str]:
    """Repair a stuck lease, as far as it is still stuck.

    An event that a manager works on is not changed.

    :param user_id: the operator, for the history
    :returns: what was done, in sentences
    :raises climate_core.db.engine.Stale: the lease was changed concurrently
    """
    before = leases.find(session, lease_id, lock=True)
    if before is None:
        return []
    now = sql.read_time(session)
    after, done = before, []
    for each in findings:
        changed = _repair_finding(after, each, now)
        if changed != after:
            after = changed
            done.append(f'{each.kind}: {REMEDIES[each.kind]} ({each.event_type or "lease"})')
    if done:
        cause = Cause(REPAIR, user_id=user_id)
        store.save(session, before, Change(after), now, cause)
        note_repair(session, before, after, cause, now, '; '.join(done))
    return done


def note_repair(
    session: orm.Session,
    before: model.Lease,
    after: model.Lease,
    cause: Cause,
    now: datetime.datetime,
    reason: str,
) -> None:
    """Add a repair to the history, unless the change of the lease has added it."""
    if describe_change(before, after, cause, now) is None:
        repair = HistoryEntry(after.id, now, cause.action, DONE, reason, cause.user_id, None, {})
        history.add(session, repair)


def _repair_finding(lease: model.Lease, found: Stuck, now: datetime.datetime) -> model.Lease:
    if found.kind is StuckKind.TRUST_KEPT:
        return events.get_handler(model.RELEASE_TRUST).after_termination(lease, now)
    if found.kind is StuckKind.NO_END:
        time = max(lease.end_date, now)
        end = lease.event(model.END)
        again = transitions.reschedule_event(end, time, now) if end else None
        return lease.with_events(again or model.new_event(lease.id, model.END, time, now))
    wanted = _EVENT_DUE_NOW.get(found.kind)
    event = lease.event(wanted) if wanted else _event_of(lease, found.event_id)
    return lease if event is None else _reschedule(lease, event, now)


def _event_of(lease: model.Lease, event_id: str | None) -> model.Event | None:
    return next((each for each in lease.events if each.id == event_id), None)


def _reschedule(lease: model.Lease, event: model.Event, now: datetime.datetime) -> model.Lease:
    is_claimed = event.status == states.EventStatus.IN_PROGRESS
    waits = event.next_at is not None and event.next_at > now
    if not event.open or (is_claimed and waits) or event.next_at == now:
        return lease
    return lease.with_events(transitions.reschedule_event(event, now, now))
