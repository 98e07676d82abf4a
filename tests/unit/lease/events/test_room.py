# SPDX-License-Identifier: Apache-2.0
"""``make_room``: hosts are emptied until they are, or time is up."""

import pytest

from climate_core.lease import model
from climate_core.lease.events import queue
from climate_core.lease.transitions import Outcome, Result
from tests.support import leases
from tests.support.leases import HOUR, NOON


@pytest.mark.parametrize(
    ('outcome', 'status', 'reason', 'progress', 'told'),
    [
        (
            Outcome(Result.WAIT, 2.0, 'moved 1 of 2', {'closed': {}}),
            'IN_PROGRESS',
            'moved 1 of 2',
            {'closed': {}},
            {},
        ),
        (Outcome(Result.RETRY, 2.0), 'IN_PROGRESS', 'full', {'until': 'x'}, {}),
        (
            Outcome(Result.FAILED, reason='too late'),
            'TIMEDOUT',
            'too late',
            {'until': 'x'},
            {queue.DRAIN_TIMED_OUT: 'too late'},
        ),
    ],
)
def test_room_is_made_until_the_time_is_over(outcome, status, reason, progress, told) -> None:
    new = leases.lease(leases.reservation('r'), start=NOON + HOUR)
    lease = queue.drain_hosts_for(new, {'until': 'x'}, None, 'full', NOON)
    busy, event = leases.claimed(lease, model.MAKE_ROOM)
    change = queue.MakeRoom().settle(busy, event, {event.id: outcome}, NOON)
    after = change.lease
    assert (after.status, after.status_reason) == (status, reason)
    assert after.reservations[0].progress == progress
    assert change.notifications == told
    assert leases.event(after, model.MAKE_ROOM).open is (status == 'IN_PROGRESS')
