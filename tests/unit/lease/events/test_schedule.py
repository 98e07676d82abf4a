# SPDX-License-Identifier: Apache-2.0
"""The first events of a lease, and how they follow its dates."""

import dataclasses
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.lease import model, states, transitions
from climate_core.lease.events import schedule
from climate_core.lease.transitions import Outcome, Result
from tests.support.leases import HOUR, MINUTE, NOON, lease

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


@pytest.mark.parametrize(
    ('start', 'seconds', 'told'),
    [
        (NOON + HOUR, (60, 1800, 60), [30, 59]),
        # What is past is told once, and now.
        (NOON + HOUR, (86400, 7200, 3600, 60), [0, 59]),
        (NOON, (60, 86400), []),
        (NOON - HOUR, (60, 86400), []),
    ],
)
def test_only_a_coming_start_is_told_before(
    start: datetime.datetime, seconds: tuple[int, ...], told: list[int]
) -> None:
    new = lease(start=start, end=NOON + 2 * HOUR, events=())
    events = schedule.first_events(new, (), NOON, seconds)
    notices = [(e.time - NOON) / MINUTE for e in events if e.event_type == model.BEFORE_START]
    assert notices == told


def test_a_manual_lease_has_no_start_of_its_own() -> None:
    new = lease(start=NOON + HOUR, end=NOON + 2 * HOUR, start_policy='manual', events=())
    events = schedule.first_events(new, (), NOON, [600])
    assert [(e.event_type, e.time) for e in events] == [
        ('before_start_lease', NOON + datetime.timedelta(minutes=50)),
        ('ready_to_start', NOON + HOUR),
        ('end_lease', NOON + 2 * HOUR),
    ]


def test_at_equal_times_it_is_told_before_anything_else() -> None:
    given = [('note', NOON + HOUR)]
    new = lease(start=NOON + HOUR, end=NOON + HOUR, events=())
    events = schedule.first_events(new, given, NOON)
    assert [e.event_type for e in events] == ['note', 'end_lease', 'start_lease']


_MINUTES = st.integers(-30, 300)
_SECONDS = st.sets(st.sampled_from([60, 600, 1800, 7200]), max_size=3)


def _at(minutes: int) -> datetime.datetime:
    return NOON + datetime.timedelta(minutes=minutes)


def _lease(start: datetime.datetime, seconds: set[int], always: set[int]) -> model.Lease:
    return lease(start=start, before_start=tuple(sorted(seconds)), always=always)


def _tell(one: model.Lease, now: datetime.datetime) -> model.Lease:
    """Do what is due."""
    done = [
        dataclasses.replace(e, status=states.EventStatus.DONE, next_at=None)
        for e in one.events_of(model.BEFORE_START)
        if e.next_at is not None and e.next_at <= now
    ]
    return one.with_events(*done)


def _open(one: model.Lease) -> list[model.Event]:
    return [e for e in one.events_of(model.BEFORE_START) if e.open]


@given(
    start=st.integers(1, 300),
    told=st.integers(0, 300),
    to=_MINUTES,
    seconds=_SECONDS,
    then=_SECONDS,
    always=_SECONDS,
)
def test_what_is_to_come_is_told_as_if_it_had_always_been_so(
    start: int, told: int, to: int, seconds: set[int], then: set[int], always: set[int]
) -> None:
    one = _lease(_at(start), seconds, always)
    now = _at(min(told, start))
    one = _tell(one, now)
    moved = dataclasses.replace(
        one, start_date=now + datetime.timedelta(minutes=to), before_start=tuple(sorted(then))
    )
    after = schedule.move_start_notices(one, moved, sorted(always), now)
    coming = {e.next_at for e in _open(after) if e.next_at is not None and e.next_at > now}
    times = {moved.start_date - datetime.timedelta(seconds=s) for s in then | always}
    assert coming == {t for t in times if t > now}
    due = [e for e in _open(after) if e.next_at is not None and e.next_at <= now]
    assert len(due) <= (1 if to > 0 else 0)
    assert schedule.move_start_notices(after, after, sorted(always), now) == after


@given(first=st.integers(120, 300), second=st.integers(120, 300), seconds=_SECONDS)
def test_there_and_back_is_as_before(first: int, second: int, seconds: set[int]) -> None:
    one = _lease(_at(first), seconds, set())
    there = dataclasses.replace(one, start_date=_at(second))
    there = schedule.move_start_notices(one, there, (), NOON)
    back = schedule.move_start_notices(
        there, dataclasses.replace(there, start_date=_at(first)), (), NOON
    )
    assert sorted(e.time for e in _open(back)) == sorted(e.time for e in _open(one))
