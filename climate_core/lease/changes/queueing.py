# SPDX-License-Identifier: Apache-2.0
"""Queue a lease until there is capacity for it, grant it, and preempt it. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import queue
from climate_core.lease.events.start import add_preparations
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
_GRANTED: Final = 'There is enough for the lease by now.'


def queue_lease(
    lease: Lease,
    retries: int,
    duration: timedelta | None,
    reason: str | None,
    now: datetime,
    seconds: float = 0.0,
) -> Lease:
    """Return a new lease that is queued and holds no resources.

    :param retries: the maximum number of retries
    :param duration: its duration if it is granted after its start date; None: it ends at its end
        date in any case
    :param reason: what the cloud lacks
    :param seconds: until the next retry
    """
    due = model.new_event(lease.id, model.RETRY, now + timedelta(seconds=seconds), now)
    reservations = (dataclasses.replace(each, amounts={}) for each in lease.reservations)
    after = queue.without_grant(lease, due, duration, reservations)
    return dataclasses.replace(
        after, status=_L.WAITING, status_reason=reason, retries_left=retries
    )


def drain_hosts_for(
    lease: Lease,
    progress: Mapping[str, Any],
    duration: timedelta | None,
    reason: str | None,
    now: datetime,
) -> Lease:
    """Return a new lease for which hosts are drained.

    It holds no host yet, but its amounts count for the limits of its project, so that the limits
    bound the number of hosts that a project has drained concurrently.

    :param progress: the progress of its reservations
    :param duration: see :func:`queue_lease`
    """
    due = model.new_event(lease.id, model.MAKE_ROOM, now, now)
    reservations = (dataclasses.replace(each, progress=progress) for each in lease.reservations)
    after = queue.without_grant(lease, due, duration, reservations)
    return dataclasses.replace(after, status=_L.IN_PROGRESS, status_reason=reason)


def allow_requeue(lease: Lease, retries: int, duration: timedelta | None) -> Lease:
    """Return a new lease that is granted, and is queued if Nova has no capacity for its servers.

    :param retries: the maximum number of retries
    :param duration: see :func:`queue_lease`
    """
    if not any(each.group for each in lease.reservations):
        return lease
    seconds = None if duration is None else round(duration.total_seconds())
    return dataclasses.replace(lease, retries_left=retries, duration=seconds)


def grant_lease(
    lease: Lease,
    amounts: Mapping[str, Mapping[str, int]],
    now: datetime,
    before_start: Iterable[int] = (),
) -> Change:
    """Return a queued lease as granted.

    :param amounts: the amounts that its reservations hold from now on, by their ids
    :param before_start: the seconds before the start of the notices that every lease has
    """
    start, end = granted_period(lease, now)
    held = (
        dataclasses.replace(
            each,
            amounts=amounts.get(each.id, {}),
            # The progress of a drain is of no use any more; that of shelved servers is.
            progress=None if lease.status == _L.IN_PROGRESS else each.progress,
            updated_at=now,
        )
        for each in pending_reservations(lease)
    )
    after = shift_period(
        lease.with_reservations(*held).moved_to(_L.PENDING, None), start, end, now
    )
    if not any(each.group for each in pending_reservations(after)):
        # Only a lease whose servers are still to be created may be queued again.
        after = dataclasses.replace(after, retries_left=None, duration=None)
    after = transitions.cancel_events(after, _next_retries(after), _GRANTED, now)
    first = events.first_events(
        lease.id,
        start,
        end,
        after.before_end_date,
        (),
        now,
        manual=lease.start_policy == states.StartPolicy.MANUAL,
        before_start={*lease.before_start, *before_start},
    )
    after = after.with_events(
        *(e for e in first if events.get_handler(e.event_type).follows_grant)
    )
    if after.event(model.END) is None:
        after = after.with_events(model.new_event(lease.id, model.END, end, now))
    # A resource that exists was shelved; the start unshelves it.
    preparing = dict.fromkeys(
        each.id for each in pending_reservations(after) if each.group and not each.is_made
    )
    after = add_preparations(after, preparing, now)
    drained = lease.status == _L.IN_PROGRESS
    return Change(after, {queue.HOSTS_DRAINED if drained else queue.RETRY_GRANTED: None})


def shift_period(lease: Lease, start: datetime, end: datetime, now: datetime) -> Lease:
    """Return a lease with other dates; its ``before_end_date`` and its events follow."""
    before_end = lease.before_end_date
    if before_end is not None:
        before_end = transitions.move_before_end(before_end, lease.end_date, start, end)
    after = dataclasses.replace(lease, start_date=start, end_date=end, before_end_date=before_end)
    moved = (events.get_handler(e.event_type).move(e, lease, after, now) for e in lease.events)
    return after.with_events(*moved)


def pending_reservations(lease: Lease) -> tuple[Reservation, ...]:
    """Return the reservations of a queued lease that are not being removed from it."""
    return tuple(each for each in lease.live if each.status == _R.PENDING)


def check_changeable(lease: Lease) -> None:
    """Reject changes of a lease that is being preempted, was never granted, or drains hosts.

    :raises climate_core.exceptions.InvalidState: it is such a lease
    """
    if lease.preempted_at is not None:
        time = dates.sentence(lease.preempted_at)
        raise exceptions.InvalidState(
            f'Lease {lease.id} gives up what it has on {time}, since another lease needs it: '
            'until then only its name can be changed.'
        )
    if lease.never_granted:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waited as long as it may and has nothing: only its name can be '
            'changed. Make another lease.'
        )
    if lease.status == _L.IN_PROGRESS:
        raise exceptions.InvalidState(
            f'Hosts are being emptied for lease {lease.id}: until then only its name can be '
            'changed. To ask for something else, end it and make another lease.'
        )


def retry_now(lease: Lease, now: datetime) -> Lease:
    """Return a queued lease that its user changed, with a retry that is due now.

    It has an ``end_lease`` event unless its end date depends on the grant.
    """
    ends = lease.events_of(model.END)
    if lease.duration is not None:
        kept = tuple(each for each in lease.events if each not in ends)
        lease = dataclasses.replace(lease, events=kept)
    elif not ends:
        lease = lease.with_events(model.new_event(lease.id, model.END, lease.end_date, now))
    due = (transitions.repeat_event(event, now, now) for event in _next_retries(lease))
    return lease.with_events(*due)


def _next_retries(lease: Lease) -> Iterable[Event]:
    """Return the next retries of a queued lease."""
    return (e for e in lease.events_of(model.RETRY) if e.status == _E.UNDONE)


def granted_period(lease: Lease, now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end of a queued lease if it is granted now."""
    start = max(lease.start_date, now)
    if lease.duration is None:
        return start, lease.end_date
    return start, max(lease.end_date, start + timedelta(seconds=lease.duration))


