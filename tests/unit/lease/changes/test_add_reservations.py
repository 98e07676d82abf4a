# SPDX-License-Identifier: Apache-2.0
"""Resources join a lease."""

import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import changes, model, transitions
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation


@pytest.mark.parametrize('status', ['TERMINATING', 'TERMINATED', 'DELETING'])
def test_nothing_joins_what_ends(status: str) -> None:
    with pytest.raises(exceptions.InvalidState, match=f'is {status}'):
        changes.add_reservations(lease(status=status), [reservation()], NOON)


@pytest.mark.parametrize(
    ('status', 'start_done', 'next_at'),
    [
        ('PENDING', False, NOON),
        ('STARTING', False, NOON),
        ('ACTIVE', True, NOON + HOUR),
        ('ERROR', True, NOON + HOUR),
    ],
)
def test_what_joins_a_lease_that_has_started_is_woken_now(
    status: str, start_done: bool, next_at: object
) -> None:
    one = lease(reservation('a', 'active'), status=status)
    if start_done:
        one = one.with_events(transitions.complete_event(event(one, model.START), None, NOON))
    change = changes.add_reservations(one, [reservation('b')], NOON + HOUR)
    assert [r.id for r in change.lease.reservations] == ['a', 'b']
    assert event(change.lease, model.START).next_at == next_at
    assert change.notifications == {'lease.update': None}


def test_what_joins_comes_after_all_that_the_lease_has() -> None:
    one = lease(reservation('a', made_at=NOON))
    joining = [reservation('b', made_at=NOON - MINUTE), reservation('c', made_at=NOON + MINUTE)]
    after = changes.add_reservations(one, joining, NOON).lease
    times = [r.created_at for r in after.reservations]
    assert times == sorted(set(times))
    assert times[2] == NOON + MINUTE


@pytest.mark.parametrize(('now', 'prepared'), [(NOON - HOUR, 1), (NOON, 0)])
def test_what_joins_before_the_start_is_prepared(now: datetime.datetime, prepared: int) -> None:
    after = changes.add_reservations(lease(), [reservation('b')], now, {'b': None}).lease
    assert len(after.events_of(model.PREPARE, reservation_id='b')) == prepared
