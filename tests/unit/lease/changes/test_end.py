# SPDX-License-Identifier: Apache-2.0
"""A user ends a lease, or cancels it before its start."""

import dataclasses
from typing import Any

import pytest

from climate_core.lease import model
from climate_core.lease.events import end
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation


def _lease(*held: model.Reservation, **fields: Any) -> model.Lease:
    return lease(
        *held,
        before_end_date=NOON + HOUR,
        given=[('note', NOON + MINUTE)],
        now=NOON - HOUR,
        **fields,
    )


@pytest.mark.parametrize(
    ('status', 'minutes', 'ends', 'told_at', 'reason'),
    [
        ('ACTIVE', 30, 30, 30, None),
        ('ACTIVE', 90, 90, 60, None),
        ('STARTING', 180, 120, 60, None),
        ('PENDING', -30, 120, 60, end.CANCELLED),
        ('PENDING', 0, 120, 60, end.CANCELLED),
    ],
)
def test_what_is_held_is_freed_now(
    status: str, minutes: int, ends: int, told_at: int, reason: str | None
) -> None:
    now = NOON + minutes * MINUTE
    change = end.end_lease(_lease(reservation(), status=status), now)
    after = change.lease
    assert (after.status, after.status_reason) == ('TERMINATING', reason)
    assert (after.end_date, after.before_end_date) == (
        NOON + ends * MINUTE,
        NOON + told_at * MINUTE,
    )
    assert [(e.event_type, e.next_at) for e in after.events if e.open] == [(model.END, now)]
    assert event(after, model.END).time == after.end_date
    assert change.notifications == {'lease.update': None}


def test_what_holds_nothing_is_over_at_once() -> None:
    change = end.end_lease(_lease(), NOON - MINUTE)
    assert (change.lease.status, change.lease.status_reason) == ('TERMINATED', end.CANCELLED)
    assert list(change.notifications) == ['lease.update', end.ENDED]
    assert [e.event_type for e in change.lease.events if e.open] == [model.RELEASE_TRUST]


@pytest.mark.parametrize('status', ['TERMINATING', 'TERMINATED', 'DELETING'])
def test_what_ends_already_is_left_alone(status: str) -> None:
    one = _lease(reservation(), status=status)
    change = end.end_lease(one, NOON)
    assert (change.lease, change.notifications) == (one, {})


def test_a_lease_without_notice_of_its_end() -> None:
    one = dataclasses.replace(_lease(reservation(), status='ACTIVE'), before_end_date=None)
    assert end.end_lease(one, NOON + MINUTE).lease.before_end_date is None
