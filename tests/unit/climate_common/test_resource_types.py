# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core.lease import states
from climateclient.extension import leases
from climateclient.osc import listing, reservation, wait


def test_statuses_of_the_client_are_those_of_the_service() -> None:
    assert {*listing.STATUSES} == {*states.LeaseStatus}
    assert {*reservation.LIVE} <= {*states.ReservationStatus}


@pytest.mark.parametrize(
    ('statuses', 'other_statuses'),
    [
        pytest.param(
            leases.JOINABLE,
            ('WAITING', 'IN_PROGRESS', 'TERMINATING', 'TERMINATED', 'DELETING', 'TIMEDOUT'),
            id='joinable',
        ),
        pytest.param(
            wait._OVER,
            ('WAITING', 'IN_PROGRESS', 'PENDING', 'STARTING', 'ACTIVE', 'TERMINATING', 'DELETING'),
            id='over',
        ),
    ],
)
def test_clients_sort_every_status_of_a_lease(statuses, other_statuses) -> None:
    assert sorted([*statuses, *other_statuses]) == sorted(states.LeaseStatus)
