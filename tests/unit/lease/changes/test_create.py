# SPDX-License-Identifier: Apache-2.0
"""The events that a new lease has."""

import datetime

import pytest

from climate_core.lease import changes
from tests.support.leases import HOUR, NOON


def _minutes(start: datetime.datetime, *seconds: int) -> list[float]:
    return [
        (t - NOON).total_seconds() / 60 for t in changes.create.start_notices(start, seconds, NOON)
    ]


def test_a_coming_start_is_told_as_often_as_wanted() -> None:
    assert _minutes(NOON + HOUR, 60, 1800, 60) == [30, 59]


def test_what_is_past_is_told_once_and_now() -> None:
    assert _minutes(NOON + HOUR, 86400, 7200, 3600, 60) == [0, 59]


@pytest.mark.parametrize('start', [NOON, NOON - HOUR])
def test_a_start_that_is_now_is_not_told_before(start: datetime.datetime) -> None:
    assert _minutes(start, 60, 86400) == []


def test_a_manual_lease_has_no_start_of_its_own() -> None:
    events = changes.create.first_events(
        'lease', NOON + HOUR, NOON + 2 * HOUR, None, (), NOON, manual=True, before_start=[600]
    )
    assert [(e.event_type, e.time) for e in events] == [
        ('before_start_lease', NOON + datetime.timedelta(minutes=50)),
        ('ready_to_start', NOON + HOUR),
        ('end_lease', NOON + 2 * HOUR),
    ]


def test_at_equal_times_it_is_told_before_anything_else() -> None:
    given = [('note', NOON + HOUR)]
    events = changes.create.first_events('lease', NOON + HOUR, NOON + HOUR, None, given, NOON)
    assert [e.event_type for e in events] == ['note', 'end_lease', 'start_lease']
