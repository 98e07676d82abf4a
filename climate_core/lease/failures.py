# SPDX-License-Identifier: Apache-2.0
"""Record lost resources, failed hosts and a start that will fail. Pure."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import end, preparation, reallocation, start
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus

#: What a user learns when no host is missing any more.
HOSTS_COMPLETE: Final = 'All of its hosts are there again.'
#: How the reason of a lease begins whose start will fail.
START_WILL_FAIL: Final = 'The start will fail: '
#: What a user learns when the start will not fail any more.
TRUST_ACCEPTED: Final = 'Keystone accepts the trust of the owner again.'
#: The maximum delay of notifications about members of a stack after the lease freed the stack.
_MAX_PART_DELAY = timedelta(hours=1)
_BY_STACK = 'It was deleted, by its stack or by hand.'


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
    told = transitions.summarize_errors(lost)
    if after.live:
        after = _with_rest(lease, after, preparation.failed_preparations(lease), now)
        return Change(after, {'lease.update': told})
    # A service that rates the time from start to end needs the early end as well.
    notifications = {'lease.update': told, end.ENDED: told}
    if lease.status == _L.DELETING:
        notifications = {end.ENDED: told, 'lease.delete': told}
    after = events.terminate_lease(dataclasses.replace(after, degraded=True), now, told)
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
        after, status=status, status_reason=transitions.permanent_errors(after)
    )


def _is_part(lease: Lease, reservation: Reservation, now: datetime) -> bool:
    """Tell whether a resource is a part of another one that is held or was freed recently."""
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
        after = reallocation.add_reallocations(after, [reservation_id], now)
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
    reason = transitions.permanent_errors(lease) or transitions.user_start_reason(lease)
    return dataclasses.replace(lease, status_reason=reason)


def record_start_warning(lease: Lease, reason: str | None) -> Change:
    """Return a lease with a warning that its start will fail, which is notified once.

    The start is tried in any case, and reports its own result.

    :param reason: a sentence; None: the start will not fail
    """
    waits = any(e.status == states.EventStatus.UNDONE for e in lease.events_of(model.START))
    has_warning = START_WILL_FAIL in (lease.status_reason or '')
    is_over = lease.status != _L.PENDING or lease.deleted_at is not None
    if is_over or not waits or has_warning == (reason is not None):
        return Change(lease)
    known = transitions.permanent_errors(lease)
    if reason is None:
        after = dataclasses.replace(lease, status_reason=known)
        return Change(after, {'lease.update': TRUST_ACCEPTED})
    warning = START_WILL_FAIL + reason
    after = dataclasses.replace(lease, status_reason=f'{warning} {known}' if known else warning)
    return Change(after, {start.START_WARNING: warning})
