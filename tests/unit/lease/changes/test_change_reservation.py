# SPDX-License-Identifier: Apache-2.0
"""A user changes what the plugin of a reservation lets change."""

import pytest

from climate_core import exceptions
from climate_core.lease import changes
from tests.support.leases import HOUR, NOON, lease, reservation

THING = reservation(on_end='stop', size='1')


@pytest.mark.parametrize('status', ['pending', 'active', 'error'])
def test_the_new_value_takes_the_place_of_the_old(status: str) -> None:
    one = lease(reservation(status=status, on_end='stop', size='1'))
    change = changes.change_reservation(one, 'thing', {'on_end': 'delete'}, NOON + HOUR)
    assert change.lease.reservations[0].params == {'on_end': 'delete', 'size': '1'}
    assert change.lease.reservations[0].updated_at == NOON + HOUR
    assert change.notifications == {'lease.update': None}


@pytest.mark.parametrize('status', ['ACTIVE', 'TERMINATED'])
def test_the_same_value_is_no_change(status: str) -> None:
    one = lease(THING, status=status)
    change = changes.change_reservation(one, 'thing', {'on_end': 'stop'}, NOON)
    assert (change.lease, change.notifications) == (one, {})


@pytest.mark.parametrize(
    ('lease_status', 'status'),
    [
        ('TERMINATING', 'active'),
        ('TERMINATED', 'deleted'),
        ('DELETING', 'active'),
        ('ACTIVE', 'deleting'),
        ('ACTIVE', 'deleted'),
    ],
)
def test_nothing_changes_after_its_end_has_begun(lease_status: str, status: str) -> None:
    one = lease(reservation(status=status, on_end='stop'), status=lease_status)
    with pytest.raises(exceptions.InvalidState, match='has begun'):
        changes.change_reservation(one, 'thing', {'on_end': 'delete'}, NOON)


def test_what_the_lease_does_not_have() -> None:
    with pytest.raises(exceptions.ReservationNotFound, match='no reservation other'):
        changes.change_reservation(lease(THING), 'other', {}, NOON)
