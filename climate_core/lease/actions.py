# SPDX-License-Identifier: Apache-2.0
"""What a user does with a lease as a whole, or with one reservation of it. Pure.

As in :mod:`climate_core.lease.plan`, each takes a lease as it is and gives what it shall be. Doing
the same once more changes nothing, so that a request whose answer was lost can be repeated.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from climate_core import exceptions
from climate_core.lease import dates, model, plan, states, steps

_L, _R = states.LeaseStatus, states.ReservationStatus
_UPDATE = 'lease.update'


def start(lease: model.Lease, now: datetime.datetime) -> plan.Change:
    """Start a lease that waits for its user.

    :raises climate_core.exceptions.InvalidState: it starts by itself, or it is not the time
    """
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(f'Lease {lease.id} starts by itself.')
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(f'Lease {lease.id} is over and cannot be started.')
    if plan.begun(lease, now):
        return plan.Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.show(lease.start_date)} (UTC). '
            'Move its start if it shall be earlier.'
        )
    started = lease
    if lease.status == _L.PENDING:
        status = states.check(states.LEASE, lease.status, _L.STARTING)
        started = dataclasses.replace(lease, status=status, status_reason=None)
    ready = [e for e in lease.events if e.event_type == model.READY]
    closed = [plan.close(e, 'Its user started the lease.', now) for e in ready]
    event = lease.event(model.START)
    event = plan.rearm(event, now, now) if event else _new(lease, model.START, now)
    return plan.Change(plan.with_events(started, *closed, event), {_UPDATE: None})


def end(lease: model.Lease, now: datetime.datetime) -> plan.Change:
    """End a lease now, and free what it holds; before its start that is to cancel it.

    The lease keeps its dates if it is cancelled; otherwise it ends now. What was to happen to it
    until its end does not happen any more. One that is ending already is left as it is.
    """
    if lease.status in states.ENDING:
        return plan.Change(lease)
    begun = now > lease.start_date
    after = _until(lease, now) if begun else lease
    why = 'Its user ended the lease.' if begun else steps.CANCELLED
    closed = [
        plan.close(e, why, now)
        for e in after.events
        if e.event_type != model.END and e.event_type not in model.AFTERWARDS
    ]
    after = plan.with_events(after, *closed)
    if not lease.live:
        notices = {_UPDATE: None, 'lease.event.end_lease': None}
        return plan.Change(plan.over(after, now, steps.ended(after)), notices)
    ending = dataclasses.replace(
        after,
        status=states.check(states.LEASE, lease.status, _L.TERMINATING),
        status_reason=steps.ended(after),
    )
    return plan.Change(plan.with_events(ending, plan.end_now(ending, now)), {_UPDATE: None})


def _until(lease: model.Lease, now: datetime.datetime) -> model.Lease:
    """Have a lease end now, unless its end is past."""
    until = min(lease.end_date, now)
    before_end = lease.before_end_date
    after = dataclasses.replace(
        lease,
        end_date=until,
        before_end_date=None if before_end is None else min(before_end, until),
    )
    event = lease.event(model.END)
    moved = [] if event is None else [dataclasses.replace(event, time=until)]
    return plan.with_events(after, *moved)


def find(lease: model.Lease, reservation_id: str) -> model.Reservation:
    """Return a reservation of a lease, also one that holds nothing any more.

    :raises climate_core.exceptions.ReservationNotFound: there is none with this id
    """
    found = next((r for r in lease.reservations if r.id == reservation_id), None)
    if found is None:
        raise _not_found(lease, reservation_id)
    return found


def _not_found(lease: model.Lease, reservation_id: str) -> exceptions.ReservationNotFound:
    return exceptions.ReservationNotFound(f'Lease {lease.id} has no reservation {reservation_id}.')


def remove(lease: model.Lease, reservation_id: str, now: datetime.datetime) -> plan.Change:
    """Take a resource out of a lease that goes on; its end action is done.

    :raises climate_core.exceptions.ReservationNotFound: it does not have it any more
    :raises climate_core.exceptions.InvalidState: the lease is ending
    """
    reservation = find(lease, reservation_id)
    if not reservation.live:
        raise _not_found(lease, reservation_id)
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: all that it holds is being freed.'
        )
    if reservation.status == _R.DELETING:
        return plan.Change(lease)
    status = states.check(states.RESERVATION, reservation.status, _R.DELETING)
    after = _with(lease, dataclasses.replace(reservation, status=status, updated_at=now))
    events = [_new(lease, model.END_RESERVATION, now, reservation.id)]
    events += [
        plan.close(e, 'It is taken out of the lease.', now)
        for e in lease.events
        if e.event_type == model.PREPARE and e.reservation_id == reservation.id
    ]
    begun = lease.status != _L.PENDING and plan.begun(lease, now)
    start = lease.event(model.START)
    if begun and start and start.status == states.EventStatus.UNDONE:
        # The start may have waited for nothing but this one.
        events.append(plan.rearm(start, now, now))
    return plan.Change(plan.with_events(after, *events), {_UPDATE: None})


def change(
    lease: model.Lease, reservation_id: str, params: Mapping[str, Any], now: datetime.datetime
) -> plan.Change:
    """Change what a plugin keeps with a reservation.

    :param params: only what the plugin lets change
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.InvalidState: its end has begun
    """
    reservation = find(lease, reservation_id)
    if reservation.params == {**reservation.params, **params}:
        return plan.Change(lease)
    if lease.status in states.ENDING or reservation.status in (_R.DELETING, _R.DELETED):
        raise exceptions.InvalidState(
            f'The end of reservation {reservation_id} has begun: it cannot be changed any more.'
        )
    changed = dataclasses.replace(
        reservation, params={**reservation.params, **params}, updated_at=now
    )
    return plan.Change(_with(lease, changed), {_UPDATE: None})


def _with(lease: model.Lease, reservation: model.Reservation) -> model.Lease:
    changed = (reservation if r.id == reservation.id else r for r in lease.reservations)
    return dataclasses.replace(lease, reservations=tuple(changed))


def _new(
    lease: model.Lease, event_type: str, now: datetime.datetime, reservation_id: str | None = None
) -> model.Event:
    return plan.new_event(lease.id, event_type, now, now, reservation_id)
