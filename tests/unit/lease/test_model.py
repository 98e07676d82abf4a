# SPDX-License-Identifier: Apache-2.0
"""Look-ups in a lease."""

import pytest

from climate_core import exceptions
from climate_core.lease import model
from tests.support.leases import HOUR, NOON, lease, reservation


@pytest.mark.parametrize(
    ('status', 'policy', 'due', 'started'),
    [
        ('PENDING', 'auto', False, False),
        ('PENDING', 'auto', True, True),
        ('PENDING', 'manual', True, False),
        ('ERROR', 'auto', False, False),
        ('ERROR', 'auto', True, True),
        ('STARTING', 'manual', False, True),
        ('TERMINATED', 'auto', False, True),
    ],
)
def test_has_started_tells_from_status_and_policy(
    status: str, policy: str, due: bool, started: bool
) -> None:
    one = lease(status=status, start_policy=policy)
    assert one.has_started(NOON if due else NOON - HOUR) is started


def test_events_are_found_by_type_and_reservation() -> None:
    one = lease(given=[('note', NOON), ('note', NOON + HOUR)])
    one = one.with_events(model.new_event('lease', 'end_reservation', NOON, NOON, 'a'))
    assert [e.time for e in one.events_of('note')] == [NOON, NOON + HOUR]
    assert len(one.events_of('note', model.START)) == 3
    assert one.event('note') == one.events_of('note')[0]
    assert one.event('other') is None
    assert len(one.events_of('end_reservation', reservation_id='a')) == 1
    assert one.events_of('end_reservation', reservation_id='b') == ()


def test_reservation_is_found_by_its_id_or_refused() -> None:
    one = lease(reservation('a', 'deleted'), reservation('b'))
    assert one.get_reservation('a').status == 'deleted'
    assert [r.id for r in one.live] == ['b']
    with pytest.raises(exceptions.ReservationNotFound, match='Lease lease has no reservation c'):
        one.get_reservation('c')
