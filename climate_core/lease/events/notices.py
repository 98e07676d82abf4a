# SPDX-License-Identifier: Apache-2.0
"""Events that only notify: ``before_start_lease``, ``before_end_lease`` and user events. Pure."""

from collections.abc import Mapping
from datetime import datetime
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
        """Leave it to :func:`climate_core.lease.changes.update.move_start_notices`."""
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
