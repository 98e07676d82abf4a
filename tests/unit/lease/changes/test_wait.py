# SPDX-License-Identifier: Apache-2.0
"""Leases that wait until there is enough, by tables."""

import dataclasses
import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import model, transitions
from climate_core.lease.events import queue
from tests.support import leases
from tests.support.leases import HOUR, NOON

LATER = NOON + 5 * HOUR


def new(**fields) -> model.Lease:
    one = dataclasses.replace(leases.reservation('r'), amounts={'hosts': 1})
    return leases.lease(one, start=NOON + HOUR, **fields)


def waiting(duration: datetime.timedelta | None = None, **fields) -> model.Lease:
    return queue.queue_lease(new(**fields), 3, duration, 'none is free', NOON, 60.0)


def types(lease: model.Lease) -> list[str]:
    return sorted(each.event_type for each in lease.events if each.open)


@pytest.mark.parametrize(
    ('duration', 'kept'), [(None, [model.END, model.RETRY]), (HOUR, [model.RETRY])]
)
def test_lease_that_waits_holds_nothing_and_is_tried_later(duration, kept) -> None:
    lease = waiting(duration)
    assert (lease.status, lease.status_reason) == ('WAITING', 'none is free')
    assert lease.retries_left == 3
    assert [each.amounts for each in lease.reservations] == [{}]
    assert types(lease) == sorted(kept)
    assert lease.next_retry_at == NOON + datetime.timedelta(seconds=60)


def test_lease_for_which_hosts_are_emptied_counts_for_limits() -> None:
    lease = queue.drain_hosts_for(new(), {'until': 'x'}, HOUR, None, NOON)
    assert (lease.status, types(lease)) == ('IN_PROGRESS', [model.MAKE_ROOM])
    assert [(e.amounts, e.progress) for e in lease.reservations] == [
        ({'hosts': 1}, {'until': 'x'})
    ]
    assert lease.duration == 3600


@pytest.mark.parametrize(
    ('duration', 'now', 'start', 'end'),
    [
        (None, NOON, NOON + HOUR, NOON + 3 * HOUR),
        (None, NOON + 2 * HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR),
        (2 * HOUR, NOON, NOON + HOUR, NOON + 3 * HOUR),
        (2 * HOUR, LATER, LATER, LATER + 2 * HOUR),
    ],
)
def test_grant_moves_a_lease_to_now(duration, now, start, end) -> None:
    change = queue.grant_lease(waiting(duration), {'r': {'hosts': 2}}, now)
    lease = change.lease
    assert (lease.status, lease.start_date, lease.end_date) == ('PENDING', start, end)
    assert (lease.retries_left, lease.duration) == (None, None)
    assert lease.reservations[0].amounts == {'hosts': 2}
    assert types(lease) == sorted([model.START, model.END])
    assert {model.START: start, model.END: end} == {
        each.event_type: each.time for each in lease.events if each.open
    }
    assert change.notifications == {queue.RETRY_GRANTED: None}


def test_grant_of_emptied_hosts_is_told_as_room() -> None:
    lease = queue.drain_hosts_for(new(), {'until': 'x'}, None, None, NOON)
    change = queue.grant_lease(lease, {}, NOON)
    assert change.notifications == {queue.HOSTS_DRAINED: None}
    assert change.lease.reservations[0].progress is None


@pytest.mark.parametrize(
    ('fields', 'text'),
    [
        ({'status': 'TIMEDOUT'}, 'waited as long as it may'),
        ({'status': 'IN_PROGRESS'}, 'Hosts are being emptied'),
        ({'status': 'WAITING', 'retries_left': 2}, None),
        ({'status': 'ACTIVE'}, None),
    ],
)
def test_check_not_given_up(fields, text) -> None:
    lease = new(**fields)
    if text is None:
        transitions.check_changeable(lease)
        return
    with pytest.raises(exceptions.InvalidState, match=text):
        transitions.check_changeable(lease)


@pytest.mark.parametrize('duration', [None, HOUR])
def test_try_now_makes_the_next_try_due(duration) -> None:
    lease = queue.retry_now(waiting(duration), LATER)
    assert lease.next_retry_at == LATER
    assert (model.END in types(lease)) is (duration is None)
