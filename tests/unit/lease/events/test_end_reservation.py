# SPDX-License-Identifier: Apache-2.0
"""One resource is freed, and the lease goes on."""

import dataclasses

import pytest

from climate_core.lease import events, model, results
from climate_core.lease.results import DONE, Outcome, Result
from tests.support.leases import HOUR, NOON, event, lease, reservation

HANDLER = events.of(model.END_RESERVATION)
AWAY = Outcome(Result.RETRY, 2, 'Nova is away.')


def removing(status: str, *others: model.Reservation, **fields: str) -> model.Lease:
    """Return a lease out of which ``a`` is taken."""
    one = lease(reservation('a', 'deleting', 'No image.'), *others, status=status, **fields)
    return one.with_events(model.new_event('lease', model.END_RESERVATION, NOON, NOON, 'a'))


@pytest.mark.parametrize(
    ('status', 'worked_on'),
    [('ACTIVE', ['a']), ('PENDING', ['a']), ('TERMINATING', []), ('DELETING', [])],
)
def test_begin(status: str, worked_on: list[str]) -> None:
    one = removing(status, reservation('b', 'active'))
    work = HANDLER.begin(one, event(one, model.END_RESERVATION), NOON)
    assert [r.id for r in work.reservations] == worked_on
    assert bool(work.skip_reason) == (not worked_on)


@pytest.mark.parametrize(
    ('status', 'others', 'becomes', 'reason'),
    [
        ('ACTIVE', [reservation('b', 'active')], 'ACTIVE', None),
        ('ERROR', [reservation('b', 'active')], 'ACTIVE', None),
        ('ERROR', [reservation('b', 'error', 'No room.')], 'ERROR', 't b: No room.'),
        ('ERROR', [reservation('b', 'pending')], 'ERROR', None),
        ('PENDING', [], 'PENDING', None),
    ],
)
def test_settle(
    status: str, others: list[model.Reservation], becomes: str, reason: str | None
) -> None:
    one = removing(status, *others)
    change = HANDLER.settle(one, event(one, model.END_RESERVATION), {'a': DONE}, NOON + HOUR)
    after = change.lease
    assert (after.status, after.status_reason) == (becomes, reason)
    assert after.reservations[0].status == 'deleted'
    assert event(after, model.END_RESERVATION).status == 'DONE'
    assert list(change.notifications) == ['lease.update']


def test_settle_before_the_start_recovers_a_pending_lease() -> None:
    one = removing('ERROR', reservation('b'), start_policy='manual')
    one = one.with_events(results.complete(event(one, model.READY), None, NOON))
    after = HANDLER.settle(one, event(one, model.END_RESERVATION), {'a': DONE}, NOON).lease
    assert (after.status, after.status_reason) == ('PENDING', results.WAITS_FOR_USER)


def test_settle_of_a_failure_is_retried_and_not_told() -> None:
    one = removing('ACTIVE')
    change = HANDLER.settle(one, event(one, model.END_RESERVATION), {'a': AWAY}, NOON)
    settled = event(change.lease, model.END_RESERVATION)
    assert (settled.open, settled.attempts, change.notifications) == (True, 1, {})
    assert change.lease.reservations[0].status_reason == 'Nova is away.'


def test_what_is_not_there_any_more_is_skipped() -> None:
    one = removing('ACTIVE')
    gone = dataclasses.replace(one.reservations[0], status='deleted')
    one = one.with_reservations(gone)
    assert HANDLER.begin(one, event(one, model.END_RESERVATION), NOON).skip_reason
