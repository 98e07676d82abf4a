# SPDX-License-Identifier: Apache-2.0
"""A preemptible lease gives up what another lease needs."""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_core.lease import model
from climate_core.lease.events import preemption
from tests.support import leases
from tests.support.leases import HOUR, MINUTE, NOON, reservation


def preemptible(status: str = 'PENDING', thing: str = 'pending', **fields: Any) -> model.Lease:
    promised = dataclasses.replace(reservation('r', thing), unit_kind='host')
    return leases.lease(promised, status=status, **{'preemptible': True, 'start': NOON, **fields})


def test_lease_that_is_not_begun_waits_at_once() -> None:
    change = preemption.preempt_lease(preemptible(start=NOON + HOUR), NOON, NOON, NOON)
    assert change is not None
    assert (change.lease.status, change.lease.status_reason) == (
        'WAITING',
        preemption.PREEMPTED_REASON,
    )
    assert change.notifications == {'lease.update': preemption.PREEMPTED_REASON}
    assert change.lease.next_retry_at > NOON


def test_lease_that_runs_is_told_when_it_gives_up_what_it_has() -> None:
    time = NOON + 10 * MINUTE
    change = preemption.preempt_lease(preemptible('ACTIVE', 'active'), time, time, NOON)
    assert change is not None
    assert (change.lease.status, change.lease.preempted_at) == ('ACTIVE', time)
    assert '2026-12-01' in change.lease.status_reason
    assert change.notifications == {'lease.update': change.lease.status_reason}
    assert preemption.preempt_lease(change.lease, time, time, NOON) is None


@pytest.mark.parametrize(
    ('fields', 'time'),
    [
        ({'preemptible': False}, NOON),
        ({'status': 'STARTING'}, NOON),
        ({'status': 'TERMINATING', 'thing': 'active'}, NOON),
        ({'status': 'ACTIVE', 'thing': 'pending'}, NOON),
        # It would have less time than it was promised.
        ({'status': 'ACTIVE', 'thing': 'active'}, NOON - MINUTE),
    ],
)
def test_lease_that_cannot_be_preempted_stays_as_it_is(
    fields: dict[str, Any], time: datetime.datetime
) -> None:
    assert preemption.preempt_lease(preemptible(**fields), time, NOON, NOON) is None


@pytest.mark.parametrize(('status', 'is_kept'), [('IN_PROGRESS', True), ('UNDONE', False)])
def test_lease_whose_resources_are_prepared_is_not_preempted(status: str, is_kept: bool) -> None:
    prepare = model.new_event('lease', model.PREPARE, NOON, NOON, 'r')
    one = preemptible(start=NOON + HOUR).with_events(dataclasses.replace(prepare, status=status))
    assert (preemption.preempt_lease(one, NOON, NOON, NOON) is None) == is_kept


def of_servers(status: str, thing: str) -> model.Lease:
    server = reservation('r', thing)
    return leases.lease(server, status=status, preemptible=True, start=NOON + HOUR)


def test_lease_that_holds_a_server_and_has_not_begun_is_not_preempted() -> None:
    """A server that is RESERVED cannot be shelved."""
    assert preemption.preempt_lease(of_servers('PENDING', 'pending'), NOON, NOON, NOON) is None


def test_lease_of_servers_is_told_that_they_are_shelved() -> None:
    change = preemption.preempt_lease(of_servers('ACTIVE', 'active'), NOON, NOON, NOON)
    assert change is not None
    assert 'its servers are shelved' in change.lease.status_reason
