# SPDX-License-Identifier: Apache-2.0
"""``retry_lease``: tried until there is enough, or given up."""

import datetime

import pytest

from climate_core.lease import model
from climate_core.lease.events import queue
from climate_core.lease.transitions import Change, Outcome, Result
from tests.support import leases
from tests.support.leases import HOUR, NOON

NONE_FREE = Outcome(Result.WAIT, 60.0, 'none is free')


def waiting(retries: int = 1, duration: datetime.timedelta | None = None) -> model.Lease:
    new = leases.lease(leases.reservation('r'), start=NOON + HOUR)
    return queue.queue_lease(new, retries, duration, 'none is free', NOON, 60.0)


def settle(lease: model.Lease, outcome: Outcome, now: datetime.datetime = NOON) -> Change:
    busy, event = leases.claimed(lease, model.RETRY)
    return queue.RetryLease().settle(busy, event, {event.id: outcome}, now)


@pytest.mark.parametrize(
    ('retries', 'outcome', 'status', 'left', 'told'),
    [
        (2, NONE_FREE, 'WAITING', 1, []),
        (1, NONE_FREE, 'WAITING', 0, []),
        (0, NONE_FREE, 'ERROR', 0, [queue.RETRY_FAILED]),
        # Another lease was preferred.
        (None, NONE_FREE, 'WAITING', None, []),
        # What failed for a while is not counted.
        (0, Outcome(Result.RETRY, 5.0, 'away'), 'WAITING', 0, []),
        (2, Outcome(Result.FAILED, reason='no flavor'), 'ERROR', 0, [queue.RETRY_FAILED]),
    ],
)
def test_tries_are_counted_and_the_last_gives_up(retries, outcome, status, left, told) -> None:
    change = settle(waiting(retries), outcome)
    assert (change.lease.status, change.lease.retries_left) == (status, left)
    assert [*change.notifications] == told


@pytest.mark.parametrize(
    ('duration', 'now', 'end'),
    [(None, NOON, NOON + 3 * HOUR), (HOUR, NOON + 9 * HOUR, NOON + 10 * HOUR)],
)
def test_lease_that_is_given_up_stays_readable_until_an_end(duration, now, end) -> None:
    lease = settle(waiting(0, duration), NONE_FREE, now).lease
    assert lease.never_granted
    assert leases.event(lease, model.END).time == end
    assert [(each.status, each.amounts) for each in lease.reservations] == [('error', {})]