def preempt_lease(
    lease: Lease, time: datetime, earliest: datetime, now: datetime
) -> Change | None:
    """Return a preemptible lease that is queued now, or preempted at a time if it is active.

    :param time: when an active lease releases its resources
    :param earliest: the earliest time that its notice allows
    :returns: None if it cannot be preempted: it is about to start, or the time is too early
    """
    if not lease.preemptible or lease.preempted_at is not None:
        return None
    if lease.status == _L.PENDING and not _is_prepared(lease) and not _holds_resources(lease):
        return Change(
            queue.requeue_preempted(lease, now), {'lease.update': queue.PREEMPTED_REASON}
        )
    is_active = lease.status == _L.ACTIVE and all(each.status == _R.ACTIVE for each in lease.live)
    if not is_active or time < earliest:
        return None
    event = model.new_event(lease.id, model.PREEMPT, time, now)
    shelved = 'its servers' if _holds_resources(lease) else 'servers that are on its hosts by then'
    reason = (
        f'Another lease needs what it has: it is given up on {dates.sentence(time)}, and '
        f'{shelved} are shelved.'
    )
    after = lease.with_events(event).moved_to(_L.ACTIVE, reason)
    return Change(after, {'lease.update': reason})


def _is_prepared(lease: Lease) -> bool:
    """Tell whether the preparation of its resources has begun."""
    return any(event.status != _E.UNDONE for event in lease.events_of(model.PREPARE))


def _holds_resources(lease: Lease) -> bool:
    """Tell whether it has a resource that exists, as a server."""
    return any(each.unit_kind is None and each.is_made for each in lease.live)
