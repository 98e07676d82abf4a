# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core.cloud import stacks as cloud_stacks
from tests.support.fakes import heat


@pytest.fixture
def conn(stacks):
    return stacks.cloud.service()


def test_a_status_that_heat_does_not_explain(stacks, conn):
    made = heat.add(stacks.state, reason=None)
    assert cloud_stacks.get(conn, made['id']).reason == 'Heat reports no reason'


@pytest.mark.parametrize(
    ('statuses', 'expected'),
    [
        ([], None),
        (['IN_PROGRESS'], 'IN_PROGRESS'),
        (['FAILED', 'COMPLETE'], 'COMPLETE'),
        (['COMPLETE', 'FAILED'], 'COMPLETE'),
    ],
)
def test_the_snapshot_of_a_reservation(stacks, conn, statuses, expected):
    made = heat.add(stacks.state)
    for number, status in enumerate(statuses):
        snapshot = {'id': str(number), 'name': f'{number}_r1', 'status': status}
        stacks.state.stack_snapshots[str(number)] = {**snapshot, 'stack_id': made['id']}
    other = {'id': 'x', 'name': None, 'status': 'COMPLETE', 'stack_id': made['id']}
    stacks.state.stack_snapshots['x'] = other
    found = cloud_stacks.find_snapshot(conn, cloud_stacks.get(conn, made['id']), 'r1')
    assert (found and found.status) == expected
