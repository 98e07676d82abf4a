# SPDX-License-Identifier: Apache-2.0
"""Queue a lease until there is capacity for it, grant it, and preempt it. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import first_events, queue
from climate_core.lease.events import start as events_start
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_GRANTED: Final = 'There is enough for the lease by now.'


def queue_lease(
    lease: Lease,
    retries: int,
    duration: timedelta | None,
    reason: str | None,
    now: datetime,
    seconds: float = 0.0,
) -> Lease:
    """Return a new lease as one that waits, and holds nothing.

    :param retries: how often it is tried
    :param duration: how long it lasts from when it is granted, if that is after its start; None:
        it ends at its end date in any case
    :param reason: what there is not enough of
    :param seconds: until the next try
    """
    due = model.new_event(lease.id, model.RETRY, now + timedelta(seconds=seconds), now)
    nothing = (dataclasses.replace(each, amounts={}) for each in lease.reservations)
    after = queue.without_grant(lease, due, duration, nothing)
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
    """Return a new lease as one for which hosts are emptied.

    It has none of them yet, but what it asks for counts for the limits of its project: so they
    bound how many hosts a project may have emptied at once.

    :param progress: what is kept of that, with its reservations
    :param duration: as :func:`wait` takes it
    """
    due = model.new_event(lease.id, model.MAKE_ROOM, now, now)
    reservations = (dataclasses.replace(each, progress=progress) for each in lease.reservations)
    after = queue.without_grant(lease, due, duration, reservations)
    return dataclasses.replace(after, status=_L.IN_PROGRESS, status_reason=reason)


def allow_requeue(lease: Lease, retries: int, duration: timedelta | None) -> Lease:
    """Return a new lease that is granted at once, and is tried again if servers find no room.

    :param retries: how often
    :param duration: as :func:`wait` takes it
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
    """Return a lease that waited as one for which there is enough.

    :param amounts: what its reservations hold from now on, by their ids
    :param before_start: seconds before the start at which every lease is told
    """
    start, end = granted_period(lease, now)
    held = (
        dataclasses.replace(
            each,
            amounts=amounts.get(each.id, {}),
            # What hosts were emptied is done with; which servers were shelved is not.
            progress=None if lease.status == _L.IN_PROGRESS else each.progress,
            updated_at=now,
        )
        for each in pending_reservations(lease)
    )
    after = shift_period(
        lease.with_reservations(*held).moved_to(_L.PENDING, None), start, end, now
    )
    if not any(each.group for each in pending_reservations(after)):
        # What is made may find no room, and then the lease waits again.
        after = dataclasses.replace(after, retries_left=None, duration=None)
    after = transitions.cancel_events(after, _next_retries(after), _GRANTED, now)
    new = first_events(
        lease.id,
        start,
        end,
        after.before_end_date,
        (),
        now,
        manual=lease.start_policy == states.StartPolicy.MANUAL,
        before_start={*lease.before_start, *before_start},
    )
    after = after.with_events(*(e for e in new if events.get_handler(e.event_type).follows_grant))
    if after.event(model.END) is None:
        after = after.with_events(model.new_event(lease.id, model.END, end, now))
    # What is there already was shelved, and is woken at the start.
    made = dict.fromkeys(
        each.id for each in pending_reservations(after) if each.group and not each.is_made
    )
    after = events_start.add_preparations(after, made, now)
    told = queue.HOSTS_DRAINED if lease.status == _L.IN_PROGRESS else queue.RETRY_GRANTED
    return Change(after, {told: None})


def shift_period(lease: Lease, start: datetime, end: datetime, now: datetime) -> Lease:
    """Return a lease that begins later than was asked for; what is told before the end follows."""
    before_end = lease.before_end_date
    if before_end is not None:
        before_end = transitions.move_before_end(before_end, lease.end_date, start, end)
    after = dataclasses.replace(lease, start_date=start, end_date=end, before_end_date=before_end)
    moved = (events.get_handler(e.event_type).move(e, lease, after, now) for e in lease.events)
    return after.with_events(*moved)


def pending_reservations(lease: Lease) -> tuple[Reservation, ...]:
    """Return the reservations of a lease that waits which are not being taken out of it."""
    return tuple(each for each in lease.live if each.status == states.ReservationStatus.PENDING)


def check_changeable(lease: Lease) -> None:
    """Refuse to change what a lease holds that cannot have it, or gives it up.

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
    """Return a lease that waits, and was changed by its user, as one that is tried now.

    It has an end of its own if it has an end date that stays.
    """
    ends = lease.events_of(model.END)
    if lease.duration is not None:
        kept = tuple(each for each in lease.events if each not in ends)
        lease = dataclasses.replace(lease, events=kept)
    elif not ends:
        lease = lease.with_events(model.new_event(lease.id, model.END, lease.end_date, now))
    tries = _next_retries(lease)
    due = (dataclasses.replace(transitions.reschedule_event(e, now, now), time=now) for e in tries)
    return lease.with_events(*due)


def _next_retries(lease: Lease) -> Iterable[Event]:
    """Return the events by which a lease that waits is tried next."""
    return (e for e in lease.events_of(model.RETRY) if e.status == states.EventStatus.UNDONE)


def granted_period(lease: Lease, now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end of a lease that waits if it is granted now."""
    start = max(lease.start_date, now)
    if lease.duration is None:
        return start, lease.end_date
    return start, max(lease.end_date, start + timedelta(seconds=lease.duration))


_R = states.ReservationStatus


def preempt_lease(
    lease: Lease, time: datetime, earliest: datetime, now: datetime
) -> Change | None:
    """Return a lease that waits, or one that runs as one that gives up what it has.

    :param time: when one that runs gives it up
    :param earliest: when it may do so
    :returns: None if it cannot be preempted: it is about to begin, or has too little time
    """
    if not lease.preemptible or lease.preempted_at is not None:
        return None
    if lease.status == _L.PENDING and not _is_prepared(lease) and not _holds_resources(lease):
        return Change(
            queue.requeue_preempted(lease, now), {'lease.update': queue.PREEMPTED_REASON}
        )
    asleep = any(each.status != _R.ACTIVE for each in lease.live)
    if lease.status != _L.ACTIVE or asleep or time < earliest:
        return None
    event = model.new_event(lease.id, model.PREEMPT, time, now)
    shelved = 'its servers' if _holds_resources(lease) else 'servers that are on its hosts by then'
    told = (
        f'Another lease needs what it has: it is given up on {dates.sentence(time)}, and '
        f'{shelved} are shelved.'
    )
    after = lease.with_events(event).moved_to(_L.ACTIVE, told)
    return Change(after, {'lease.update': told})


def _is_prepared(lease: Lease) -> bool:
    """Tell whether what it is promised is being prepared."""
    events = lease.events_of(model.PREPARE)
    return any(each.status != states.EventStatus.UNDONE for each in events)


def _holds_resources(lease: Lease) -> bool:
    """Tell whether it has a resource that is there, as a server."""
    return any(each.unit_kind is None and each.is_made for each in lease.live)
