# SPDX-License-Identifier: Apache-2.0
"""Record lost resources, failed hosts and a start that will fail. Pure."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import end, reallocation, start
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
#: How late the notifications about members of a stack may come after the lease freed it.
_MAX_PART_DELAY = timedelta(hours=1)
_BY_STACK = 'It was deleted, by its stack or by hand.'


def find_lost(lease: Lease, ids: Collection[str]) -> list[Reservation]:
    """Return those of the reservations whose resource is gone that have lost it.

    What is being taken out of the lease, or could not be prepared, is not lost: its own event
    finds it gone.
    """
    leaving = start.failed_preparations(lease)
    gone = (each for each in lease.live if each.id in ids and each.id not in leaving)
    return [each for each in gone if each.status != _R.DELETING]


def record_lost(lease: Lease, reasons: Mapping[str, str], now: datetime) -> Change:
    """Return a lease whose resources went away without it.

    Only what :func:`find` returns is lost. And what belongs to another resource of the lease, as a
    server to its stack, is that one's business: its user may have updated it so that it has less.

    :param reasons: reservation id -> what happened to its resource
    """
    lost = [
        _lost(r, None if _is_part(lease, r, now) else reasons[r.id], now)
        for r in find_lost(lease, reasons.keys())
    ]
    if not lost:
        return Change(lease)
    after = lease.with_reservations(*lost)
    told = transitions.summarize_errors(lost)
    if after.live:
        return Change(
            _with_rest(lease, after, start.failed_preparations(lease), now), {'lease.update': told}
        )
    # A service that counts the time from start to end must hear of an end that comes early, too.
    notifications = {'lease.update': told, end.ENDED: told}
    if lease.status == _L.DELETING:
        notifications = {end.ENDED: told, 'lease.delete': told}
    after = events.terminate_lease(dataclasses.replace(after, degraded=True), now, told)
    return Change(after, notifications)


def _with_rest(before: Lease, after: Lease, leaving: Collection[str], now: datetime) -> Lease:
    """Return a lease that has something left."""
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
        after, status=status, status_reason=transitions.permanent_errors(after)
    )


def _is_part(lease: Lease, reservation: Reservation, now: datetime) -> bool:
    """Tell whether a resource is a part of another one that is held or was freed lately."""
    parent_id = reservation.parent_id
    return any(
        r.live or (r.freed_at and not r.missing_resources and now - r.freed_at < _MAX_PART_DELAY)
        for r in lease.reservations
        if parent_id and r.resource_id == parent_id
    )


def _lost(reservation: Reservation, reason: str | None, now: datetime) -> Reservation:
    """Return a reservation whose resource is gone; without a reason, with what it belongs to."""
    return dataclasses.replace(
        reservation,
        status=_R.DELETED,
        status_reason=reason or _BY_STACK,
        missing_resources=reason is not None,
        updated_at=now,
        freed_at=now,
    )


#: What is told when nothing is missing any more.
HOSTS_COMPLETE: Final = 'All of its hosts are there again.'


def record_host_replacement(
    lease: Lease,
    reservation_id: str,
    replaced: Mapping[str, Sequence[str]],
    missing: Mapping[str, str],
    now: datetime,
) -> Change:
    """Return a lease one of whose reservations has other hosts, or lacks some.

    :param replaced: the name of a host that it cannot keep -> the names of those that it was
        replaced by
    :param missing: the name of a host that has no replacement -> what is the matter with it, as
        the rest of a sentence; empty if all are there
    """
    before = lease.get_reservation(reservation_id)
    told = [
        f'Host {name} was replaced by {", ".join(new)}.' for name, new in sorted(replaced.items())
    ]
    told += [f'Host {name} {why}' for name, why in sorted(missing.items())]
    reason = ' '.join(told) or None
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
        after = reallocation.add_reallocations(after, [reservation_id], now)
    # What was missing already was notified then.
    is_news = bool(replaced) or not is_known
    return Change(after, {'lease.update': reason or HOSTS_COMPLETE} if is_news else {})


def _with_degraded(lease: Lease) -> Lease:
    """Return a lease that says whether something of it is missing."""
    degraded = any(each.missing_resources for each in lease.reservations)
    lease = dataclasses.replace(lease, degraded=degraded)
    # What a start waits for is told by the start.
    if lease.status == states.LeaseStatus.STARTING:
        return lease
    reason = transitions.permanent_errors(lease) or transitions.user_start_reason(lease)
    return dataclasses.replace(lease, status_reason=reason)


#: What the reason of a lease has if it is told.
START_WILL_FAIL: Final = 'The start will fail: '
#: What is told when it is well again.
TRUST_ACCEPTED: Final = 'Keystone accepts the trust of the owner again.'


def record_start_warning(lease: Lease, reason: str | None) -> Change:
    """Return a lease that says why its start will fail, which its user is told once.

    :param reason: a sentence; None if nothing is wrong
    """
    waits = any(e.status == states.EventStatus.UNDONE for e in lease.events_of(model.START))
    is_told = START_WILL_FAIL in (lease.status_reason or '')
    is_over = lease.status != states.LeaseStatus.PENDING or lease.deleted_at is not None
    if is_over or not waits or is_told == (reason is not None):
        return Change(lease)
    known = transitions.permanent_errors(lease)
    if reason is None:
        after = dataclasses.replace(lease, status_reason=known)
        return Change(after, {'lease.update': TRUST_ACCEPTED})
    told = START_WILL_FAIL + reason
    after = dataclasses.replace(lease, status_reason=f'{told} {known}' if known else told)
    return Change(after, {start.START_WARNING: told})
