# SPDX-License-Identifier: Apache-2.0
"""Add resources to a lease, change them, and remove them. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from climate_core import exceptions
from climate_core.lease import model, states, transitions
from climate_core.lease.changes import queueing
from climate_core.lease.events.start import add_preparations, cancel_preparations
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
_ENDED = (_R.DELETING, _R.DELETED)


def add_reservations(
    lease: Lease,
    reservations: Sequence[Reservation],
    now: datetime,
    preparing: Mapping[str, timedelta | None] | None = None,
) -> Change:
    """Return a lease with more reservations; if it has started, they start immediately.

    A lease in ERROR accepts reservations: what failed does not prevent the start of the rest.

    :param preparing: the reservations to prepare, see :func:`.events.start.add_preparations`
    :returns: the lease as it is if there are no reservations
    :raises climate_core.exceptions.InvalidState: it has ended, is ending, or is queued
    """
    if not reservations:
        return Change(lease)
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: nothing can be added to it. Make another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waits until there is enough for it: nothing can be added to it '
            'before. Make another lease.'
        )
    queueing.check_changeable(lease)
    joining = model.order_joining(lease.reservations, reservations)
    after = dataclasses.replace(lease, reservations=(*lease.reservations, *joining))
    start = lease.event(model.START)
    if start is not None and not start.open:
        after = after.with_events(transitions.reschedule_event(start, now, now))
    return Change(add_preparations(after, preparing or {}, now), {'lease.update': None})


def change_reservation(
    lease: Lease, reservation_id: str, params: Mapping[str, Any], now: datetime
) -> Change:
    """Return a lease with other params of a reservation.

    :param params: the params that change; the plugin allows it
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.InvalidState: its end has begun
    """
    reservation = lease.get_reservation(reservation_id)
    new = {**reservation.params, **params}
    if reservation.params == new:
        return Change(lease)
    if lease.status in states.ENDING or reservation.status in _ENDED:
        raise exceptions.InvalidState(
            f'The end of reservation {reservation_id} has begun: it can only be changed before.'
        )
    queueing.check_changeable(lease)
    changed = dataclasses.replace(reservation, params=new, updated_at=now)
    after = lease.with_reservations(changed)
    if lease.status == _L.WAITING:
        after = queueing.retry_now(after, now)
    return Change(after, {'lease.update': None})


def remove_reservation(lease: Lease, reservation_id: str, now: datetime) -> Change:
    """Return a lease without one of its resources, whose end action is done.

    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it any more
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
        queueing.check_changeable(lease)
    after = lease.with_reservations(
        dataclasses.replace(reservation, status=_R.DELETING, updated_at=now)
    )
    after = after.with_events(_end_reservation_now(lease, reservation, now))
    if lease.status == _L.WAITING:
        after = queueing.retry_now(after, now)
    reason = 'It is taken out of the lease.'
    after = cancel_preparations(after, [reservation], reason, now)
    start = lease.event(model.START)
    has_started = lease.status != _L.PENDING and lease.has_started(now)
    if has_started and start is not None and start.status == _E.UNDONE:
        # The start may have waited only for this resource.
        after = after.with_events(transitions.reschedule_event(start, now, now))
    return Change(after, {'lease.update': None})


def _end_reservation_now(lease: Lease, reservation: Reservation, now: datetime) -> Event:
    """Return the event that ends a reservation; an early end of it is moved."""
    for event in lease.events_of(model.END_RESERVATION, reservation_id=reservation.id):
        if event.open:
            return transitions.move_event(event, now, now)
    return model.new_event(lease.id, model.END_RESERVATION, now, now, reservation.id)
