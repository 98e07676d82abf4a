# SPDX-License-Identifier: Apache-2.0
"""Events that only notify: ``before_start_lease``, ``before_end_lease`` and user events. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, states, transitions
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease
from climate_core.lease.transitions import Change, EventWork

#: The notification that the end was moved after ``before_end_lease``.
STOP: Final = f'lease.event.{model.BEFORE_END}.stop'


class Notice(base.EventHandler):
    """Handle an event that only notifies."""

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        return EventWork(
            lease, skip_reason=None if lease.deleted_at is None else 'The lease is deleted.'
        )

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = lease.with_events(transitions.complete_event(event, None, now))
        return Change(after, {f'lease.event.{event.event_type}': None})

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        return transitions.move_event(event, min(event.time, after.end_date), now)


class BeforeStart(Notice):
    event_type = model.BEFORE_START
    follows_grant = True
    due = 'the seconds before the start that the operator and ``before_start`` of the lease set'
    action = 'notifies'
    notifications = {
        'lease.event.before_start_lease': (
            'its start is near: once for every time that the operator and the lease set'
        )
    }

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        """Leave it to :func:`move_start_notices`."""
        return event

    def payload(self, lease: Lease, now: datetime) -> Mapping[str, int]:
        return {'starts_in': max(0, round((lease.start_date - now).total_seconds()))}


class BeforeEnd(Notice):
    event_type = model.BEFORE_END
    follows_grant = True
    due = '``before_end_date`` of the lease'
    action = 'notifies'
    notifications = {
        'lease.event.before_end_lease': 'its end is near',
        STOP: ('it was extended after ``before_end_lease``, which does not hold any more'),
    }
    # Clients of Blazar give it with a new lease.
    accepted = True

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        if event.time == before.before_end_date and after.before_end_date is not None:
            return transitions.move_event(event, after.before_end_date, now)
        return super().move(event, before, after, now)


class UserEvent(Notice):
    """Handle an event that a user adds to a lease, with a type that the user names."""

    event_type = base.BY_USER
    due = 'at the time that the user sets'
    action = 'notifies'
    notifications = {'lease.event.<name>': 'an event that the user added is due'}
    accepted = True


def add_before_end(before: Lease, after: Lease, now: datetime) -> Lease:
    """Add ``before_end_lease`` to a lease whose ``before_end_date`` is new."""
    followed = (e.time == before.before_end_date for e in before.events_of(model.BEFORE_END))
    if after.before_end_date is None or any(followed):
        return after
    new = model.new_event(after.id, model.BEFORE_END, after.before_end_date, now)
    return after.with_events(new)


def is_revoked(before: Lease, after: Lease) -> bool:
    """Tell whether a change of a lease repeats a ``before_end_lease`` that was sent."""
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
    why = 'One was told for all whose time had passed.' if coming else 'The lease starts now.'
    return [transitions.cancel_event(e, why, now) if e.id in closed else e for e in events]
