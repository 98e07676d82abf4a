# SPDX-License-Identifier: Apache-2.0
"""The notices of the coming start follow it, wherever it goes."""

import dataclasses
import datetime

from hypothesis import given
from hypothesis import strategies as st

from climate_core.lease import model, states
from climate_core.lease.events import schedule
from tests.support.leases import NOON, lease

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
