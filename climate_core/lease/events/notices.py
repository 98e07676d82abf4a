# SPDX-License-Identifier: Apache-2.0
"""Events that only notify: ``before_start_lease``, ``before_end_lease`` and user events. Pure."""

import dataclasses
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

    def payload(self, lease: Lease, now: datetime) -> Mapping[str, int]:
        return {'starts_in': max(0, round((lease.start_date - now).total_seconds()))}


class ReadyToStart(Notice):
    event_type = model.READY
    follows_grant = True
    due = '``start_date``, if ``start_policy`` is ``manual``'
    action = 'notifies; the lease waits for its user to start it'
    notifications = {
        'lease.event.ready_to_start': 'its start has come, and it waits for its user to start it'
    }
    cancelled_by = base.Stage.END_BEGINS

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        work = super().begin(lease, event, now)
        if work.skip_reason is None and (lease.has_started(now) or now >= lease.end_date):
            return EventWork(lease, skip_reason='There is nothing to start any more.')
        return work

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if lease.status == states.LeaseStatus.PENDING:
            lease = dataclasses.replace(lease, status_reason=transitions.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)


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


class UserEvent(Notice):
    """Handle an event that a user adds to a lease, with a type that the user names."""

    event_type = base.BY_USER
    due = 'at the time that the user sets'
    action = 'notifies'
    notifications = {'lease.event.<name>': 'an event that the user added is due'}
    accepted = True
