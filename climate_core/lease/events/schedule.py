# SPDX-License-Identifier: Apache-2.0
"""The schedule of a lease: which events it has, and how they follow its dates. Pure."""

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta

from climate_core.lease import model, states, transitions
from climate_core.lease.model import Event, Lease


def first_events(
    lease: Lease,
    given: Iterable[tuple[str, datetime]],
    now: datetime,
    before_start: Iterable[int] = (),
) -> tuple[Event, ...]:
    """Return the events of a lease that is created or granted, by its dates and its start policy.

    :param given: types and times of the events that the user adds
    :param before_start: the seconds before the start of the notices that every lease has. A start
        that is now has no notice; notices whose time has passed share one event
    """
    start = lease.start_date
    manual = lease.start_policy == states.StartPolicy.MANUAL
    wanted = [(model.READY if manual else model.START, start), (model.END, lease.end_date), *given]
    if start > now:
        seconds = {*lease.before_start, *before_start}
        notices = {max(now, start - timedelta(seconds=each)) for each in seconds}
        wanted += [(model.BEFORE_START, time) for time in sorted(notices)]
    if lease.before_end_date is not None:
        wanted.append((model.BEFORE_END, lease.before_end_date))
    wanted.sort(key=lambda item: (item[1], transitions.get_handler(item[0]).priority))
    return tuple(model.new_event(lease.id, event_type, time, now) for event_type, time in wanted)


def shift_period(
    lease: Lease,
    start: datetime,
    end: datetime,
    now: datetime,
    before_end: datetime | None = None,
) -> Lease:
    """Return a lease with other dates, which its events follow.

    :param before_end: its new ``before_end_date``; None: it follows the end
    """
    if before_end is None and lease.before_end_date is not None:
        before_end = move_before_end(lease.before_end_date, lease.end_date, start, end)
    after = dataclasses.replace(lease, start_date=start, end_date=end, before_end_date=before_end)
    return move_events(lease, after, now)


def move_events(before: Lease, after: Lease, now: datetime) -> Lease:
    """Return a lease whose events follow its new dates and its new start policy.

    The notices before the start are moved by :func:`move_start_notices`.
    """
    return after.with_events(*(follow_dates(event, before, after, now) for event in after.events))


def follow_dates(event: Event, before: Lease, after: Lease, now: datetime) -> Event:
    """Return the event of a lease whose dates or start policy were changed."""
    event_type = event.event_type
    if event_type == model.END:
        return transitions.move_event(event, after.end_date, now)
    if event_type in (model.START, model.READY):
        return _move_start(event, before, after, now)
    if event_type == model.PREPARE and event.time != event.created_at:
        # It is due before the start, not when the reservation was added.
        moved = event.time + (after.start_date - before.start_date)
        return transitions.move_event(event, max(moved, now), now)
    if event_type == model.BEFORE_END or transitions.is_user_event(event_type):
        follows = event_type == model.BEFORE_END and event.time == before.before_end_date
        if follows and after.before_end_date is not None:
            return transitions.move_event(event, after.before_end_date, now)
        return transitions.move_event(event, min(event.time, after.end_date), now)
    return event


def _move_start(event: Event, before: Lease, after: Lease, now: datetime) -> Event:
    """Move the start, or the notice that the user may start the lease, which replaces it."""
    is_start = event.event_type == model.START
    manual = after.start_policy == states.StartPolicy.MANUAL
    if after.status == states.LeaseStatus.PENDING and is_start == manual:
        due = transitions.repeat_event(event, after.start_date, now)
        return dataclasses.replace(due, event_type=model.READY if manual else model.START)
    if not is_start and after.status != states.LeaseStatus.PENDING:
        return event
    is_pending = any(r.status == states.ReservationStatus.PENDING for r in after.reservations)
    # What was skipped because the lease had ended is due now if the new end is later.
    was_skipped = is_start or event.status_reason is not None
    if is_pending and was_skipped and not event.open and now < after.end_date:
        return transitions.reschedule_event(event, now, now)
    if before.start_date == after.start_date:
        return event
    return transitions.move_event(event, after.start_date, now)


def move_before_end(
    before: datetime, old_end: datetime, start: datetime, end: datetime
) -> datetime:
    """Return the new ``before_end_date`` of a lease whose dates change.

    It keeps its distance from the end, but not beyond the start.

    :param before: the old ``before_end_date``
    """
    # Durations are compared, because the time itself may lie before the first year.
    return end - max(timedelta(), min(old_end - before, end - start))


def add_before_end(before: Lease, after: Lease, now: datetime) -> Lease:
    """Add ``before_end_lease`` to a lease whose ``before_end_date`` is new."""
    followed = (e.time == before.before_end_date for e in before.events_of(model.BEFORE_END))
    if after.before_end_date is None or any(followed):
        return after
    new = model.new_event(after.id, model.BEFORE_END, after.before_end_date, now)
    return after.with_events(new)


def is_revoked(before: Lease, after: Lease) -> bool:
    """Return whether a change of a lease repeats a ``before_end_lease`` that was sent."""
    done = states.EventStatus.DONE
    sent = {e.id for e in before.events_of(model.BEFORE_END) if e.status == done}
    return any(e.id in sent and e.open for e in after.events)


def move_start_notices(before: Lease, after: Lease, always: Iterable[int], now: datetime) -> Lease:
    """Return a lease whose ``before_start_lease`` events follow its start and ``before_start``.

    A notice keeps its distance from the start. It is sent again if its new time is to come. Of
    several notices whose times have passed one is sent now, or none if the start is now.

    :param always: the seconds before the start of the notices that every lease has
    """
    same = (before.start_date, before.before_start) == (after.start_date, after.before_start)
    if same or after.status != states.LeaseStatus.PENDING:
        return after
    old, new = {*always, *before.before_start}, {*always, *after.before_start}
    kept: list[Event] = []
    gone: set[str] = set()
    for event in after.events_of(model.BEFORE_START):
        distance = (before.start_date - event.time).total_seconds()
        if distance in old - new:
            if event.open:
                gone.add(event.id)
            continue
        if distance not in old and not (event.open and event.time > now):
            # It was due immediately, for several whose times had passed: its distance from the
            # start means nothing.
            kept.append(event)
            continue
        new.discard(int(distance))
        time = after.start_date - timedelta(seconds=distance)
        kept.append(transitions.move_event(event, time, now))
    coming = after.start_date > now
    for seconds in sorted(new):
        time = after.start_date - timedelta(seconds=seconds)
        if coming and (time > now or seconds not in old):
            kept.append(model.new_event(after.id, model.BEFORE_START, time, now))
    kept = _keep_last_due(kept, coming, now)
    events = tuple(e for e in after.events if e.id not in gone)
    return dataclasses.replace(after, events=events).with_events(*kept)


def _keep_last_due(events: list[Event], coming: bool, now: datetime) -> list[Event]:
    """Cancel the notices that are due except the last, or all if the start has come."""
    due = [e for e in events if e.open and e.next_at is not None and e.next_at <= now]
    due.sort(key=lambda e: e.time)
    closed = {e.id for e in (due[:-1] if coming else due)}
    why = (
        'One notice was sent for all whose time had passed.' if coming else 'The lease starts now.'
    )
    return [transitions.cancel_event(e, why, now) if e.id in closed else e for e in events]
