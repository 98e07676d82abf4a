# SPDX-License-Identifier: Apache-2.0
"""``make_room``: empties shared hosts for a lease that would have no room otherwise."""

import dataclasses
from datetime import datetime
from typing import Final

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base
from climate_core.lease.events.retry import give_up
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, Result, Work

_L = states.LeaseStatus

#: Its hosts are empty: the lease is PENDING.
MADE: Final = 'lease.event.make_room'
#: They were not empty in time.
TIMED_OUT: Final = 'lease.event.make_room.error'
_NO_NEED: Final = 'The lease needs no room any more.'


class MakeRoom(base.EventHandler):
    event_type = model.MAKE_ROOM
    due = 'when a lease of the kind ``best_effort`` is created for which there is not enough'
    action = 'has the servers of shared hosts moved to other hosts, until the hosts are empty'
    on_failure = 'retried; after ``best_effort_timeout`` the lease is ``TIMEDOUT``'
    notifications = {
        MADE: 'its hosts are empty by now: it starts at its start date, or at once',
        TIMED_OUT: 'its hosts were not empty in time, and are given back',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    lease_call = 'make_room'

    def begin(self, lease: Lease, event: Event, now: datetime) -> Work:
        if lease.status != _L.IN_PROGRESS:
            return Work(lease, skip_reason=_NO_NEED)
        return Work(lease)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        outcome = outcomes[event.id]
        if lease.status != _L.IN_PROGRESS:
            return Change(lease.with_events(schedule.complete(event, None, now)))
        if outcome.result is Result.FAILED:
            return give_up(lease, event, outcome.reason or '', now, _L.TIMEDOUT, TIMED_OUT)
        kept = (
            dataclasses.replace(each, progress=outcome.progress)
            for each in lease.live
            if outcome.progress is not None
        )
        after = lease.with_reservations(*kept)
        if outcome.reason:
            after = dataclasses.replace(after, status_reason=outcome.reason)
        return Change(after.with_events(schedule.retry(event, [outcome], now)))
