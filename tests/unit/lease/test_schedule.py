# SPDX-License-Identifier: Apache-2.0
"""An event is cancelled, moved or repeated; a claim on it is lost by that."""

import dataclasses
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.lease import model, transitions
from climate_core.lease.events import schedule
from climate_core.lease.transitions import Outcome, Result
from tests.support.leases import HOUR, NOON

WAIT = Outcome(Result.WAIT, 5)
RETRY = Outcome(Result.RETRY, 2, 'away')
EVENT = dataclasses.replace(
    model.new_event('lease', 'note', NOON, NOON), attempts=3, generation=5, status_reason='away'
)


TIMES = st.datetimes(timezones=st.just(datetime.UTC))


@given(st.tuples(TIMES, TIMES), st.tuples(TIMES, TIMES))
def test_notice_of_the_end_stays_within_the_lease(
    old: tuple[datetime.datetime, ...], new: tuple[datetime.datetime, ...]
) -> None:
    before, old_end = sorted(old)
    start, end = sorted(new)
    told = schedule.move_before_end(before, old_end, start, end)
    assert start <= told <= end
    assert told == start or end - told == old_end - before


@pytest.mark.parametrize('status', ['UNDONE', 'IN_PROGRESS'])
def test_cancelled_event_is_done_with_a_reason(status: str) -> None:
    after = transitions.cancel_event(dataclasses.replace(EVENT, status=status), 'why', NOON)
    assert (after.status, after.status_reason, after.next_at) == ('DONE', 'why', None)
    assert after.generation == EVENT.generation + 1


@pytest.mark.parametrize('status', ['DONE', 'ERROR'])
def test_cancel_event_leaves_what_is_done(status: str) -> None:
    done = dataclasses.replace(EVENT, status=status)
    assert transitions.cancel_event(done, 'why', NOON) == done


@pytest.mark.parametrize('status', ['UNDONE', 'IN_PROGRESS', 'DONE', 'ERROR'])
def test_rescheduled_event_is_undone_and_due_then(status: str) -> None:
    after = transitions.reschedule_event(
        dataclasses.replace(EVENT, status=status), NOON + HOUR, NOON
    )
    assert (after.status, after.status_reason, after.attempts) == ('UNDONE', None, 0)
    assert (after.next_at, after.time) == (NOON + HOUR, NOON)
    assert after.generation == EVENT.generation + 1


@pytest.mark.parametrize(
    ('status', 'hours', 'due'),
    [('UNDONE', 1, True), ('UNDONE', -1, True), ('DONE', 1, True), ('DONE', -1, False)],
)
def test_moved_event_is_due_at_its_new_time(status: str, hours: int, due: bool) -> None:
    event = dataclasses.replace(EVENT, status=status, next_at=None)
    after = transitions.move_event(event, NOON + hours * HOUR, NOON)
    assert after.time == NOON + hours * HOUR
    assert (after.open, after.next_at is not None) == (due, due)


@pytest.mark.parametrize(
    ('outcomes', 'seconds', 'reason', 'attempts'),
    [
        ([WAIT], 5, None, 0),
        ([WAIT, RETRY], 2, 'away', 4),
        ([Outcome(Result.RETRY, 9, 'locked'), WAIT], 5, 'locked', 4),
        ([Outcome(Result.WAIT, -1)], 0, None, 0),
    ],
)
def test_retry_is_due_after_the_shortest_wait(
    outcomes: list[Outcome], seconds: float, reason: str | None, attempts: int
) -> None:
    due = dataclasses.replace(EVENT, status='IN_PROGRESS')
    after = transitions.retry_event(due, outcomes, NOON)
    assert after.status == 'UNDONE'
    assert ((after.next_at or NOON) - NOON).total_seconds() == seconds
    assert (after.status_reason, after.attempts) == (reason, attempts)


def test_move_event_to_its_own_time_keeps_its_claim() -> None:
    busy = dataclasses.replace(EVENT, status='IN_PROGRESS')
    assert transitions.move_event(busy, busy.time, NOON - HOUR) == busy
