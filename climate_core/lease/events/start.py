# SPDX-License-Identifier: Apache-2.0
"""The events of the start: ``prepare_reservation``, ``start_lease`` and ``ready_to_start``. Pure.

A preparation is what a resource needs between its reservation and the start. A resource that is
created for a lease, as a stack from a template, claims its capacity as soon as its reservation is
stored. If it cannot, it is freed again, and the lease is in ERROR until its user removes the
reservation. A preparation that only makes the start fast, as of hosts, is done shortly before it.

The resources that one request creates for a lease are created together or not at all: if one
fails, the others are freed with it, also those of other groups. The start waits for all of them.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, states, transitions
from climate_core.lease.events import base, notices, queue
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome, Result

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

STARTED: Final = 'lease.event.start_lease'
START_FAILED: Final = 'lease.event.start_lease.error'
START_WARNING: Final = 'lease.event.start_lease.warning'

#: The reason to skip a preparation.
START_FIRST: Final = 'The start came first.'
#: The reason to skip a start.
TOO_LATE: Final = 'The lease ended before it could be started.'
#: A resource reports its creation. It is polled as well, because the report may be lost.
_WHILE_CREATED: Final = Outcome(Result.WAIT, 60.0)


class PrepareReservation(base.EventHandler):
    event_type = model.PREPARE
    follows_grant = True
    due = (
        'when a reservation that needs it is stored, before the start; of hosts '
        '``prepare_seconds`` before the start'
    )
    action = (
        'fills a stack, and frees it if it cannot be filled; readies the lanes of hosts, closed'
    )
    on_failure = (
        'retried until the start; a permanent failure puts the reservation and the lease in error '
        'and frees the resource, which is retried for ever; a lease of the kind retry for whose '
        'servers there is no capacity is queued again, as is a lease that preempts others'
    )
    notifications = {'lease.update': 'a resource cannot be prepared'}
    priority = 2
    hidden = True
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('prepare', 'rollback_prepare')

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        """Begin the work on a reservation: prepare it, or free what failed."""
        todo = _unstarted(lease, {event.reservation_id})
        if not todo or lease.status in states.ENDING:
            return EventWork(lease, skip_reason='Its resource is gone, or freed with the lease.')
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        """Return the lease after the work on one reservation before its start.

        What cannot be prepared is in ERROR before it is freed, so that any manager that continues
        the work reads the reason.
        """
        ours = next(iter(_unstarted(lease, outcomes.keys())), None)
        if ours is None:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        outcome = outcomes[ours.id]
        ours = transitions.with_progress(ours, outcome)
        lease = lease.with_reservations(ours)
        if ours.status == _R.PENDING:
            change = _settle_pending(lease, event, ours, outcome, now)
            return dataclasses.replace(change, lease=_unblock_start(lease, change.lease, now))
        # It is being freed; the reason of its failure stays readable.
        if outcome.result is not Result.DONE:
            return Change(lease.with_events(transitions.retry_event(event, [outcome], now)))
        if lease.status == _L.WAITING:
            lease = lease.with_reservations(queue.as_unmade(ours, now))
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        if ours.group:
            # What was created for it is freed, and does not count any more.
            lease = lease.with_reservations(dataclasses.replace(ours, amounts={}, updated_at=now))
        event = transitions.complete_event(event, ours.status_reason, now, _E.ERROR)
        return Change(lease.with_events(event))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        prepare, rollback = self.plugin_methods
        return rollback if reservation.id in failed_preparations(lease) else prepare

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Tell whether it frees what it could not prepare."""
        return event.reservation_id in failed_preparations(lease)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        """Move a preparation that is due before the start with the start."""
        if event.time == event.created_at:
            return event
        moved = event.time + (after.start_date - before.start_date)
        return transitions.move_event(event, max(moved, now), now)


def _unstarted(lease: Lease, ids: Iterable[str | None]) -> tuple[Reservation, ...]:
    statuses = (_R.PENDING, _R.ERROR)
    return tuple(r for r in lease.reservations if r.id in ids and r.status in statuses)


def _settle_pending(
    lease: Lease, event: Event, reservation: Reservation, outcome: Outcome, now: datetime
) -> Change:
    failed = outcome.result is Result.FAILED
    if outcome.lacks_capacity and queue.can_requeue(lease, outcome.preempts_others):
        after = queue.requeue(lease, outcome.reason or '', now)
        return Change(after, {'lease.update': after.status_reason})
    new = reservation
    # A resource with missing parts keeps its reason until they exist.
    has_news = failed or not reservation.missing_resources
    if has_news and (outcome.result is not Result.WAIT or outcome.reason is not None):
        new = dataclasses.replace(new, status_reason=outcome.reason)
    if failed:
        new = dataclasses.replace(new, status=_R.ERROR)
    if new != reservation:
        lease = lease.with_reservations(dataclasses.replace(new, updated_at=now))
        lease = lease.moved_to(_L.ERROR if failed else lease.status, _reason_before_start(lease))
    if failed:
        lease = _fail_together(lease, new, now)
        rollback = transitions.reschedule_event(event, now, now)
        return Change(lease.with_events(rollback), {'lease.update': lease.status_reason})
    return Change(lease.with_events(transitions.settle_event(event, outcome, now)))


