# SPDX-License-Identifier: Apache-2.0
"""A lease that its user starts is ready to be started."""

import dataclasses

import pytest

from climate_core.lease import events, model, results
from tests.support.leases import HOUR, NOON, event, lease, reservation

HANDLER = events.of(model.READY)
MANUAL = lease(reservation(), start_policy='manual')
READY = event(MANUAL, model.READY)


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
def test_begin(fields: dict[str, str], late: bool, skipped: bool) -> None:
    one = dataclasses.replace(MANUAL, **fields)
    work = HANDLER.begin(one, READY, one.end_date if late else NOON)
    assert bool(work.skip_reason) == skipped


@pytest.mark.parametrize('status', ['PENDING', 'ERROR'])
def test_settle(status: str) -> None:
    one = dataclasses.replace(MANUAL, status=status, status_reason='why')
    change = HANDLER.settle(one, READY, {}, NOON)
    waits = status == 'PENDING'
    assert change.lease.status_reason == (results.WAITS_FOR_USER if waits else 'why')
    assert list(change.notifications) == ['lease.event.ready_to_start']
    assert results.waits_for_user(change.lease) == (results.WAITS_FOR_USER if waits else None)


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
def test_move(status: str, policy: str, done: str | None, becomes: str, due: int) -> None:
    before = dataclasses.replace(MANUAL, status=status)
    after = dataclasses.replace(before, start_date=NOON + HOUR, start_policy=policy)
    why = 'There is nothing to start any more.' if done == 'given up' else None
    ready = results.complete(READY, why, NOON) if done else READY
    moved = HANDLER.move(ready, before, after, NOON)
    assert (moved.event_type, moved.next_at) == (becomes, NOON + due * HOUR)
