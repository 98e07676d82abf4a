# SPDX-License-Identifier: Apache-2.0
"""The events of the start, those of a lease that is running, and those that only notify. Pure.

``start_lease`` starts the resources. ``reallocate_reservation`` lets a resource of an active lease
follow its allocations: the lease gets more hosts, or other hosts for failed hosts.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import model, states, transitions
from climate_core.lease.events import preparation
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import (
    Change,
    EndStage,
    EventHandler,
    EventWork,
    Outcome,
    Outcomes,
    Result,
)

#: The notification that the end was moved after ``before_end_lease``.
END_MOVED: Final = f'lease.event.{model.BEFORE_END}.stop'


class Notice(EventHandler):
    """Handle an event that only notifies."""

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        return EventWork(
            lease, skip_reason=None if lease.deleted_at is None else 'The lease is deleted.'
        )

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        after = lease.with_events(transitions.complete_event(event, None, now))
        return Change(after, {f'lease.event.{event.event_type}': None})


class BeforeStart(Notice):
    event_type = model.BEFORE_START
    follows_grant = True
    due = 'the seconds before the start that the operator and ``before_start`` of the lease set'
    action = 'notifies'
    notifications = {
        'lease.event.before_start_lease': (
            'its start is near: once for every time that the operator and the lease set'
        )
    }

    def payload(self, lease: Lease, now: datetime) -> Mapping[str, int]:
        return {'starts_in': max(0, round((lease.start_date - now).total_seconds()))}


class ReadyToStart(Notice):
    event_type = model.READY
    follows_grant = True
    due = '``start_date``, if ``start_policy`` is ``manual``'
    action = 'notifies; the lease waits for its user to start it'
    notifications = {
        'lease.event.ready_to_start': (
            'its start date has passed, and its user has not started it yet'
        )
    }
    cancelled_by = EndStage.END_BEGINS

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        work = super().begin(lease, event, now)
        if work.skip_reason is None and (lease.has_started(now) or now >= lease.end_date):
            return EventWork(lease, skip_reason='There is nothing to start any more.')
        return work

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        if lease.status == states.LeaseStatus.PENDING:
            lease = dataclasses.replace(lease, status_reason=transitions.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)


class BeforeEnd(Notice):
    event_type = model.BEFORE_END
    follows_grant = True
    due = '``before_end_date`` of the lease'
    action = 'notifies'
    notifications = {
        'lease.event.before_end_lease': 'its end is near',
        END_MOVED: 'it was extended after ``before_end_lease``, which no longer applies',
    }
    # Clients of Blazar send it with a new lease.
    users_may_add = True


class UserEvent(Notice):
    """Handle an event that a user adds to a lease, with a type that the user names."""

    event_type = transitions.USER_EVENT
    due = 'at the time that the user sets'
    action = 'notifies'
    notifications = {'lease.event.<name>': 'an event that the user added is due'}
    users_may_add = True


_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
STARTED: Final = 'lease.event.start_lease'
START_FAILED: Final = 'lease.event.start_lease.error'
START_WARNING: Final = 'lease.event.start_lease.warning'
#: The beginning of the reason of a lease whose start will fail.
START_WILL_FAIL: Final = 'The start will fail: '
#: The reason when the start will not fail any more.
TRUST_ACCEPTED: Final = 'Keystone accepts the trust of the owner again.'
#: The reason to skip a start.
TOO_LATE: Final = 'The lease ended before it could be started.'
#: A resource reports its creation. It is polled as well, because the report may be lost.
_WHILE_CREATED: Final = Outcome(Result.WAIT, 60.0)


def start_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease whose start is due now.

    :raises climate_core.exceptions.InvalidState: it starts automatically, or cannot start now
    """
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(
            f'Lease {lease.id} starts automatically at {dates.sentence(lease.start_date)}: only '
            'a lease with start_policy manual can be started by its user.'
        )
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} has ended and cannot be started. Create another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is queued until capacity is sufficient and cannot be started '
            'before.'
        )
    transitions.check_changeable(lease)
    if lease.has_started(now):
        return Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.sentence(lease.start_date)}. '
            'Set an earlier start_date to start it earlier.'
        )
    after = lease.moved_to(_L.STARTING, None) if lease.status == _L.PENDING else lease
    ready = lease.events_of(model.READY)
    after = transitions.cancel_events(after, ready, 'Its user started the lease.', now)
    start = lease.event(model.START)
    new = model.new_event(lease.id, model.START, now, now)
    due = new if start is None else transitions.reschedule_event(start, now, now)
    return Change(after.with_events(due), {'lease.update': None})


def record_start_warning(lease: Lease, reason: str | None) -> Change:
    """Return a lease with a warning that its start will fail, which is notified once.

    The start is tried in any case, and reports its own result.

    :param reason: a sentence; None: the start will not fail
    """
    waits = any(e.status == _E.UNDONE for e in lease.events_of(model.START))
    has_warning = START_WILL_FAIL in (lease.status_reason or '')
    is_over = lease.status != _L.PENDING or lease.deleted_at is not None
    if is_over or not waits or has_warning == (reason is not None):
        return Change(lease)
    known = transitions.summarize_permanent_errors(lease)
    if reason is None:
        after = dataclasses.replace(lease, status_reason=known)
        return Change(after, {'lease.update': TRUST_ACCEPTED})
    warning = START_WILL_FAIL + reason
    after = dataclasses.replace(lease, status_reason=f'{warning} {known}' if known else warning)
    return Change(after, {START_WARNING: warning})


