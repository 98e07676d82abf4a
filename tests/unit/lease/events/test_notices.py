# SPDX-License-Identifier: Apache-2.0
"""Events that only notify: of the coming start, the coming end, and those of users."""

import dataclasses
import datetime

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import schedule
from tests.support.leases import HOUR, MINUTE, NOON, event, lease

ONE = lease(
    before_end_date=NOON + HOUR, before_start=(600,), now=NOON - HOUR, given=[('note', NOON)]
)


@pytest.mark.parametrize('kind', [model.BEFORE_START, model.BEFORE_END, 'note'])
def test_a_notice_tells_of_its_lease_unless_that_is_deleted(kind: str) -> None:
    handler, notice = events.get_handler(kind), event(ONE, kind)
    assert handler.begin(ONE, notice, NOON).skip_reason is None
    deleted = dataclasses.replace(ONE, deleted_at=NOON)
    assert handler.begin(deleted, notice, NOON).skip_reason == 'The lease is deleted.'
    change = handler.settle(ONE, notice, {}, NOON)
    assert change.notifications == {f'lease.event.{kind}': None}
    assert event(change.lease, kind).status == 'DONE'


@pytest.mark.parametrize(
    ('kind', 'end', 'told', 'time'),
    [
        ('note', NOON + 9 * HOUR, NOON + 8 * HOUR, NOON),
        ('note', NOON - MINUTE, NOON - 2 * MINUTE, NOON - MINUTE),
        (model.BEFORE_END, NOON + 9 * HOUR, NOON + 8 * HOUR, NOON + 8 * HOUR),
        (model.BEFORE_END, NOON + MINUTE, None, NOON + MINUTE),
        (model.BEFORE_START, NOON - HOUR, None, NOON - 10 * MINUTE),
    ],
)
def test_notices_move_with_the_dates(
    kind: str, end: datetime.datetime, told: datetime.datetime | None, time: datetime.datetime
) -> None:
    after = dataclasses.replace(ONE, end_date=end, before_end_date=told)
    assert schedule.follow_dates(event(ONE, kind), ONE, after, NOON).time == time


@pytest.mark.parametrize(('now', 'seconds'), [(NOON - HOUR, 3600), (NOON, 0), (NOON + HOUR, 0)])
def test_payload_of_a_coming_start(now: datetime.datetime, seconds: int) -> None:
    assert events.get_handler(model.BEFORE_START).payload(ONE, now) == {'starts_in': seconds}
    assert events.get_handler(model.BEFORE_END).payload(ONE, now) == {}


def test_a_lease_gets_the_notice_that_it_did_not_have() -> None:
    before = lease()
    after = dataclasses.replace(before, before_end_date=NOON + HOUR)
    added = schedule.add_before_end(before, after, NOON)
    assert event(added, model.BEFORE_END).time == NOON + HOUR
    assert schedule.add_before_end(ONE, ONE, NOON) == ONE
    assert schedule.add_before_end(before, before, NOON) == before


def test_an_end_that_is_not_near_any_more() -> None:
    done = ONE.with_events(transitions.complete_event(event(ONE, model.BEFORE_END), None, NOON))
    assert schedule.is_revoked(done, ONE)
    assert not schedule.is_revoked(done, done)
    assert not schedule.is_revoked(ONE, ONE)
