# SPDX-License-Identifier: Apache-2.0
"""What becomes of a lease when resources of it go away. Pure."""

import dataclasses
import datetime
from collections.abc import Collection, Mapping

from climate_core.lease import model, plan, results, states

_L, _R = states.LeaseStatus, states.ReservationStatus
#: How late it may be told what became of the members of a stack that the lease has freed.
_LATE = datetime.timedelta(hours=1)


def gone(lease: model.Lease, reasons: Mapping[str, str], now: datetime.datetime) -> plan.Change:
    """Write down that resources went away without the lease.

    What is being taken out of the lease is not lost: its own event finds it gone. Nor is what
    could not be prepared, for it was deleted by its own event. And what belongs to another
    resource of the lease, as a server to its stack, is that one's business: its user may have
    updated it so that it has less.

    :param reasons: reservation id -> what happened to its resource
    """
    leaving = plan.unprepared(lease)
    losses = {
        r.id: _belonging(r, now) if _belongs(lease, r, now) else _lose(r, reasons[r.id], now)
        for r in lease.live
        if r.id in reasons and r.id not in leaving and r.status != _R.DELETING
    }
    if not losses:
        return plan.Change(lease)
    after = dataclasses.replace(
        lease, reservations=tuple(losses.get(r.id, r) for r in lease.reservations)
    )
    told = plan.tell_reasons(losses.values())
    if after.live:
        return plan.Change(_going_on(lease, after, leaving, now), {'lease.update': told})
    after = dataclasses.replace(after, degraded=True)
    # Who counts the time from a start to its end must hear of an end that comes early, too.
    notices = {'lease.update': told, 'lease.event.end_lease': told}
    if lease.status == _L.DELETING:
        notices = {'lease.event.end_lease': told, 'lease.delete': told}
    return plan.Change(plan.over(after, now, told), notices)


def _going_on(
    before: model.Lease, after: model.Lease, leaving: Collection[str], now: datetime.datetime
) -> model.Lease:
    """Say how a lease is that has something left."""
    status = plan.healed(after, now)
    known = {r.id for r in before.reservations if r.missing_resources}
    lost = {r.id for r in after.reservations if r.missing_resources} - known
    if lost:
        reason = plan.tell_reasons(r for r in after.reservations if r.id in lost | set(leaving))
        return dataclasses.replace(after, status=status, status_reason=reason, degraded=True)
    if status == after.status:
        return after
    return dataclasses.replace(after, status=status, status_reason=results.lasting(after))


def _belongs(lease: model.Lease, reservation: model.Reservation, now: datetime.datetime) -> bool:
    """Tell whether a resource was kept by another one of the lease that is not lost itself."""
    keeper = reservation.params.get(model.KEEPER)
    kept_by = (r for r in lease.reservations if keeper and r.resource_id == keeper)
    return any(r.live or _was_freed_lately(r, now) for r in kept_by)


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
