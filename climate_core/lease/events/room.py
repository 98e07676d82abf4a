# SPDX-License-Identifier: Apache-2.0
"""``make_room``: empties shared hosts for a lease that would have no room otherwise."""

import dataclasses
from datetime import datetime
from typing import Final

from climate_core.lease import model, schedule, states
from climate_core.lease.events import ungranted
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, Outcome, Result

#: The notification that its hosts are empty: the lease is PENDING.
MADE: Final = 'lease.event.make_room'
#: The notification that they were not empty in time.
TIMED_OUT: Final = 'lease.event.make_room.error'


class MakeRoom(ungranted.UngrantedEvent):
    event_type = model.MAKE_ROOM
    due = 'when a lease of the kind ``best_effort`` is created for which there is not enough'
    action = 'has the servers of shared hosts moved to other hosts, until the hosts are empty'
    on_failure = 'retried; after ``best_effort_timeout`` the lease is ``TIMEDOUT``'
    notifications = {
        MADE: 'its hosts are empty by now: it starts at its start date, or at once',
        TIMED_OUT: 'its hosts were not empty in time, and are given back',
    }
    lease_status = states.LeaseStatus.IN_PROGRESS
    needless = 'The lease needs no room any more.'
    given_up_status = states.LeaseStatus.TIMEDOUT
    given_up_notification = TIMED_OUT
    lease_call = 'make_room'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.FAILED:
            return self.give_up(lease, event, outcome.reason or '', now)
        kept = (
            dataclasses.replace(each, progress=outcome.progress)
            for each in lease.live
            if outcome.progress is not None
        )
        after = lease.with_reservations(*kept)
        if outcome.reason:
            after = dataclasses.replace(after, status_reason=outcome.reason)
        return Change(after.with_events(schedule.retry(event, [outcome], now)))
