# SPDX-License-Identifier: Apache-2.0
"""Let a lease wait again that was granted, and for which servers found no room. Pure.

What there is room for on the hosts that everybody uses is only expected: others may be faster
between the grant and the request to Nova. Until all that was made is freed again its reservations
are in ERROR, and the lease is not granted.
"""

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease, Reservation

_L = states.LeaseStatus
_R = states.ReservationStatus

#: Until the next try; a forecast that errs always makes no servers without a pause.
PAUSE: Final = timedelta(seconds=60)
#: How often a lease is tried for which others give way, if it is not of a kind that waits.
TRIES: Final = 12


def without_grant(
    lease: Lease, due: Event, duration: timedelta | None, reservations: Iterable[Reservation]
) -> Lease:
    """Return a lease with one event in place of those that follow from its grant.

    :param duration: how long it lasts from when it is granted; None: until its end date
    """
    kept = tuple(e for e in lease.events if not base.of(e.event_type).follows_grant)
    if duration is not None:
        # When it ends is not known before it is granted.
        ends = lease.events_of(model.END)
        kept = tuple(each for each in kept if each not in ends)
    return dataclasses.replace(
        lease,
        duration=None if duration is None else round(duration.total_seconds()),
        reservations=tuple(reservations),
        events=(*(each for each in kept if each.id != due.id), due),
    )


def is_possible(lease: Lease, others_give_way: bool = False) -> bool:
    """Tell whether a lease may be tried again of which something finds no room.

    :param others_give_way: whether there will be room because preemptible leases give way
    """
    made = all(each.group and each.status != _R.ACTIVE for each in lease.live)
    is_granted = lease.status in (_L.PENDING, _L.STARTING)
    if not made or not is_granted or lease.preemptible:
        return False
    if lease.kind == states.LeaseKind.RETRY:
        return bool(lease.retries_left)
    return others_give_way and lease.retries_left != 0


def apply(lease: Lease, reason: str, now: datetime) -> Lease:
    """Return a lease that waits again, and frees what was made for it; that counts as a try."""
    failed = {
        each.id: dataclasses.replace(each, status=_R.ERROR, status_reason=reason, updated_at=now)
        for each in lease.live
        if each.status == _R.PENDING
    }
    preparations = lease.events_of(model.PREPARE)
    frees = (schedule.reschedule(e, now, now) for e in preparations if e.reservation_id in failed)
    tries = lease.events_of(model.RETRY)[:1]
    due = next(iter(tries), model.new_event(lease.id, model.RETRY, now + PAUSE, now))
    due = dataclasses.replace(schedule.reschedule(due, now + PAUSE, now), time=now + PAUSE)
    duration = None if lease.duration is None else timedelta(seconds=lease.duration)
    reservations = (failed.get(each.id, each) for each in lease.reservations)
    after = without_grant(lease, due, duration, reservations).moved_to(_L.WAITING, reason)
    left = TRIES if lease.retries_left is None else lease.retries_left
    after = dataclasses.replace(after, retries_left=left - 1)
    return after.with_events(*frees)


def unmade(reservation: Reservation, now: datetime) -> Reservation:
    """Return a reservation of which nothing is left as one that is to be made again."""
    return dataclasses.replace(
        reservation,
        status=states.check(states.RESERVATION, reservation.status, _R.PENDING),
        status_reason=None,
        resource_id=f'{model.UNMADE}{reservation.id}',
        amounts={},
        progress=None,
        updated_at=now,
    )


def is_freeing(lease: Lease) -> bool:
    """Tell whether a lease that waits has not freed yet what was made for it before."""
    return any(each.status == _R.ERROR for each in lease.live)
