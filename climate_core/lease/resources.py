# SPDX-License-Identifier: Apache-2.0
"""Add reservations to a lease, change and remove them, and record lost resources. Pure."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from climate_core import exceptions
from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import end, preparation, queue
from climate_core.lease.events.start import add_reallocations
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

#: The reason when no host is missing any more.
HOSTS_COMPLETE: Final = 'All of its hosts are available again.'
#: The maximum delay of notifications about members of a stack after the lease freed the stack.
_MAX_PART_DELAY = timedelta(hours=1)
_BY_STACK = 'It was deleted, by its stack or by a user.'
_ENDED = (_R.DELETING, _R.DELETED)


def add_reservations(
    lease: Lease,
    reservations: Sequence[Reservation],
    now: datetime,
    preparing: Mapping[str, timedelta | None] | None = None,
) -> Change:
    """Return a lease with more reservations; if it has started, they start immediately.

    A lease in ERROR accepts reservations: what failed does not prevent the start of the rest.

    :param preparing: the reservations to prepare, see :func:`.preparation.add_preparations`
    :returns: the lease as it is if there are no reservations
    :raises climate_core.exceptions.InvalidState: it has ended, is ending, or is queued
    """
    if not reservations:
        return Change(lease)
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: nothing can be added to it. Create another '
            'lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is queued until capacity is sufficient: nothing can be added to '
            'it before. Create another lease.'
        )
    transitions.check_changeable(lease)
    joining = model.order_joining(lease.reservations, reservations)
    after = dataclasses.replace(lease, reservations=(*lease.reservations, *joining))
    start = lease.event(model.START)
    if start is not None and not start.open:
        after = after.with_events(transitions.reschedule_event(start, now, now))
    return Change(
        preparation.add_preparations(after, preparing or {}, now), {'lease.update': None}
    )


def change_reservation(
    lease: Lease, reservation_id: str, params: Mapping[str, Any], now: datetime
) -> Change:
    """Return a lease with other params of a reservation.

    :param params: the params that change; the plugin allows it
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.InvalidState: its end has started
    """
    reservation = lease.get_reservation(reservation_id)
    new = {**reservation.params, **params}
    if reservation.params == new:
        return Change(lease)
    if lease.status in states.ENDING or reservation.status in _ENDED:
        raise exceptions.InvalidState(
            f'The end of reservation {reservation_id} has started: it can only be changed before.'
        )
    transitions.check_changeable(lease)
    changed = dataclasses.replace(reservation, params=new, updated_at=now)
    after = lease.with_reservations(changed)
    if lease.status == _L.WAITING:
        after = queue.retry_now(after, now)
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
            f'Lease {lease.id} is {lease.status}: its resources are being freed.'
        )
    if reservation.status == _R.DELETING:
        return Change(lease)
    if lease.status == _L.IN_PROGRESS or lease.preempted_at is not None:
        transitions.check_changeable(lease)
    after = lease.with_reservations(
        dataclasses.replace(reservation, status=_R.DELETING, updated_at=now)
    )
    after = after.with_events(_end_reservation_now(lease, reservation, now))
    if lease.status == _L.WAITING:
        after = queue.retry_now(after, now)
    reason = 'It is removed from the lease.'
    after = preparation.cancel_preparations(after, [reservation], reason, now)
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


def find_lost(lease: Lease, ids: Collection[str]) -> list[Reservation]:
    """Return the reservations that have lost their resource.

    Resources that are being removed from the lease, or whose preparation failed, are not lost:
    their own events find them deleted.

    :param ids: the ids of the reservations whose resource does not exist any more
    """
    ids = {*ids} - preparation.failed_preparations(lease)
    return [r for r in lease.live if r.id in ids and r.status != _R.DELETING]


def record_lost(lease: Lease, reasons: Mapping[str, str], now: datetime) -> Change:
    """Return a lease whose resources were deleted outside of the lease.

    Only the reservations of :func:`find_lost` are lost. A part of another resource, as a server
    of a stack, is not missing: a user may have updated the stack.

    :param reasons: the id of a reservation -> what happened to its resource
    """
    lost = [
        _lost(r, None if _is_part(lease, r, now) else reasons[r.id], now)
        for r in find_lost(lease, reasons.keys())
    ]
    if not lost:
        return Change(lease)
    after = lease.with_reservations(*lost)
    reason = transitions.summarize_errors(lost)
    if after.live:
        after = _with_rest(lease, after, preparation.failed_preparations(lease), now)
        return Change(after, {'lease.update': reason})
    # A service that rates the time from start to end needs the early end as well.
    notifications = {'lease.update': reason, end.ENDED: reason}
    if lease.status == _L.DELETING:
        notifications = {end.ENDED: reason, 'lease.delete': reason}
    after = events.terminate_lease(dataclasses.replace(after, degraded=True), now, reason)
    return Change(after, notifications)


def _with_rest(before: Lease, after: Lease, leaving: Collection[str], now: datetime) -> Lease:
    """Return a lease that still has resources."""
    status = transitions.recovered_status(after, now)
    known = {r.id for r in before.reservations if r.missing_resources}
    lost = {r.id for r in after.reservations if r.missing_resources} - known
    if lost:
        reason = transitions.summarize_errors(
            r for r in after.reservations if r.id in lost | set(leaving)
        )
        return dataclasses.replace(after, status=status, status_reason=reason, degraded=True)
    if status == after.status:
        return after
    return dataclasses.replace(
        after, status=status, status_reason=transitions.summarize_permanent_errors(after)
    )


def _is_part(lease: Lease, reservation: Reservation, now: datetime) -> bool:
    """Return whether a resource is a part of another one that is claimed or was freed recently."""
    parent_id = reservation.parent_id
    return any(
        r.live or (r.freed_at and not r.missing_resources and now - r.freed_at < _MAX_PART_DELAY)
        for r in lease.reservations
        if parent_id and r.resource_id == parent_id
    )


def _lost(reservation: Reservation, reason: str | None, now: datetime) -> Reservation:
    """Return a reservation whose resource was deleted, without a reason as a part of a stack."""
    return dataclasses.replace(
        reservation,
        status=_R.DELETED,
        status_reason=reason or _BY_STACK,
        missing_resources=reason is not None,
        updated_at=now,
        freed_at=now,
    )


def record_host_replacement(
    lease: Lease,
    reservation_id: str,
    replaced: Mapping[str, Sequence[str]],
    missing: Mapping[str, str],
    now: datetime,
) -> Change:
    """Return a lease after failures of the hosts of a reservation.

    :param replaced: the name of a host -> the names of its replacements
    :param missing: the name of a host without a replacement -> what is wrong with it, as the rest
        of a sentence; empty: no host is missing
    """
    before = lease.get_reservation(reservation_id)
    sentences = [
        f'Host {name} was replaced by {", ".join(new)}.' for name, new in sorted(replaced.items())
    ]
    sentences += [f'Host {name} {why}' for name, why in sorted(missing.items())]
    reason = ' '.join(sentences) or None
    is_known = before.missing_resources == bool(missing)
    if not replaced and is_known and (not missing or before.status_reason == reason):
        return Change(lease)
    after = lease.with_reservations(
        dataclasses.replace(
            before,
            missing_resources=bool(missing),
            resources_changed=before.resources_changed or bool(replaced),
            status_reason=reason,
            updated_at=now,
        )
    )
    if missing or before.missing_resources:
        after = _with_degraded(after)
    if replaced and lease.has_started(now):
        after = add_reallocations(after, [reservation_id], now)
    # Hosts that were missing before were notified then.
    is_news = bool(replaced) or not is_known
    return Change(after, {'lease.update': reason or HOSTS_COMPLETE} if is_news else {})


def _with_degraded(lease: Lease) -> Lease:
    """Return a lease with ``degraded`` and the reason for it."""
    degraded = any(each.missing_resources for each in lease.reservations)
    lease = dataclasses.replace(lease, degraded=degraded)
    # The event of the start reports what it waits for.
    if lease.status == _L.STARTING:
        return lease
    reason = transitions.summarize_permanent_errors(lease) or transitions.user_start_reason(lease)
    return dataclasses.replace(lease, status_reason=reason)