def _fail_together(lease: Lease, failed: Reservation, now: datetime) -> Lease:
    """Free the other resources of the request that a failed one belongs to."""
    times = _created_since(lease)
    others = {
        r.id: dataclasses.replace(
            r, status=_R.ERROR, status_reason=failed.status_reason, updated_at=now
        )
        for r in lease.live
        if r.id in times and times[r.id] == times.get(failed.id) and r.status == _R.PENDING
    }
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in others)
    rollbacks = (transitions.reschedule_event(event, now, now) for event in events)
    return lease.with_reservations(*others.values()).with_events(*rollbacks)


def blocks_start(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations that the start leaves out until all are created.

    It waits for all resources of one request. A lease of the kind retry, which is queued again if
    one of them lacks capacity, waits for all of its resources.
    """
    times = _created_since(lease)
    pending = [r for r in lease.reservations if r.id in times and r.status == _R.PENDING]
    preparing = {e.reservation_id for e in lease.events_of(model.PREPARE) if e.open}
    incomplete = {times[r.id] for r in pending if r.id in preparing}
    if incomplete and lease.kind == states.LeaseKind.RETRY:
        return frozenset(r.id for r in pending)
    return frozenset(r.id for r in pending if times[r.id] in incomplete)


def _created_since(lease: Lease) -> Mapping[str, datetime]:
    """Return the times of the requests that create resources, by the ids of their reservations.

    The resources of one request, or of one grant, have the same time.
    """
    groups = {r.id for r in lease.reservations if r.group}
    times: dict[str, datetime] = {}
    for event in lease.events_of(model.PREPARE):
        if event.reservation_id in groups:
            before = times.get(event.reservation_id, event.created_at)
            times[event.reservation_id] = max(before, event.created_at)
    return times


def _unblock_start(before: Lease, after: Lease, now: datetime) -> Lease:
    """Continue a start immediately that has waited for resources that exist now, or failed."""
    start = after.event(model.START)
    waited = blocks_start(before) and not blocks_start(after)
    if not waited or start is None or start.status != _E.UNDONE or start.time > now:
        return after
    # A start that is overdue is not changed.
    return after.with_events(dataclasses.replace(start, next_at=min(start.next_at or now, now)))


def _reason_before_start(lease: Lease) -> str | None:
    """Return the reason of a lease that has not started."""
    failing = (r for r in lease.live if r.status_reason is not None and r.status == _R.PENDING)
    reasons = [transitions.permanent_errors(lease), transitions.summarize_errors(failing)]
    return '; '.join(filter(None, reasons)) or transitions.user_start_reason(lease)


def add_preparations(
    lease: Lease, preparing: Mapping[str, timedelta | None], now: datetime
) -> Lease:
    """Add preparations of reservations. In a lease that has started only groups have them.

    :param preparing: the ids of the reservations -> the time before the start; None: now
    """
    groups = {each.id for each in lease.reservations if each.group}
    if lease.has_started(now):
        preparing = dict.fromkeys(groups & preparing.keys())
    elif lease.kind != states.LeaseKind.SCHEDULED:
        # What is created for the lease claims capacity from the request, or from the grant, on.
        whole = {each.id for each in lease.reservations if each.parts is not None}
        preparing = {**preparing, **dict.fromkeys((groups | whole) & preparing.keys())}
    times = {
        each: now if before is None else max(now, lease.start_date - before)
        for each, before in preparing.items()
    }
    return lease.with_events(
        *(
            model.new_event(lease.id, model.PREPARE, time, now, each)
            for each, time in times.items()
        )
    )


def cancel_preparations(
    lease: Lease, reservations: Iterable[Reservation], reason: str, now: datetime
) -> Lease:
    """Cancel the preparation of reservations."""
    ids = {each.id for each in reservations}
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in ids)
    return transitions.cancel_events(lease, events, reason, now)


def failed_preparations(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations whose preparation failed; their resources are freed."""
    events = lease.events_of(model.PREPARE)
    failed = {e.reservation_id for e in events if e.open or e.status == _E.ERROR}
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == _R.ERROR)


