# SPDX-License-Identifier: Apache-2.0
"""``retry_lease``: looks again whether there is enough for a lease that waits."""

import dataclasses
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, Result, Work

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus

#: There is enough: the lease is PENDING.
GRANTED: Final = 'lease.event.retry_lease'
#: It is not tried any more.
GIVEN_UP: Final = 'lease.event.retry_lease.error'
_NOT_WAITING: Final = 'The lease does not wait any more.'
_OUT_OF_TRIES: Final = 'There was not enough for it as often as it was tried. {}'


class RetryLease(base.EventHandler):
    event_type = model.RETRY
    due = 'each ``[queue] retry_interval``, while the lease is WAITING'
    action = 'looks whether there is enough for it, after those that wait for longer'
    on_failure = 'retried; after a permanent failure, or the last try, the lease is in error'
    notifications = {
        GRANTED: 'there is enough for it by now: it starts at its start date, or at once',
        GIVEN_UP: 'it was tried as often as it may be, and is not tried any more',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    lease_call = 'retry_lease'

    def begin(self, lease: Lease, event: Event, now: datetime) -> Work:
        if lease.status != _L.WAITING:
            return Work(lease, skip_reason=_NOT_WAITING)
        return Work(lease)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        outcome = outcomes[event.id]
        if lease.status != _L.WAITING:
            return Change(lease.with_events(schedule.complete(event, None, now)))
        if outcome.result is Result.RETRY:
            return Change(lease.with_events(schedule.retry(event, [outcome], now)))
        left = (lease.retries_left or 0) - 1
        if outcome.result is Result.FAILED or left < 0:
            why = outcome.reason or ''
            if outcome.result is not Result.FAILED:
                why = _OUT_OF_TRIES.format(why).strip()
            return give_up(lease, event, why, now, _L.ERROR, GIVEN_UP)
        after = dataclasses.replace(lease, retries_left=left, status_reason=outcome.reason)
        due = schedule.retry(event, [outcome], now)
        return Change(after.with_events(dataclasses.replace(due, time=due.next_at or now)))


def give_up(
    lease: Lease, event: Event, reason: str, now: datetime, status: str, told: str
) -> Change:
    """Return a lease that is not tried any more, in a status; the event is in error.

    :param told: the type of the notification
    """
    failed = (
        dataclasses.replace(each, status=_R.ERROR, status_reason=reason, updated_at=now)
        for each in lease.live
        if each.status == _R.PENDING
    )
    after = lease.with_reservations(*failed).moved_to(status, reason)
    if lease.retries_left is not None:
        after = dataclasses.replace(after, retries_left=0)
    if after.event(model.END) is None:
        # It stays readable as long as it would have lasted.
        end = now + timedelta(seconds=lease.duration or 0)
        after = dataclasses.replace(after, end_date=max(end, after.end_date))
        after = after.with_events(model.new_event(lease.id, model.END, after.end_date, now))
    event = schedule.complete(event, reason, now, _E.ERROR)
    return Change(after.with_events(event), {told: reason})
