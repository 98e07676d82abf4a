# SPDX-License-Identifier: Apache-2.0
"""Record that resources of a lease were deleted outside of the lease. Pure."""

import dataclasses
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from climate_core.lease import events, results, states
from climate_core.lease.events import end, prepare
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.results import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
#: How late the notifications about members of a stack may come after the lease freed it.
_LATE = timedelta(hours=1)
_BY_STACK = 'It was deleted, by its stack or by hand.'


def find(lease: Lease, ids: Collection[str]) -> list[Reservation]:
    """Return those of the reservations whose resource is gone that have lost it.

    What is being taken out of the lease, or could not be prepared, is not lost: its own event
    finds it gone.
    """
    leaving = prepare.unprepared(lease)
    gone = (each for each in lease.live if each.id in ids and each.id not in leaving)
    return [each for each in gone if each.status != _R.DELETING]


def apply(lease: Lease, reasons: Mapping[str, str], now: datetime) -> Change:
    """Return a lease whose resources went away without it.

    Only what :func:`find` returns is lost. And what belongs to another resource of the lease, as a
    server to its stack, is that one's business: its user may have updated it so that it has less.

    :param reasons: reservation id -> what happened to its resource
    """
    lost = [
        _gone(r, None if _belongs(lease, r, now) else reasons[r.id], now)
        for r in find(lease, reasons.keys())
    ]
    if not lost:
        return Change(lease)
    after = lease.with_reservations(*lost)
    told = results.summarize_errors(lost)
    if after.live:
        return Change(
            _going_on(lease, after, prepare.unprepared(lease), now), {'lease.update': told}
        )
    # A service that counts the time from start to end must hear of an end that comes early, too.
    notifications = {'lease.update': told, end.DONE: told}
    if lease.status == _L.DELETING:
        notifications = {end.DONE: told, 'lease.delete': told}
    after = events.terminate(dataclasses.replace(after, degraded=True), now, told)
    return Change(after, notifications)


def _going_on(before: Lease, after: Lease, leaving: Collection[str], now: datetime) -> Lease:
    """Return a lease that has something left."""
    status = results.recovered_status(after, now)
    known = {r.id for r in before.reservations if r.missing_resources}
    lost = {r.id for r in after.reservations if r.missing_resources} - known
    if lost:
        reason = results.summarize_errors(
            r for r in after.reservations if r.id in lost | set(leaving)
        )
        return dataclasses.replace(after, status=status, status_reason=reason, degraded=True)
    if status == after.status:
        return after
    return dataclasses.replace(after, status=status, status_reason=results.permanent_errors(after))


def _belongs(lease: Lease, reservation: Reservation, now: datetime) -> bool:
    """Tell whether a resource is a part of another one that is held or was freed lately."""
    parent_id = reservation.parent_id
    return any(
        r.live or (r.freed_at and not r.missing_resources and now - r.freed_at < _LATE)
        for r in lease.reservations
        if parent_id and r.resource_id == parent_id
    )


def _gone(reservation: Reservation, reason: str | None, now: datetime) -> Reservation:
    """Return a reservation whose resource is gone; without a reason, with what it belongs to."""
    return dataclasses.replace(
        reservation,
        status=_R.DELETED,
        status_reason=reason or _BY_STACK,
        missing_resources=reason is not None,
        updated_at=now,
        freed_at=now,
    )
