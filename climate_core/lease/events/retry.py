# SPDX-License-Identifier: Apache-2.0
"""``retry_lease``: looks again whether there is enough for a lease that waits."""

import dataclasses
from datetime import datetime
from typing import Final

from climate_core.lease import model, schedule, states
from climate_core.lease.events import ungranted
from climate_core.lease.model import Event, Lease
from climate_core.lease.results import Change, Outcome, Result

#: The notification that there is enough: the lease is PENDING.
GRANTED: Final = 'lease.event.retry_lease'
#: The notification that it is not tried any more.
GIVEN_UP: Final = 'lease.event.retry_lease.error'
_OUT_OF_TRIES: Final = 'There was not enough for it as often as it was tried. {}'


class RetryLease(ungranted.UngrantedEvent):
    event_type = model.RETRY
    due = 'each ``[queue] retry_interval``, while the lease is WAITING'
    action = 'looks whether there is enough for it, after those that wait for longer'
    on_failure = 'retried; after a permanent failure, or the last try, the lease is in error'
    notifications = {
        GRANTED: 'there is enough for it by now: it starts at its start date, or at once',
        GIVEN_UP: 'it was tried as often as it may be, and is not tried any more',
    }
    lease_status = states.LeaseStatus.WAITING
    needless = 'The lease does not wait any more.'
    given_up_status = states.LeaseStatus.ERROR
    given_up_notification = GIVEN_UP
    lease_call = 'retry_lease'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.RETRY:
            return Change(lease.with_events(schedule.retry(event, [outcome], now)))
        # One that is preempted is tried until its end, however late that is.
        left = None if lease.retries_left is None else lease.retries_left - 1
        if outcome.result is Result.FAILED or left == -1:
            why = outcome.reason or ''
            if outcome.result is not Result.FAILED:
                why = _OUT_OF_TRIES.format(why).strip()
            return self.give_up(lease, event, why, now)
        after = dataclasses.replace(lease, retries_left=left, status_reason=outcome.reason)
        due = schedule.retry(event, [outcome], now)
        return Change(after.with_events(dataclasses.replace(due, time=due.next_at or now)))
