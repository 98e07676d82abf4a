# SPDX-License-Identifier: Apache-2.0
"""``start_lease``: wakes what the lease holds; ``ready_to_start`` waits for its user to do so."""

import dataclasses
from datetime import datetime
from typing import Final

from climate_core.lease import model, results, schedule, states
from climate_core.lease.events import base, notices, prepare
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, EventWork, Outcome, Result

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

DONE: Final = 'lease.event.start_lease'
FAILED: Final = 'lease.event.start_lease.error'
WARNING: Final = 'lease.event.start_lease.warning'
#: What is made for the lease tells when it is there; this is for when that is lost.
_WHILE_MADE: Final = Outcome(Result.WAIT, 60.0)
#: The reason to skip a start.
TOO_LATE: Final = 'The lease ended before it could be started.'


class StartLease(base.EventHandler):
    event_type = model.START
    follows_grant = True
    due = '``start_date``, or when the user starts the lease'
    action = 'wakes every pending resource, those of the lowest rank first'
    on_failure = (
        'retried until shortly before the end of the lease; a permanent failure or a bug puts '
        'the resource and the lease in error, the other resources go on'
    )
    notifications = {
        DONE: 'its start is done: everything runs',
        FAILED: 'something of it cannot be started, or was not started before its end',
        WARNING: 'it is known shortly before its start that this will fail',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('wake_up',)
    done_status = _R.ACTIVE
    done_when_awake = True
    ascending = True
    until_end = True
    # A bug does not pass by itself: the start fails at once, and the user knows.
    bug_is_permanent = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status in states.ENDING or lease.deleted_at is not None:
            return EventWork(lease, skip_reason='The lease is over.')
        if now >= lease.end_date:
            return EventWork(lease, skip_reason=TOO_LATE)
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status=_L.STARTING)
        held = prepare.holding_start(lease)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING and r.id not in held)
        # From now on what is not prepared yet is left to the wake-up.
        return EventWork(prepare.cancel(lease, todo, prepare.START_FIRST, now), todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = results.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            # The last reason stays until its resource is awake, also while that is on its way.
            troubled = [r for r in waiting if r.status_reason is not None][:1]
            reason = results.summarize_errors(troubled) or results.permanent_errors(after)
            after = dataclasses.replace(after, status_reason=reason)
            later = dict.fromkeys(prepare.holding_start(after), _WHILE_MADE)
            outcomes = {**later, **outcomes}
            return Change(schedule.look_again(after, event, waiting, outcomes, now))
        failed = [r for r in after.reservations if r.status == _R.ERROR]
        if failed:
            reason = results.summarize_errors(failed)
            after = after.moved_to(_L.ERROR, reason)
            event = schedule.complete(event, reason, now, _E.ERROR)
            return Change(after.with_events(event), {FAILED: reason})
        after = after.moved_to(_L.ACTIVE, results.permanent_errors(after))
        after = dataclasses.replace(after, retries_left=None, duration=None)
        return Change(after.with_events(schedule.complete(event, None, now)), {DONE: None})

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Notify that the lease was never started, unless its user gave it up."""
        after = lease.with_events(schedule.complete(event, reason, now, _E.ERROR))
        told = lease.status not in states.ENDING and lease.deleted_at is None
        return Change(after, {FAILED: reason} if told else {})

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        manual = after.start_policy == states.StartPolicy.MANUAL
        if after.status == _L.PENDING and manual:
            return _become(event, model.READY, after, now)
        return _follow(event, before, after, now, given_up=True)


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
            lease = dataclasses.replace(lease, status_reason=results.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        if after.status != _L.PENDING:
            return event
        if after.start_policy == states.StartPolicy.AUTO:
            return _become(event, model.START, after, now)
        return _follow(event, before, after, now, given_up=event.status_reason is not None)


def _become(event: Event, event_type: str, lease: Lease, now: datetime) -> Event:
    """Return the event as one of another type, due at the start of the lease."""
    due = schedule.reschedule(event, lease.start_date, now)
    return dataclasses.replace(due, event_type=event_type, time=lease.start_date)


def _follow(event: Event, before: Lease, after: Lease, now: datetime, given_up: bool) -> Event:
    """Move a start with its lease.

    :param given_up: whether an event that is done was given up because the lease was over. If it
        is not over any more, the event is due now
    """
    asleep = any(r.status == _R.PENDING for r in after.reservations)
    if asleep and given_up and not event.open and now < after.end_date:
        return schedule.reschedule(event, now, now)
    if before.start_date == after.start_date:
        return event
    return schedule.move_event(event, after.start_date, now)
