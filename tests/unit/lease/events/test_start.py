# SPDX-License-Identifier: Apache-2.0
"""The start of a lease."""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import events, model, transitions
from climate_core.lease.events import preparation, schedule, start
from climate_core.lease.transitions import DONE, Outcome, Result
from tests.support.leases import HOUR, MINUTE, NOON, claimed, event, lease, reservation

HANDLER = events.get_handler(model.START)
READY = events.get_handler(model.READY)
WAIT = Outcome(Result.WAIT, 5)
SLOW = Outcome(Result.WAIT, 5, 'It has been creating.')
RETRY = Outcome(Result.RETRY, 2, 'Nova is away.')
FAILED = Outcome(Result.FAILED, reason='No image.')
ERROR = 'lease.event.start_lease.error'


@pytest.mark.parametrize(
    ('status', 'fields', 'late', 'skip_reason'),
    [
        ('PENDING', {}, False, None),
        ('STARTING', {}, False, None),
        ('ERROR', {}, False, None),
        ('TERMINATING', {}, False, 'The lease has ended.'),
        ('TERMINATED', {}, False, 'The lease has ended.'),
        ('DELETING', {}, False, 'The lease has ended.'),
        ('PENDING', {'deleted_at': NOON}, False, 'The lease has ended.'),
        ('PENDING', {}, True, 'The lease ended before it could be started.'),
    ],
)
def test_start_begins_unless_there_is_a_reason_to_skip_it(
    status: str, fields: Any, late: bool, skip_reason: str | None
) -> None:
    one, start = claimed(lease(reservation(), status=status, **fields), model.START)
    work = HANDLER.begin(one, start, one.end_date if late else NOON)
    assert work.skip_reason == skip_reason
    assert len(work.reservations) == (0 if skip_reason else 1)
    started = status == 'PENDING' and not skip_reason
    assert work.lease.status == ('STARTING' if started else status)


def test_begin_leaves_out_what_is_not_pending() -> None:
    statuses = ('pending', 'active', 'error', 'deleting', 'deleted')
    one, start = claimed(lease(*(reservation(s, s) for s in statuses)), model.START)
    assert [r.id for r in HANDLER.begin(one, start, NOON).reservations] == ['pending']


def test_begin_cancels_what_is_not_prepared() -> None:
    one, start = claimed(lease(reservation(), start=NOON + HOUR), model.START)
    one = preparation.add_preparations(one, {'thing': None}, NOON)
    work = HANDLER.begin(one, start, NOON + HOUR)
    cancelled = event(work.lease, model.PREPARE)
    assert (cancelled.open, cancelled.status_reason) == (False, preparation.START_FIRST)


@pytest.mark.parametrize(
    ('outcomes', 'statuses', 'status', 'reason', 'told'),
    [
        ([DONE, DONE], ['active', 'active'], 'ACTIVE', None, 'lease.event.start_lease'),
        ([WAIT, DONE], ['pending', 'active'], 'STARTING', None, None),
        ([SLOW, DONE], ['pending', 'active'], 'STARTING', f't a: {SLOW.reason}', None),
        ([RETRY, WAIT], ['pending', 'pending'], 'STARTING', 't a: Nova is away.', None),
        ([FAILED, WAIT], ['error', 'pending'], 'STARTING', 't a: No image.', None),
        ([FAILED, RETRY], ['error', 'pending'], 'STARTING', 't b: Nova is away.', None),
        ([FAILED, DONE], ['error', 'active'], 'ERROR', 't a: No image.', ERROR),
        ([DONE, None], ['active', 'pending'], 'STARTING', None, None),
        ([], [], 'ACTIVE', None, 'lease.event.start_lease'),
    ],
)
def test_start_is_settled_by_its_outcomes(
    outcomes: list[Outcome | None],
    statuses: list[str],
    status: str,
    reason: str | None,
    told: str | None,
) -> None:
    held = [reservation(key) for key, _ in zip('ab', outcomes, strict=False)]
    one, start = claimed(lease(*held, status='STARTING'), model.START)
    given = {key: o for key, o in zip('ab', outcomes, strict=False) if o is not None}
    change = HANDLER.settle(one, start, given, NOON + MINUTE)
    after = change.lease
    assert [r.status for r in after.reservations] == statuses
    assert (after.status, after.status_reason) == (status, reason)
    assert list(change.notifications) == ([told] if told else [])
    assert [r.woken_at is not None for r in after.reservations] == [
        each == 'active' for each in statuses
    ]
    settled = event(after, model.START)
    assert settled.status == {'ACTIVE': 'DONE', 'ERROR': 'ERROR'}.get(status, 'UNDONE')


