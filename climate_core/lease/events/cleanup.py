# SPDX-License-Identifier: Apache-2.0
"""Events after the end of a lease: ``release_trust`` and ``external_end``."""

import dataclasses
from datetime import datetime

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, Result


class Cleanup(base.EventHandler):
    """Handle an event that is done after the end of the lease, without a notification."""

    on_failure = 'retried; given up after a permanent failure'
    priority = 3
    hidden = True
    cancelled_by = base.Stage.NEVER

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        return Change(lease.with_events(schedule.settle(event, outcomes[event.id], now)))


class ReleaseTrust(Cleanup):
    event_type = model.RELEASE_TRUST
    due = 'when the lease is over'
    action = "lets the owner's trust go"
    lease_call = 'release_trust'
    service = 'keystone'

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if outcomes[event.id].result is Result.DONE:
            lease = dataclasses.replace(lease, trust_id=None)
        return super().settle(lease, event, outcomes, now)

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Add an event that lets the trust go, if there is one and no event does so."""
        if lease.trust_id is None or any(e.open for e in lease.events_of(self.event_type)):
            return lease
        return lease.with_events(model.new_event(lease.id, self.event_type, now, now))


class ExternalEnd(Cleanup):
    """Tell the external service that a lease is over, if it was asked about the lease."""

    event_type = model.EXTERNAL_END
    due = 'when the lease is over, if the external service was asked about it'
    action = 'tells the external service'
    lease_call = 'notify_external_end'
    service = 'external'

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Make the event due now if it waits for the end of the lease."""
        event = lease.event(self.event_type)
        undone = states.EventStatus.UNDONE
        if event is None or event.status != undone or event.next_at is not None:
            return lease
        due = schedule.reschedule(event, now, now)
        return lease.with_events(dataclasses.replace(due, time=now))


def external_end(lease_id: str, now: datetime) -> Event:
    """Return a new ``external_end`` that is not due before the end of its lease."""
    event = model.new_event(lease_id, model.EXTERNAL_END, now, now)
    return dataclasses.replace(event, next_at=None)
