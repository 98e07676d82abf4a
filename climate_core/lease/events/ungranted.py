# SPDX-License-Identifier: Apache-2.0
"""Handle the events of leases that are not granted yet."""

import dataclasses
from datetime import datetime, timedelta
from typing import ClassVar

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, EventWork, Outcome

_R = states.ReservationStatus
_E = states.EventStatus


class UngrantedEvent(base.EventHandler):
    """Make one call for a lease, as long as it has the status in which it is not granted."""

    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    #: The status of the lease while there is something to do.
    lease_status: ClassVar[states.LeaseStatus]
    #: The reason to skip it in another status.
    needless: ClassVar[str]
    #: The status of a lease that is given up, and the type of the notification.
    given_up_status: ClassVar[states.LeaseStatus]
    given_up_notification: ClassVar[str]

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status != self.lease_status:
            return EventWork(lease, skip_reason=self.needless)
        return EventWork(lease)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if lease.status != self.lease_status:
            return Change(lease.with_events(schedule.complete(event, None, now)))
        return self.settle_outcome(lease, event, outcomes[event.id], now)

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        """Return what a lease is after a call that did not grant it."""
        raise NotImplementedError

    def give_up(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return a lease that is not tried any more; the event is in error."""
        failed = (
            dataclasses.replace(
                each, amounts={}, status=_R.ERROR, status_reason=reason, updated_at=now
            )
            for each in lease.live
            if each.status == _R.PENDING
        )
        after = lease.with_reservations(*failed).moved_to(self.given_up_status, reason)
        if lease.retries_left is not None:
            after = dataclasses.replace(after, retries_left=0)
        if after.event(model.END) is None:
            # The lease stays readable for as long as it would have lasted.
            end = now + timedelta(seconds=lease.duration or 0)
            after = dataclasses.replace(after, end_date=max(end, after.end_date))
            after = after.with_events(model.new_event(lease.id, model.END, after.end_date, now))
        event = schedule.complete(event, reason, now, _E.ERROR)
        return Change(after.with_events(event), {self.given_up_notification: reason})