def test_settle_waits_for_the_first_that_is_due_again() -> None:
    one, start = claimed(lease(reservation('a'), reservation('b'), status='STARTING'), model.START)
    after = HANDLER.settle(one, start, {'a': RETRY, 'b': Outcome(Result.WAIT, 9)}, NOON).lease
    settled = event(after, model.START)
    assert (settled.next_at or NOON) - NOON == 2 * (MINUTE / 60)
    assert (settled.attempts, settled.status_reason) == (1, 'Nova is away.')
    after = HANDLER.settle(after, settled, {'a': WAIT, 'b': WAIT}, NOON).lease
    assert event(after, model.START).attempts == 0
    assert after.status_reason == 't a: Nova is away.'


def test_settle_leaves_alone_what_was_taken_out_meanwhile() -> None:
    one, start = claimed(lease(reservation('a', 'deleting'), status='STARTING'), model.START)
    after = HANDLER.settle(one, start, {'a': DONE}, NOON).lease
    assert after.reservations[0].status == 'deleting'


def test_settle_tells_what_was_lost() -> None:
    lost = dataclasses.replace(reservation('a', 'deleted', 'Gone.'), missing_resources=True)
    one, start = claimed(lease(lost, reservation('b'), status='STARTING'), model.START)
    after = HANDLER.settle(one, start, {'b': DONE}, NOON).lease
    assert (after.status, after.status_reason) == ('ACTIVE', 't a: Gone.')


@pytest.mark.parametrize(
    ('status', 'deleted', 'told'),
    [('PENDING', False, True), ('TERMINATING', False, False), ('PENDING', True, False)],
)
def test_skipped_start_is_in_error_and_told(status: str, deleted: bool, told: bool) -> None:
    one, start = claimed(lease(status=status, deleted_at=NOON if deleted else None), model.START)
    change = HANDLER.skip(one, start, 'Too late.', NOON)
    assert change.notifications == ({ERROR: 'Too late.'} if told else {})
    assert event(change.lease, model.START).status == 'ERROR'


@pytest.mark.parametrize(
    ('policy', 'status', 'done', 'reservations', 'becomes', 'due'),
    [
        ('auto', 'PENDING', False, 'pending', 'start_lease', 1),
        ('manual', 'PENDING', False, 'pending', 'ready_to_start', 1),
        ('auto', 'PENDING', True, 'pending', 'start_lease', 0),
        ('auto', 'ERROR', True, 'error', 'start_lease', 1),
    ],
)
def test_start_moves_with_the_dates_and_the_policy(
    policy: str, status: str, done: bool, reservations: str, becomes: str, due: int
) -> None:
    before = lease(reservation(status=reservations), status=status)
    after = dataclasses.replace(before, start_date=NOON + HOUR, start_policy=policy)
    start = event(before, model.START)
    if done:
        start = transitions.complete_event(start, None, NOON)
    moved = schedule.follow_dates(start, before, after, NOON)
    assert (moved.event_type, moved.next_at) == (becomes, NOON + due * HOUR)
    assert moved.generation == start.generation + 1


def test_move_leaves_a_start_that_is_done() -> None:
    before = lease(reservation(status='active'), status='ACTIVE')
    start = transitions.complete_event(event(before, model.START), None, NOON)
    after = dataclasses.replace(before, end_date=NOON + 9 * HOUR)
    assert schedule.follow_dates(start, before, after, NOON) == start


