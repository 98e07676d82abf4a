# SPDX-License-Identifier: Apache-2.0
"""Write down that resources of a lease went away without it. Pure."""

import dataclasses
import datetime
from collections.abc import Collection, Mapping

from climate_core.lease import events, model, results, states
from climate_core.lease.events import end, prepare
from climate_core.lease.results import Change

_L, _R = states.LeaseStatus, states.ReservationStatus
#: How late it may be told what became of the members of a stack that the lease has freed.
_LATE = datetime.timedelta(hours=1)


def apply(lease: model.Lease, reasons: Mapping[str, str], now: datetime.datetime) -> Change:
    """Return a lease whose resources went away without it.

    What is being taken out of the lease is not lost: its own event finds it gone. Nor is what
    could not be prepared, for it was deleted by its own event. And what belongs to another
    resource of the lease, as a server to its stack, is that one's business: its user may have
    updated it so that it has less.

    :param reasons: reservation id -> what happened to its resource
    """
    leaving = prepare.unprepared(lease)
    lost = [
        _belonging(r, now) if _belongs(lease, r, now) else _lose(r, reasons[r.id], now)
        for r in lease.live
        if r.id in reasons and r.id not in leaving and r.status != _R.DELETING
    ]
    if not lost:
        return Change(lease)
    after = lease.with_reservations(*lost)
    told = results.summarize_errors(lost)
    if after.live:
        return Change(_going_on(lease, after, leaving, now), {'lease.update': told})
    after = dataclasses.replace(after, degraded=True)
    # A service that counts the time from start to end must hear of an end that comes early, too.
    notifications = {'lease.update': told, end.DONE: told}
    if lease.status == _L.DELETING:
        notifications = {end.DONE: told, 'lease.delete': told}
    return Change(events.terminate(after, now, told), notifications)


def _going_on(
    before: model.Lease, after: model.Lease, leaving: Collection[str], now: datetime.datetime
) -> model.Lease:
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


def _belongs(lease: model.Lease, reservation: model.Reservation, now: datetime.datetime) -> bool:
    """Tell whether a resource is a part of another one of the lease that is not lost itself."""
    parent_id = reservation.parent_id
    parents = (r for r in lease.reservations if parent_id and r.resource_id == parent_id)
    return any(r.live or _was_freed_lately(r, now) for r in parents)


def _was_freed_lately(reservation: model.Reservation, now: datetime.datetime) -> bool:
    freed = None if reservation.missing_resources else reservation.freed_at
    return freed is not None and now - freed < _LATE


def _belonging(reservation: model.Reservation, now: datetime.datetime) -> model.Reservation:
    reason = 'It was deleted, by its stack or by hand.'
    return dataclasses.replace(_lose(reservation, reason, now), missing_resources=False)


def _lose(
    reservation: model.Reservation, reason: str, now: datetime.datetime
) -> model.Reservation:
    return dataclasses.replace(
        reservation,
        status=_R.DELETED,
        status_reason=reason,
        missing_resources=True,
        updated_at=now,
        freed_at=now,
    )
