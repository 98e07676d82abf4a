# SPDX-License-Identifier: Apache-2.0
"""The events of the start: ``start_lease`` and ``ready_to_start``. Pure."""

import dataclasses
from datetime import datetime
from typing import Final

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import model, states, transitions
from climate_core.lease.events import base, preparation
from climate_core.lease.model import Event, Lease
from climate_core.lease.transitions import Change, EventWork, Outcome, Result

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
STARTED: Final = 'lease.event.start_lease'
START_FAILED: Final = 'lease.event.start_lease.error'
START_WARNING: Final = 'lease.event.start_lease.warning'
#: The reason to skip a start.
TOO_LATE: Final = 'The lease ended before it could be started.'
#: A resource reports its creation. It is polled as well, because the report may be lost.
_WHILE_CREATED: Final = Outcome(Result.WAIT, 60.0)


def start_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease whose start is due now.

    :raises climate_core.exceptions.InvalidState: it starts by itself, or cannot start now
    """
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(
            f'Lease {lease.id} starts by itself at {dates.sentence(lease.start_date)}: only one '
            'whose start_policy is manual is started by its user.'
        )
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is over and cannot be started. Make another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waits until there is enough for it and cannot be started before.'
        )
    transitions.check_changeable(lease)
    if lease.has_started(now):
        return Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.sentence(lease.start_date)}. '
            'Move its start_date if it shall be earlier.'
        )
    after = lease.moved_to(_L.STARTING, None) if lease.status == _L.PENDING else lease
    ready = lease.events_of(model.READY)
    after = transitions.cancel_events(after, ready, 'Its user started the lease.', now)
    start = lease.event(model.START)
    new = model.new_event(lease.id, model.START, now, now)
    due = new if start is None else transitions.reschedule_event(start, now, now)
    return Change(after.with_events(due), {'lease.update': None})


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
        held = preparation.blocks_start(lease)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING and r.id not in held)
        # The wake-up does what is not prepared yet.
        return EventWork(
            preparation.cancel_preparations(lease, todo, preparation.START_FIRST, now), todo
        )

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            # The last reason stays until its resource is active.
            failing = [r for r in waiting if r.status_reason is not None][:1]
            reason = transitions.summarize_errors(failing) or transitions.permanent_errors(after)
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
