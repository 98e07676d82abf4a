# SPDX-License-Identifier: Apache-2.0
"""A user starts a lease."""

import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import model
from climate_core.lease.events import start
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation


def _manual(**fields: Any) -> model.Lease:
    return lease(reservation(), start_policy='manual', **fields)


@pytest.mark.parametrize(
    ('fields', 'now', 'message'),
    [
        ({'start_policy': 'auto'}, NOON, 'starts by itself'),
        ({}, NOON - MINUTE, 'cannot be started before'),
        ({}, NOON + 2 * HOUR, 'is over'),
        ({'status': 'TERMINATING'}, NOON, 'is over'),
        ({'status': 'TERMINATED'}, NOON, 'is over'),
        ({'status': 'DELETING'}, NOON, 'is over'),
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
