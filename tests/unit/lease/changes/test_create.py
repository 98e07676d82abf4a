# SPDX-License-Identifier: Apache-2.0
"""The events that a new lease has."""

import datetime

import pytest

from climate_core.lease import model
from climate_core.lease.events import schedule
from tests.support.leases import HOUR, MINUTE, NOON, lease


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
