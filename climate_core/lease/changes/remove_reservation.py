# SPDX-License-Identifier: Apache-2.0
"""Remove a resource from a lease that goes on. Pure."""

import dataclasses
from datetime import datetime

from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.changes import wait
from climate_core.lease.events import prepare
from climate_core.lease.results import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus


def apply(lease: model.Lease, reservation_id: str, now: datetime) -> Change:
    """Return a lease one of whose resources is to be freed; its end action is done.

    :raises climate_core.exceptions.ReservationNotFound: it does not have it any more
    :raises climate_core.exceptions.InvalidState: the lease is ending
    """
    reservation = lease.get_reservation(reservation_id)
    if not reservation.live:
        raise model.reservation_not_found(lease.id, reservation_id)
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: all that it holds is being freed.'
        )
    if reservation.status == _R.DELETING:
        return Change(lease)
    if lease.status == _L.IN_PROGRESS or lease.preempted_at is not None:
        wait.check_not_given_up(lease)
    after = lease.with_reservations(
        dataclasses.replace(reservation, status=_R.DELETING, updated_at=now)
    )
    after = after.with_events(_due_now(lease, reservation, now))
    if lease.status == _L.WAITING:
        after = wait.try_now(after, now)
    after = prepare.cancel(after, [reservation], 'It is taken out of the lease.', now)
    start = lease.event(model.START)
    has_started = lease.status != _L.PENDING and lease.has_started(now)
    if has_started and start is not None and start.status == _E.UNDONE:
        # The start may have waited for this resource only.
        after = after.with_events(schedule.reschedule(start, now, now))
    return Change(after, {'lease.update': None})


def _due_now(lease: model.Lease, reservation: model.Reservation, now: datetime) -> model.Event:
    """Return the event that ends a reservation: that of its early end, if it has one."""
    early = lease.events_of(model.END_RESERVATION, reservation_id=reservation.id)
    for each in early:
        if each.open:
            return schedule.move_event(each, now, now)
    return model.new_event(lease.id, model.END_RESERVATION, now, now, reservation.id)
