# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core.cloud import errors
from climate_core.cloud import stacks as cloud_stacks
from tests.support.fakes import heat


@pytest.fixture
def conn(stacks):
    return stacks.cloud.service()


def test_a_stack_as_its_owner_and_an_administrator_see_it(stacks, conn):
    made = heat.add(stacks.state, stack_name='web', reason=None)
    user = stacks.cloud.user(stacks.user())
    mine, seen = (cloud_stacks.get(each, made['id']) for each in (user, conn))
    assert (mine.name, mine.status, mine.parent) == ('web', 'CREATE_COMPLETE', None)
    assert mine.reason == 'Heat does not say why'
    assert (mine.project, seen.project) == (None, 'demo-id')
    with pytest.raises(errors.Gone):
        cloud_stacks.get(stacks.cloud.user(stacks.stranger()), made['id'])


def test_a_stack_that_nests_deep(stacks, conn):
    top = heat.add(stacks.state, stack_name='top')
    made = top
    for _ in range(3):
        made = heat.add(stacks.state, parent=made['id'])
    found = cloud_stacks.get(conn, made['id'])
    assert found.parent
    assert cloud_stacks.root(conn, found).name == 'top'
    assert cloud_stacks.root(conn, cloud_stacks.get(conn, top['id'])).name == 'top'


def test_what_a_stack_is_made_of(stacks, conn):
    made = heat.add(stacks.state, members=['a', 'b'])
    heat.add(stacks.state, parent=made['id'], members=['c'])
    stack = cloud_stacks.get(conn, made['id'])
    assert cloud_stacks.physical_ids(conn, stack) == {'a', 'b', 'c'}


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
