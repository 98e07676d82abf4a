# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import resource_types
from climate_core.lease import states
from climate_core.plugins import server_end, stack_end, volume_end
from climateclient.extension import leases
from climateclient.osc import listing, reservation, wait


@pytest.mark.parametrize(
    ('resource_type', 'end_steps'),
    [
        (resource_types.SERVER, server_end),
        (resource_types.VOLUME, volume_end),
        (resource_types.STACK, stack_end),
    ],
)
def test_ends_of_a_type_are_those_of_its_plugin(resource_type, end_steps) -> None:
    choices = tuple(name for name, _ in end_steps.END_ACTIONS)
    assert resource_types.ON_END[resource_type] == choices


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
