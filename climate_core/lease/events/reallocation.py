# SPDX-License-Identifier: Apache-2.0
"""``reallocate_reservation``: lets a resource follow what the calendar promises in its lease.

A lease that runs gets more hosts, or others for those that died. What fails leaves it as it is:
the rest of it runs.
"""

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from climate_core.lease import model, states, transitions
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome, Result

_L = states.LeaseStatus
_R = states.ReservationStatus


class ReallocateReservation(base.EventHandler):
    event_type = model.REALLOCATE
    due = 'when the calendar promises something else to a resource of a lease that runs'
    action = 'wakes what is new, and puts what was given up out of use'
    on_failure = (
        'retried until shortly before the end of the lease; after a permanent failure the lease '
        'goes on and says what is wrong'
    )
    notifications = {'lease.update': 'something that was added cannot be woken'}
    priority = 2
    hidden = True
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('reallocate',)
    done_status = _R.ACTIVE
    until_end = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        todo = _startable(lease, event)
        if not todo or lease.status in states.ENDING or now >= lease.end_date:
            return EventWork(lease, skip_reason='Its resource is gone, or freed with the lease.')
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        ours = next(iter(_startable(lease, event)), None)
        if ours is None:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        outcome = outcomes[ours.id]
        after = lease.with_reservations(transitions.with_progress(ours, outcome))
        after = after.with_events(transitions.settle_event(event, outcome, now))
        # What a start waits for is told by the start.
        if lease.status == _L.ACTIVE:
            after = dataclasses.replace(after, status_reason=_reason_after(lease, ours, outcome))
        failed = outcome.result is Result.FAILED
        return Change(after, {'lease.update': outcome.reason} if failed else {})


def add_reallocations(
    lease: Lease, reservation_ids: Iterable[str], now: datetime, time: datetime | None = None
) -> Lease:
    """Add events by which reservations of a lease that runs follow the calendar.

    One that does so already does it again: it may have looked at what was promised before.

    :param time: when; None: now
    """
    due = [_reallocate_at(lease, each, now, time or now) for each in reservation_ids]
    return lease.with_events(*due)


def _reallocate_at(lease: Lease, reservation_id: str, now: datetime, time: datetime) -> Event:
    for event in lease.events_of(model.REALLOCATE, reservation_id=reservation_id):
        return dataclasses.replace(transitions.reschedule_event(event, time, now), time=time)
    return model.new_event(lease.id, model.REALLOCATE, time, now, reservation_id)


def _startable(lease: Lease, event: Event) -> tuple[Reservation, ...]:
    """Return the reservation of an event if it is awake, or on its way."""
    statuses = (_R.PENDING, _R.ACTIVE)
    return tuple(
        r for r in lease.reservations if r.id == event.reservation_id and r.status in statuses
    )


def _reason_after(lease: Lease, reservation: Reservation, outcome: Outcome) -> str | None:
    """Return the reason of a lease; the last one stays while the work goes on."""
    if outcome.result is Result.DONE:
        return transitions.permanent_errors(lease)
    if outcome.reason is None:
        return lease.status_reason
    troubled = dataclasses.replace(reservation, status_reason=outcome.reason)
    told = [transitions.permanent_errors(lease), transitions.summarize_errors([troubled])]
    return '; '.join(each for each in told if each)