class StartLease(EventHandler):
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
    cancelled_by = EndStage.END_BEGINS
    plugin_methods = ('start',)
    done_status = _R.ACTIVE
    done_when_active = True
    ascending = True
    until_end = True
    # A bug is not transient: the start fails immediately, and the user is notified.
    bug_is_permanent = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status in states.ENDING or lease.deleted_at is not None:
            return EventWork(lease, skip_reason='The lease has ended.')
        if now >= lease.end_date:
            return EventWork(lease, skip_reason=TOO_LATE)
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status=_L.STARTING)
        held = preparation.blocks_start(lease)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING and r.id not in held)
        # The wake-up does what is not prepared yet.
        return EventWork(
            preparation.cancel_preparations(lease, todo, preparation.START_FIRST, now), todo
        )

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            # The last reason stays until its resource is active.
            failing = [r for r in waiting if r.status_reason is not None][:1]
            reason = transitions.summarize_errors(
                failing
            ) or transitions.summarize_permanent_errors(after)
            after = dataclasses.replace(after, status_reason=reason)
            later = dict.fromkeys(preparation.blocks_start(after), _WHILE_CREATED)
            outcomes = {**later, **outcomes}
            return Change(transitions.poll_again(after, event, waiting, outcomes, now))
        failed = [r for r in after.reservations if r.status == _R.ERROR]
        if failed:
            reason = transitions.summarize_errors(failed)
            after = after.moved_to(_L.ERROR, reason)
            event = transitions.complete_event(event, reason, now, _E.ERROR)
            return Change(after.with_events(event), {START_FAILED: reason})
        after = after.moved_to(_L.ACTIVE, transitions.summarize_permanent_errors(after))
        after = dataclasses.replace(after, retries_left=None, duration=None)
        return Change(
            after.with_events(transitions.complete_event(event, None, now)), {STARTED: None}
        )

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Notify that the lease was never started, unless its user ended it."""
        after = lease.with_events(transitions.complete_event(event, reason, now, _E.ERROR))
        by_user = lease.status in states.ENDING or lease.deleted_at is not None
        return Change(after, {} if by_user else {START_FAILED: reason})


class ReallocateReservation(EventHandler):
    event_type = model.REALLOCATE
    due = 'when the allocations of a resource of an active lease change'
    action = 'starts new allocations, and releases old ones'
    on_failure = (
        'retried until shortly before the end of the lease; after a permanent failure the lease '
        'continues with the reason'
    )
    notifications = {'lease.update': 'something that was added cannot be started'}
    priority = 2
    hidden = True
    cancelled_by = EndStage.END_BEGINS
    plugin_methods = ('reallocate',)
    done_status = _R.ACTIVE
    until_end = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        todo = _startable(lease, event)
        if not todo or lease.status in states.ENDING or now >= lease.end_date:
            return EventWork(
                lease, skip_reason='Its resource does not exist, or is freed with the lease.'
            )
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        ours = next(iter(_startable(lease, event)), None)
        if ours is None:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        outcome = outcomes[ours.id]
        after = lease.with_reservations(transitions.with_progress(ours, outcome))
        after = after.with_events(transitions.settle_event(event, outcome, now))
        # The event of the start reports what it waits for.
        if lease.status == _L.ACTIVE:
            after = dataclasses.replace(after, status_reason=_reason_after(lease, ours, outcome))
        failed = outcome.result is Result.FAILED
        return Change(after, {'lease.update': outcome.reason} if failed else {})


def add_reallocations(
    lease: Lease, reservation_ids: Iterable[str], now: datetime, time: datetime | None = None
) -> Lease:
    """Add events by which reservations of an active lease follow the calendar.

    An event that is in progress is repeated: it may have read the allocations before they changed.

    :param time: when; None: now
    """
    time = time or now
    events = []
    for reservation_id in reservation_ids:
        present = lease.events_of(model.REALLOCATE, reservation_id=reservation_id)
        if present:
            events.append(transitions.repeat_event(present[0], time, now))
        else:
            new = model.new_event(lease.id, model.REALLOCATE, time, now, reservation_id)
            events.append(new)
    return lease.with_events(*events)


def _startable(lease: Lease, event: Event) -> tuple[Reservation, ...]:
    """Return the reservation of an event if it is active or starting."""
    statuses = (_R.PENDING, _R.ACTIVE)
    return tuple(
        r for r in lease.reservations if r.id == event.reservation_id and r.status in statuses
    )


def _reason_after(lease: Lease, reservation: Reservation, outcome: Outcome) -> str | None:
    """Return the reason of a lease; the last reason stays while the work continues."""
    if outcome.result is Result.DONE:
        return transitions.summarize_permanent_errors(lease)
    if outcome.reason is None:
        return lease.status_reason
    failing = dataclasses.replace(reservation, status_reason=outcome.reason)
    reasons = [
        transitions.summarize_permanent_errors(lease),
        transitions.summarize_errors([failing]),
    ]
    return '; '.join(filter(None, reasons))