def was_interrupted(lease: Lease, reservation: Reservation) -> bool:
    """Tell whether a lease ended before a reservation was prepared, and before its start."""
    return any(
        event.status_reason not in (None, START_FIRST)
        for event in lease.events_of(model.PREPARE, reservation_id=reservation.id)
    )


class StartLease(base.EventHandler):
    event_type = model.START
    follows_grant = True
    due = '``start_date``, or when the user starts the lease'
    action = 'starts every pending resource, those of the lowest rank first'
    on_failure = (
        'retried until shortly before the end of the lease; a permanent failure or a bug puts '
        'the resource and the lease in error, the other resources continue'
    )
    notifications = {
        STARTED: 'its start is done: everything is active',
        START_FAILED: 'something of it cannot be started, or was not started before its end',
        START_WARNING: 'its start will fail; sent shortly before the start',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('start',)
    done_status = _R.ACTIVE
    done_when_active = True
    ascending = True
    until_end = True
    # A bug is not transient: the start fails immediately, and the user is notified.
    bug_is_permanent = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status in states.ENDING or lease.deleted_at is not None:
            return EventWork(lease, skip_reason='The lease is over.')
        if now >= lease.end_date:
            return EventWork(lease, skip_reason=TOO_LATE)
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status=_L.STARTING)
        held = blocks_start(lease)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING and r.id not in held)
        # The wake-up does what is not prepared yet.
        return EventWork(cancel_preparations(lease, todo, START_FIRST, now), todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            # The last reason stays until its resource is active.
            failing = [r for r in waiting if r.status_reason is not None][:1]
            reason = transitions.summarize_errors(failing) or transitions.permanent_errors(after)
            after = dataclasses.replace(after, status_reason=reason)
            later = dict.fromkeys(blocks_start(after), _WHILE_CREATED)
            outcomes = {**later, **outcomes}
            return Change(transitions.poll_again(after, event, waiting, outcomes, now))
        failed = [r for r in after.reservations if r.status == _R.ERROR]
        if failed:
            reason = transitions.summarize_errors(failed)
            after = after.moved_to(_L.ERROR, reason)
            event = transitions.complete_event(event, reason, now, _E.ERROR)
            return Change(after.with_events(event), {START_FAILED: reason})
        after = after.moved_to(_L.ACTIVE, transitions.permanent_errors(after))
        after = dataclasses.replace(after, retries_left=None, duration=None)
        return Change(
            after.with_events(transitions.complete_event(event, None, now)), {STARTED: None}
        )

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Notify that the lease was never started, unless its user ended it."""
        after = lease.with_events(transitions.complete_event(event, reason, now, _E.ERROR))
        by_user = lease.status in states.ENDING or lease.deleted_at is not None
        return Change(after, {} if by_user else {START_FAILED: reason})

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        manual = after.start_policy == states.StartPolicy.MANUAL
        if after.status == _L.PENDING and manual:
            return _with_type(event, model.READY, after, now)
        return _move_with_start(event, before, after, now, was_skipped=True)


class ReadyToStart(notices.Notice):
    event_type = model.READY
    follows_grant = True
    due = '``start_date``, if ``start_policy`` is ``manual``'
    action = 'notifies; the lease waits for its user to start it'
    notifications = {
        'lease.event.ready_to_start': 'its start has come, and it waits for its user to start it'
    }
    cancelled_by = base.Stage.END_BEGINS

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        work = super().begin(lease, event, now)
        if work.skip_reason is None and (lease.has_started(now) or now >= lease.end_date):
            return EventWork(lease, skip_reason='There is nothing to start any more.')
        return work

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status_reason=transitions.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        if after.status != _L.PENDING:
            return event
        if after.start_policy == states.StartPolicy.AUTO:
            return _with_type(event, model.START, after, now)
        return _move_with_start(
            event, before, after, now, was_skipped=event.status_reason is not None
        )


def _with_type(event: Event, event_type: str, lease: Lease, now: datetime) -> Event:
    """Return the event with another type, due at the start of the lease."""
    due = transitions.repeat_event(event, lease.start_date, now)
    return dataclasses.replace(due, event_type=event_type)


def _move_with_start(
    event: Event, before: Lease, after: Lease, now: datetime, was_skipped: bool
) -> Event:
    """Move a start with its lease.

    :param was_skipped: whether a done event was skipped because the lease had ended. It is due now
        if the new end is later
    """
    is_pending = any(r.status == _R.PENDING for r in after.reservations)
    if is_pending and was_skipped and not event.open and now < after.end_date:
        return transitions.reschedule_event(event, now, now)
    if before.start_date == after.start_date:
        return event
    return transitions.move_event(event, after.start_date, now)
