# SPDX-License-Identifier: Apache-2.0
"""``external_end``: tells the external service that the lease is over.

Only leases about which the service was asked have it. It has no due time until the lease is over.
"""

import dataclasses
import datetime

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base


class ExternalEnd(base.Cleanup):
    event_type = model.EXTERNAL_END
    due = 'when the lease is over, if the external service was asked about it'
    action = 'tells the external service'
    lease_call = 'notify_external_end'

    def after_termination(self, lease: model.Lease, now: datetime.datetime) -> model.Lease:
        """Make the event due now if it waits for the end of the lease."""
        event = lease.event(self.event_type)
        undone = states.EventStatus.UNDONE
        if event is None or event.status != undone or event.next_at is not None:
            return lease
        due = schedule.reschedule(event, now, now)
        return lease.with_events(dataclasses.replace(due, time=now))


def waiting(lease_id: str, now: datetime.datetime) -> model.Event:
    """Return a new event that waits for the end of its lease."""
    event = model.new_event(lease_id, model.EXTERNAL_END, now, now)
    return dataclasses.replace(event, next_at=None)
