# SPDX-License-Identifier: Apache-2.0
"""What is prepared before the start, and what others did to the lease meanwhile.

An end, a start and a removal cancel what prepares.
"""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import preparation, schedule
from tests.support.leases import HOUR, NOON, event, lease, reservation

HANDLER = events.get_handler(model.PREPARE)
FAILED = transitions.Outcome(transitions.Result.FAILED, reason='No room.')
AWAY = transitions.Outcome(transitions.Result.RETRY, 2, 'Heat is away.')
WAIT = transitions.Outcome(transitions.Result.WAIT, 5)
SLOW = transitions.Outcome(transitions.Result.WAIT, 5, 'It takes long.')


def preparing(
    status: str = 'PENDING', held: str = 'pending', reason: str | None = None, **fields: Any
) -> tuple[model.Lease, model.Event]:
    """Return a lease of one reservation that is being prepared, and the event that does so."""
    one = lease(
        reservation('thing', held, reason),
        start=NOON + HOUR,
        status=status,
        status_reason=reason,
        **fields,
    )
    due = model.new_event('lease', model.PREPARE, NOON, NOON, 'thing')
    return one.with_events(due), due


@pytest.mark.parametrize(
    ('status', 'held', 'skipped'),
    [
        ('PENDING', 'pending', False),
        ('ERROR', 'error', False),
        ('STARTING', 'active', True),
        ('ACTIVE', 'deleting', True),
        ('TERMINATING', 'pending', True),
        ('DELETING', 'pending', True),
    ],
)
def test_preparation_is_skipped_once_the_lease_starts_or_ends(
    status: str, held: str, skipped: bool
) -> None:
    one, due = preparing(status, held)
    work = HANDLER.begin(one, due, NOON)
    assert (bool(work.skip_reason), len(work.reservations)) == (skipped, 0 if skipped else 1)


@pytest.mark.parametrize(
    ('outcome', 'status', 'held', 'reason', 'event_status'),
    [
        (transitions.DONE, 'PENDING', 'pending', None, 'DONE'),
        (WAIT, 'PENDING', 'pending', None, 'UNDONE'),
        (SLOW, 'PENDING', 'pending', 'It takes long.', 'UNDONE'),
        (AWAY, 'PENDING', 'pending', 'Heat is away.', 'UNDONE'),
        (FAILED, 'ERROR', 'error', 'No room.', 'UNDONE'),
    ],
)
def test_preparation_is_settled_by_its_outcome(
    outcome: transitions.Outcome, status: str, held: str, reason: str | None, event_status: str
) -> None:
    one, due = preparing()
    change = HANDLER.settle(one, due, {'thing': outcome}, NOON)
    after = change.lease
    told = f't thing: {reason}' if reason else None
    assert (after.status, after.status_reason) == (status, told)
    assert (after.reservations[0].status, after.reservations[0].status_reason) == (held, reason)
    assert event(after, model.PREPARE).status == event_status
    assert change.notifications == ({'lease.update': told} if outcome is FAILED else {})


def test_what_failed_is_freed_next_and_keeps_its_reason() -> None:
    one, due = preparing()
    one = HANDLER.settle(one, due, {'thing': FAILED}, NOON).lease
    due, (failed,) = event(one, model.PREPARE), one.reservations
    assert due.next_at == NOON
    assert HANDLER.plugin_method(one, failed) == 'rollback_prepare'
    assert HANDLER.retries_forever(one, due)
    again = HANDLER.settle(one, due, {'thing': AWAY}, NOON).lease
    assert (again.reservations, event(again, model.PREPARE).attempts) == (one.reservations, 1)
    freed = HANDLER.settle(one, due, {'thing': transitions.DONE}, NOON).lease
    done = event(freed, model.PREPARE)
    assert (done.status, done.status_reason) == ('ERROR', 'No room.')
    assert preparation.failed_preparations(freed) == {'thing'}


def test_what_is_prepared_is_not_freed() -> None:
    one, due = preparing()
    assert HANDLER.plugin_method(one, one.reservations[0]) == 'prepare'
    assert not HANDLER.retries_forever(one, due)
    assert preparation.failed_preparations(one) == frozenset()


@pytest.mark.parametrize('held', ['active', 'deleting'])
@pytest.mark.parametrize('outcome', [FAILED, transitions.DONE])
def test_what_came_of_it_is_too_late(held: str, outcome: transitions.Outcome) -> None:
    """The resource is awake already, or taken out."""
    one, due = preparing('STARTING', held)
    after = HANDLER.settle(one, due, {'thing': outcome}, NOON).lease
    assert (after.status, after.reservations) == (one.status, one.reservations)
    assert event(after, model.PREPARE).status == 'DONE'


