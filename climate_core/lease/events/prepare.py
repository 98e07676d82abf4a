# SPDX-License-Identifier: Apache-2.0
"""``prepare_reservation``: does what a resource needs as soon as its reservation is written.

What is made for a lease, as a stack from a template, is to hold its capacity from then on. What
cannot be held is freed again, and the lease is in ERROR until its user takes it out.
"""

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Final

from climate_core.lease import model, results, schedule, states
from climate_core.lease.events import base
from climate_core.lease.results import Change, Outcome, Result, Work

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus

#: Why nothing is prepared any more.
START_FIRST: Final = 'The start came first.'


class PrepareReservation(base.EventHandler):
    event_type = model.PREPARE
    due = 'when a reservation is written that needs it, before the start'
    action = 'fills a stack; frees it if it cannot be filled'
    on_failure = (
        'retried until the start; a permanent failure puts the reservation and the lease in error '
        'and frees the resource, which is retried for ever'
    )
    notifications = {'lease.update': 'a resource cannot be prepared'}
    priority = 2
    hidden = True
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('prepare', 'rollback_prepare')

    def begin(self, lease: model.Lease, event: model.Event, now: datetime.datetime) -> Work:
        """Work on a reservation: prepare it, or free what failed."""
        todo = tuple(
            r
            for r in lease.live
            if r.id == event.reservation_id and r.status in (_R.PENDING, _R.ERROR)
        )
        if not todo or lease.status in states.ENDING:
            return Work(lease, skip_reason='Its resource is gone, or freed with the lease.')
        return Work(lease, todo)

    def settle(
        self,
        lease: model.Lease,
        event: model.Event,
        outcomes: base.Outcomes,
        now: datetime.datetime,
    ) -> Change:
        """Return what a lease is after the work on one reservation before its start.

        What cannot be prepared is in ERROR first and freed then, so that any manager that goes
        on with it knows why it is gone.
        """
        ours = next((r for r in lease.live if r.id in outcomes), None)
        if ours is None or ours.status not in (_R.PENDING, _R.ERROR):
            return Change(lease.with_events(results.complete(event, None, now)))
        outcome = outcomes[ours.id]
        ours = results.with_progress(ours, outcome)
        lease = lease.with_reservations(ours)
        if ours.status == _R.PENDING:
            return _settle_pending(lease, event, ours, outcome, now)
        if outcome.result is Result.DONE:
            event = results.complete(event, ours.status_reason, now, _E.ERROR)
        else:
            event = results.reschedule(event, [outcome], now)
        return Change(lease.with_events(event))

    def plugin_method(self, lease: model.Lease, reservation: model.Reservation) -> str:
        prepare, rollback = self.plugin_methods
        return rollback if reservation.id in unprepared(lease) else prepare

    def retries_forever(self, lease: model.Lease, event: model.Event) -> bool:
        """Tell whether it frees what it could not prepare."""
        return event.reservation_id in unprepared(lease)


def _settle_pending(
    lease: model.Lease,
    event: model.Event,
    reservation: model.Reservation,
    outcome: Outcome,
    now: datetime.datetime,
) -> Change:
    if outcome.result is Result.FAILED:
        return _fail(lease, event, reservation, outcome, now)
    after = _with_reason(lease, reservation, outcome, now)
    if after is not lease:
        after = dataclasses.replace(after, status_reason=_reason(after))
    if outcome.result is Result.DONE:
        event = results.complete(event, None, now)
    else:
        event = results.reschedule(event, [outcome], now)
    return Change(after.with_events(event))


def _fail(
    lease: model.Lease,
    event: model.Event,
    reservation: model.Reservation,
    outcome: Outcome,
    now: datetime.datetime,
) -> Change:
    status = states.check(states.RESERVATION, reservation.status, _R.ERROR)
    after = _with_reason(lease, dataclasses.replace(reservation, status=status), outcome, now)
    reason = _reason(after)
    status = states.check(states.LEASE, lease.status, _L.ERROR)
    after = dataclasses.replace(after, status=status, status_reason=reason)
    rollback = schedule.reschedule(event, now, now)
    return Change(after.with_events(rollback), {'lease.update': reason})


def _with_reason(
    lease: model.Lease, reservation: model.Reservation, outcome: Outcome, now: datetime.datetime
) -> model.Lease:
    """Put a reservation into a lease with the reason of what became of it, if that has one."""
    kept = outcome.result is Result.WAIT and outcome.reason is None
    reason = reservation.status_reason if kept else outcome.reason
    new = dataclasses.replace(reservation, status_reason=reason)
    if new in lease.reservations:
        return lease
    return lease.with_reservations(dataclasses.replace(new, updated_at=now))


def _reason(lease: model.Lease) -> str | None:
    """Say what is wrong with a lease that has not begun."""
    troubled = (r for r in lease.live if r.status_reason is not None and r.status == _R.PENDING)
    told = [results.permanent_errors(lease), results.summarize_errors(troubled)]
    return '; '.join(each for each in told if each) or results.waits_for_user(lease)


def add(lease: model.Lease, reservation_ids: Iterable[str], now: datetime.datetime) -> model.Lease:
    """Have reservations prepared now; the start does it if that has begun."""
    if lease.has_started(now):
        return lease
    return lease.with_events(
        *(model.new_event(lease.id, model.PREPARE, now, now, each) for each in reservation_ids)
    )


def cancel(
    lease: model.Lease,
    reservations: Iterable[model.Reservation],
    reason: str,
    now: datetime.datetime,
) -> model.Lease:
    """Have reservations not be prepared any more."""
    return lease.with_events(
        *(
            schedule.cancel_event(event, reason, now)
            for each in reservations
            for event in lease.events_of(model.PREPARE, reservation_id=each.id)
        )
    )


def unprepared(lease: model.Lease) -> frozenset[str]:
    """Return the ids of the reservations whose resource was freed again, or is being so."""
    failed = {
        event.reservation_id
        for event in lease.events_of(model.PREPARE)
        if event.open or event.status == _E.ERROR
    }
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == _R.ERROR)


def was_broken_off(lease: model.Lease, reservation: model.Reservation) -> bool:
    """Tell whether a lease ended before a reservation was prepared, and before its start."""
    return any(
        event.status_reason not in (None, START_FIRST)
        for event in lease.events_of(model.PREPARE, reservation_id=reservation.id)
    )
