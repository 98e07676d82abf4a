# SPDX-License-Identifier: Apache-2.0
"""``ready_to_start``: stands for the start of a lease that its user starts."""

import dataclasses
import datetime

from climate_core.lease import model, results, states
from climate_core.lease.events import base, start

_L = states.LeaseStatus


class ReadyToStart(base.Notice):
    event_type = model.READY
    due = '``start_date``, if ``start_policy`` is ``manual``'
    action = 'notifies; the lease waits for its user to start it'
    notifications = {
        'lease.event.ready_to_start': 'its start has come, and it waits for its user to start it'
    }
    cancelled_by = base.Stage.END_BEGINS

    def begin(
        self, lease: model.Lease, event: model.Event, now: datetime.datetime
    ) -> results.Work:
        work = super().begin(lease, event, now)
        if work.skip_reason is None and (lease.has_started(now) or now >= lease.end_date):
            return results.Work(lease, skip_reason='There is nothing to start any more.')
        return work

    def settle(
        self,
        lease: model.Lease,
        event: model.Event,
        outcomes: base.Outcomes,
        now: datetime.datetime,
    ) -> results.Change:
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status_reason=results.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        if after.status != _L.PENDING:
            return event
        if after.start_policy == states.StartPolicy.AUTO:
            return start.become(event, model.START, after, now)
        return start.follow(event, before, after, now, given_up=event.status_reason is not None)
