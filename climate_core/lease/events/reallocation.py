# SPDX-License-Identifier: Apache-2.0
"""``reallocate_reservation``: lets a resource of an active lease follow its allocations. Pure.

The lease gets more hosts, or others for those that failed. A failure leaves the rest of the lease
active.
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
    due = 'when the allocations of a resource of an active lease change'
    action = 'starts new allocations, and releases old ones'
    on_failure = (
        'retried until shortly before the end of the lease; after a permanent failure the lease '
        'continues with the reason'
    )
    notifications = {'lease.update': 'something that was added cannot be started'}
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
        return transitions.permanent_errors(lease)
    if outcome.reason is None:
        return lease.status_reason
    failing = dataclasses.replace(reservation, status_reason=outcome.reason)
    reasons = [transitions.permanent_errors(lease), transitions.summarize_errors([failing])]
    return '; '.join(filter(None, reasons))
