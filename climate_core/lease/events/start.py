# SPDX-License-Identifier: Apache-2.0
"""``start_lease``: wakes what the lease holds."""

import dataclasses
import datetime
from typing import Final

from climate_core.lease import model, results, schedule, states
from climate_core.lease.events import base, prepare
from climate_core.lease.results import Change, Outcome, Result, Work

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus

DONE: Final = 'lease.event.start_lease'
FAILED: Final = 'lease.event.start_lease.error'
#: Why there is no start any more.
TOO_LATE: Final = 'The lease ended before it could be started.'


class StartLease(base.EventHandler):
    event_type = model.START
    due = '``start_date``, or when the user starts the lease'
    action = 'wakes every pending resource, those of the lowest rank first'
    on_failure = (
        'retried until shortly before the end of the lease; a permanent failure or a bug puts '
        'the resource and the lease in error, the other resources go on'
    )
    notifications = {
        DONE: 'its start is done: everything runs',
        FAILED: 'something of it cannot be started, or was not started before its end',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('wake_up',)
    done_status = _R.ACTIVE
    ascending = True
    until_end = True
    # A bug does not pass by itself: the start fails at once, and the user knows.
    bug_is_permanent = True

    def begin(self, lease: model.Lease, event: model.Event, now: datetime.datetime) -> Work:
        if lease.status in states.ENDING or lease.deleted_at is not None:
            return Work(lease, skip_reason='The lease is over.')
        if now >= lease.end_date:
            return Work(lease, skip_reason=TOO_LATE)
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status=_L.STARTING)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING)
        # From now on what is not prepared yet is left to the wake-up.
        return Work(prepare.cancel(lease, todo, prepare.START_FIRST, now), todo)

    def settle(
        self,
        lease: model.Lease,
        event: model.Event,
        outcomes: base.Outcomes,
        now: datetime.datetime,
    ) -> Change:
        after = results.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            return _wait(after, event, waiting, outcomes, now)
        failed = [r for r in after.reservations if r.status == _R.ERROR]
        if failed:
            return _fail(after, event, results.summarize_errors(failed), now)
        after = dataclasses.replace(
            after,
            status=states.check(states.LEASE, after.status, _L.ACTIVE),
            status_reason=results.permanent_errors(after),
        )
        return Change(after.with_events(results.complete(event, None, now)), {DONE: None})

    def skip(
        self, lease: model.Lease, event: model.Event, reason: str, now: datetime.datetime
    ) -> Change:
        """Notify that the lease was never started, unless its user gave it up."""
        after = lease.with_events(results.complete(event, reason, now, _E.ERROR))
        told = lease.status not in states.ENDING and lease.deleted_at is None
        return Change(after, {FAILED: reason} if told else {})

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        manual = after.start_policy == states.StartPolicy.MANUAL
        if after.status == _L.PENDING and manual:
            return become(event, model.READY, after, now)
        return follow(event, before, after, now, given_up=True)


def _wait(
    lease: model.Lease,
    event: model.Event,
    waiting: list[model.Reservation],
    outcomes: base.Outcomes,
    now: datetime.datetime,
) -> Change:
    # One that joined meanwhile has no outcome: look again at once.
    todo = [outcomes.get(r.id, Outcome(Result.WAIT)) for r in waiting]
    # The last trouble is told until its resource is awake, also while that is on its way.
    troubled = [r for r in waiting if r.status_reason is not None][:1]
    reason = results.summarize_errors(troubled) or results.permanent_errors(lease)
    after = dataclasses.replace(lease, status_reason=reason)
    return Change(after.with_events(results.reschedule(event, todo, now)))


def _fail(lease: model.Lease, event: model.Event, reason: str, now: datetime.datetime) -> Change:
    status = states.check(states.LEASE, lease.status, _L.ERROR)
    after = dataclasses.replace(lease, status=status, status_reason=reason)
    return Change(
        after.with_events(results.complete(event, reason, now, _E.ERROR)), {FAILED: reason}
    )


def become(
    event: model.Event, event_type: str, lease: model.Lease, now: datetime.datetime
) -> model.Event:
    """Return the event as one of another type, due at the start of the lease."""
    due = schedule.reschedule(event, lease.start_date, now)
    return dataclasses.replace(due, event_type=event_type, time=lease.start_date)


def follow(
    event: model.Event,
    before: model.Lease,
    after: model.Lease,
    now: datetime.datetime,
    given_up: bool,
) -> model.Event:
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
