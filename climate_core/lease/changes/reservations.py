# SPDX-License-Identifier: Apache-2.0
"""Add resources to a lease, change them, and remove them. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from climate_core import exceptions
from climate_core.lease import model, states, transitions
from climate_core.lease.changes import queueing
from climate_core.lease.events import start as events_start
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.transitions import Change


def add_reservations(
    lease: Lease,
    reservations: Sequence[Reservation],
    now: datetime,
    preparing: Mapping[str, timedelta | None] | None = None,
) -> Change:
    """Return a lease with more reservations; if it has started, they are woken at once.

    A lease in ERROR takes more as well: what failed does not keep the others from being woken.

    :param preparing: those that are to be prepared, see :func:`.events.prepare.add`
    :returns: the lease as it is if nothing joins it
    :raises climate_core.exceptions.InvalidState: it is over, or about to be, or waits
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
    return Change(
        events_start.add_preparations(after, preparing or {}, now), {'lease.update': None}
    )


_ENDED = (states.ReservationStatus.DELETING, states.ReservationStatus.DELETED)


def change_reservation(
    lease: Lease, reservation_id: str, params: Mapping[str, Any], now: datetime
) -> Change:
    """Return a lease one of whose reservations has other params.

    :param params: only what the plugin lets change
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
    if lease.status == states.LeaseStatus.WAITING:
        after = queueing.retry_now(after, now)
    return Change(after, {'lease.update': None})


_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus


def remove_reservation(lease: model.Lease, reservation_id: str, now: datetime) -> Change:
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
        queueing.check_changeable(lease)
    after = lease.with_reservations(
        dataclasses.replace(reservation, status=_R.DELETING, updated_at=now)
    )
    after = after.with_events(_end_reservation_now(lease, reservation, now))
    if lease.status == _L.WAITING:
        after = queueing.retry_now(after, now)
    after = events_start.cancel_preparations(
        after, [reservation], 'It is taken out of the lease.', now
    )
    start = lease.event(model.START)
    has_started = lease.status != _L.PENDING and lease.has_started(now)
    if has_started and start is not None and start.status == _E.UNDONE:
        # The start may have waited for this resource only.
        after = after.with_events(transitions.reschedule_event(start, now, now))
    return Change(after, {'lease.update': None})


def _end_reservation_now(
    lease: model.Lease, reservation: model.Reservation, now: datetime
) -> model.Event:
    """Return the event that ends a reservation: that of its early end, if it has one."""
    early = lease.events_of(model.END_RESERVATION, reservation_id=reservation.id)
    for each in early:
        if each.open:
            return transitions.move_event(each, now, now)
    return model.new_event(lease.id, model.END_RESERVATION, now, now, reservation.id)