MANUAL = lease(reservation(), start_policy='manual')
WAITING = event(MANUAL, model.READY)


@pytest.mark.parametrize(
    ('fields', 'late', 'skipped'),
    [
        ({}, False, False),
        ({}, True, True),
        ({'status': 'STARTING'}, False, True),
        ({'status': 'ERROR'}, False, False),
        ({'deleted_at': NOON}, False, True),
    ],
)
def test_ready_event_is_skipped_unless_the_lease_waits(
    fields: dict[str, str], late: bool, skipped: bool
) -> None:
    one = dataclasses.replace(MANUAL, **fields)
    work = READY.begin(one, WAITING, one.end_date if late else NOON)
    assert bool(work.skip_reason) == skipped


@pytest.mark.parametrize('status', ['PENDING', 'ERROR'])
def test_ready_event_says_that_the_lease_waits_for_its_user(status: str) -> None:
    one = dataclasses.replace(MANUAL, status=status, status_reason='why')
    change = READY.settle(one, WAITING, {}, NOON)
    waits = status == 'PENDING'
    assert change.lease.status_reason == (transitions.WAITS_FOR_USER if waits else 'why')
    assert list(change.notifications) == ['lease.event.ready_to_start']
    assert transitions.user_start_reason(change.lease) == (
        transitions.WAITS_FOR_USER if waits else None
    )


@pytest.mark.parametrize(
    ('status', 'policy', 'done', 'becomes', 'due'),
    [
        ('PENDING', 'manual', None, model.READY, 1),
        ('PENDING', 'auto', None, model.START, 1),
        ('PENDING', 'manual', 'told', model.READY, 1),
        ('PENDING', 'manual', 'given up', model.READY, 0),
        ('ACTIVE', 'manual', None, model.READY, 0),
    ],
)
def test_ready_event_moves_with_the_dates_and_the_policy(
    status: str, policy: str, done: str | None, becomes: str, due: int
) -> None:
    before = dataclasses.replace(MANUAL, status=status)
    after = dataclasses.replace(before, start_date=NOON + HOUR, start_policy=policy)
    why = 'There is nothing to start any more.' if done == 'given up' else None
    ready = transitions.complete_event(WAITING, why, NOON) if done else WAITING
    moved = schedule.follow_dates(ready, before, after, NOON)
    assert (moved.event_type, moved.next_at) == (becomes, NOON + due * HOUR)


def _manual(**fields: Any) -> model.Lease:
    return lease(reservation(), start_policy='manual', **fields)


@pytest.mark.parametrize(
    ('fields', 'now', 'message'),
    [
        ({'start_policy': 'auto'}, NOON, 'starts automatically'),
        ({}, NOON - MINUTE, 'cannot be started before'),
        ({}, NOON + 2 * HOUR, 'has ended'),
        ({'status': 'TERMINATING'}, NOON, 'has ended'),
        ({'status': 'TERMINATED'}, NOON, 'has ended'),
        ({'status': 'DELETING'}, NOON, 'has ended'),
    ],
)
def test_start_is_refused_unless_the_lease_waits_for_its_user(
    fields: dict[str, str], now: datetime.datetime, message: str
) -> None:
    with pytest.raises(exceptions.InvalidState, match=message):
        start.start_lease(lease(**{'start_policy': 'manual', **fields}), now)


@pytest.mark.parametrize(('status', 'becomes'), [('PENDING', 'STARTING'), ('ERROR', 'ERROR')])
def test_start_is_due_now(status: str, becomes: str) -> None:
    change = start.start_lease(_manual(status=status, status_reason='why'), NOON + MINUTE)
    after = change.lease
    assert (after.status, change.notifications) == (becomes, {'lease.update': None})
    assert after.status_reason == (None if becomes == 'STARTING' else 'why')
    assert event(after, model.START).next_at == NOON + MINUTE
    ready = event(after, model.READY)
    assert (ready.open, ready.status_reason) == (False, 'Its user started the lease.')
    again = start.start_lease(after, NOON + HOUR)
    assert (again.lease, again.notifications) == (after, {})