def test_the_reason_stays_while_it_is_waited_for() -> None:
    one, due = preparing(reason='Heat is away.')
    after = HANDLER.settle(one, due, {'thing': WAIT}, NOON).lease
    assert after.reservations[0].status_reason == 'Heat is away.'
    done = HANDLER.settle(one, due, {'thing': transitions.DONE}, NOON).lease
    assert done.reservations[0].status_reason is None


def test_a_manual_lease_goes_on_waiting_when_all_is_prepared() -> None:
    one, due = preparing(reason='Heat is away.', start_policy='manual')
    one = one.with_events(transitions.complete_event(event(one, model.READY), None, NOON))
    after = HANDLER.settle(one, due, {'thing': transitions.DONE}, NOON).lease
    assert after.status_reason == transitions.WAITS_FOR_USER


@pytest.mark.parametrize(
    ('status_reason', 'broken_off'),
    [(None, False), (preparation.START_FIRST, False), ('The end came first.', True)],
)
def test_preparation_was_broken_off_by_its_reason(
    status_reason: str | None, broken_off: bool
) -> None:
    one, due = preparing()
    one = one.with_events(dataclasses.replace(due, status='DONE', status_reason=status_reason))
    assert preparation.was_interrupted(one, one.reservations[0]) is broken_off


def test_nothing_is_prepared_when_the_start_has_begun() -> None:
    one, _ = preparing()
    assert preparation.add_preparations(one, {'thing': None}, NOON + HOUR) == one
    (_, second) = preparation.add_preparations(one, {'thing': None}, NOON).events_of(model.PREPARE)
    assert (second.reservation_id, second.next_at) == ('thing', NOON)


@pytest.mark.parametrize(
    ('distance', 'start', 'time'),
    [
        # What was done at once is not done again.
        (None, NOON + 3 * HOUR, NOON),
        (HOUR / 2, NOON + 3 * HOUR, NOON + 5 * HOUR / 2),
        (HOUR / 2, NOON + HOUR / 4, NOON),
    ],
)
def test_what_is_prepared_before_the_start_follows_it(
    distance: datetime.timedelta | None, start: datetime.datetime, time: datetime.datetime
) -> None:
    one = lease(reservation('thing', 'pending'), start=NOON + HOUR)
    one = preparation.add_preparations(one, {'thing': distance}, NOON)
    due = event(one, model.PREPARE)
    assert due.next_at == (NOON if distance is None else NOON + HOUR - distance)
    moved = schedule.follow_dates(due, one, dataclasses.replace(one, start_date=start), NOON)
    assert (moved.time, moved.next_at) == (time, time)


def test_what_is_missing_says_why_when_the_rest_is_prepared() -> None:
    one, due = preparing(reason='Host cn1 failed.')
    gone = dataclasses.replace(one.reservations[0], missing_resources=True)
    done = transitions.Outcome(transitions.Result.DONE, progress={'kept': 1})
    one = HANDLER.settle(one.with_reservations(gone), due, {'thing': done}, NOON).lease
    (after,) = one.reservations
    assert (after.status_reason, after.progress) == ('Host cn1 failed.', {'kept': 1})


def test_groups_of_one_request_are_made_and_freed_together() -> None:
    """One that was asked for later is not."""
    made = [reservation(name, **{model.GROUP: name}) for name in ('a', 'b', 'later')]
    one = preparation.add_preparations(lease(*made), dict.fromkeys(('a', 'b')), NOON)
    one = preparation.add_preparations(one, {'later': None}, NOON + HOUR)
    due = {str(each.reservation_id): each for each in one.events_of(model.PREPARE)}
    for name in ('a', 'later'):
        one = HANDLER.settle(one, due[name], {name: transitions.DONE}, NOON).lease
    assert preparation.blocks_start(one) == {'a', 'b'}
    one = HANDLER.settle(one, due['b'], {'b': FAILED}, NOON).lease
    assert [each.status for each in one.reservations] == ['error', 'error', 'pending']
    assert preparation.failed_preparations(one) == {'a', 'b'}
    assert preparation.blocks_start(one) == set()


@pytest.mark.parametrize(
    ('next_at', 'then'),
    [
        # It has waited for what is made, and would look again later.
        (NOON + HOUR, NOON + HOUR / 2),
        # Nobody has looked at it yet.
        (NOON, NOON),
    ],
)
def test_start_that_waited_for_what_is_made_is_due_now_or_stays_overdue(
    next_at: datetime.datetime, then: datetime.datetime
) -> None:
    params = {model.GROUP: 'group'}
    made = dataclasses.replace(reservation('thing', 'pending'), params=params)
    begins = model.new_event('lease', model.START, NOON, NOON)
    due = model.new_event('lease', model.PREPARE, NOON, NOON, 'thing')
    one = lease(made, start=NOON, events=())
    one = one.with_events(dataclasses.replace(begins, next_at=next_at), due)
    change = HANDLER.settle(one, due, {'thing': transitions.DONE}, NOON + HOUR / 2)
    assert event(change.lease, model.START).next_at == then
