# SPDX-License-Identifier: Apache-2.0
"""Preemption of a lease."""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import preemption, preparation
from tests.support import leases
from tests.support.leases import HOUR, MINUTE, NOON, reservation

HANDLER = events.get_handler(model.PREEMPT)
TIME = NOON + HOUR
FAILED = transitions.Outcome(transitions.Result.RETRY, 5.0, 'A server is not shelved.')


def running(*ids: str) -> tuple[model.Lease, model.Event]:
    """Return a lease that is to give up its things, and the event for it, which is claimed."""
    things = [
        dataclasses.replace(reservation(each, 'active'), amounts={'vcpus': 4}, woken_at=NOON)
        for each in ids
    ]
    one = leases.lease(*things, status='ACTIVE', preemptible=True)
    one = one.with_events(model.new_event('lease', model.PREEMPT, TIME, NOON))
    return leases.claimed(one, model.PREEMPT)


def test_begin_takes_what_the_lease_has_and_cancels_what_would_bring_more() -> None:
    one, event = running('a', 'b')
    follow = model.new_event('lease', model.REALLOCATE, TIME, NOON, 'a')
    work = HANDLER.begin(one.with_events(follow), event, TIME)
    assert [each.id for each in work.reservations] == ['a', 'b']
    assert not leases.event(work.lease, model.REALLOCATE).open


def test_begin_is_skipped_when_the_lease_does_not_run() -> None:
    one, event = running('a')
    work = HANDLER.begin(one.moved_to('TERMINATING', None), event, TIME)
    assert (work.skip_reason, work.reservations) == ('The lease has nothing to preempt.', ())


def test_lease_that_gave_up_all_waits_and_keeps_the_ids_of_its_reservations() -> None:
    one, event = running('a')
    change = HANDLER.settle(one, event, {'a': transitions.DONE}, TIME)
    after = change.lease
    assert (after.status, after.status_reason) == ('WAITING', preemption.PREEMPTED_REASON)
    assert change.notifications == {preemption.PREEMPTED: preemption.PREEMPTED_REASON}
    assert after.next_retry_at == TIME + preparation.RETRY_PAUSE
    waits, had = after.reservations
    assert (waits.id, waits.status, waits.amounts, waits.woken_at) == ('a', 'pending', {}, None)
    assert (had.status, had.amounts, had.freed_at) == ('deleted', {'vcpus': 4}, TIME)
    assert had.woken_at == NOON


def test_what_a_lease_lacked_is_forgotten_with_what_it_gave_up() -> None:
    one, event = running('a')
    lacking = {'missing_resources': True, 'resources_changed': True, 'status_reason': 'A host.'}
    one = one.with_reservations(dataclasses.replace(one.reservations[0], **lacking))
    after = HANDLER.settle(
        dataclasses.replace(one, degraded=True), event, {'a': transitions.DONE}, TIME
    )
    waits, had = after.lease.reservations
    assert (waits.missing_resources, waits.resources_changed) == (False, False)
    assert (after.lease.degraded, waits.status_reason) == (False, None)
    assert had.missing_resources


def test_lease_that_gave_up_a_part_tries_the_rest_again() -> None:
    one, event = running('a', 'b')
    change = HANDLER.settle(one, event, {'a': transitions.DONE, 'b': FAILED}, TIME)
    after = change.lease
    assert (after.status, after.status_reason) == ('ACTIVE', 't b: A server is not shelved.')
    assert change.notifications == {}
    assert [each.status for each in after.reservations] == ['pending', 'active', 'deleted']
    again = leases.event(after, model.PREEMPT)
    assert (again.open, HANDLER.retries_forever(after, again)) == (True, True)


@pytest.mark.parametrize('retries_left', [None, 3])
def test_preempted_lease_waits_without_a_limit_of_tries(retries_left: int | None) -> None:
    one, _ = running('a')
    after = preemption.requeue_preempted(dataclasses.replace(one, retries_left=retries_left), TIME)
    assert (after.status, after.retries_left) == ('WAITING', None)


def test_server_that_gave_way_keeps_what_it_is_to_hold_and_its_time_is_kept() -> None:
    """It is billed from when it was there the first time, and then from when it starts again."""
    one, event = running('a')
    early = NOON - HOUR
    one = one.with_reservations(dataclasses.replace(one.reservations[0], created_at=early))
    after = HANDLER.settle(one, event, {'a': transitions.DONE}, TIME).lease
    waits, had = after.reservations
    assert waits.params[model.HOLDS] == {'vcpus': 4}
    assert (had.resource_id, had.freed_at) == (waits.resource_id, TIME)
    assert preemption._held_since(one, one.reservations[0]) == early
    assert preemption._held_since(after, waits) == one.start_date


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
    assert '2082-12-01' in change.lease.status_reason
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
