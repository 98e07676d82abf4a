# SPDX-License-Identifier: Apache-2.0
"""What is asked of servers, volumes and stacks in the same way."""

import pytest

from climate_core.cloud import errors, servers, services, stacks, volumes
from tests.support.fakes import cinder, heat, nova

LISTED = [
    pytest.param(servers, nova.add, id='servers'),
    pytest.param(volumes, cinder.add, id='volumes'),
    pytest.param(stacks, heat.add, id='stacks'),
]


@pytest.mark.parametrize(('calls', 'add'), LISTED)
@pytest.mark.parametrize('count', [0, 4, 5])
def test_every_id_of_every_project_page_by_page(world, monkeypatch, calls, add, count):
    monkeypatch.setattr(services, 'PAGE', 2)
    made = {add(world.state, project_id=f'{number}-id')['id'] for number in range(count)}
    with world.counted() as sent:
        assert set(calls.list_ids(world.cloud.service())) == made
    assert sum('limit=2' in line for line in sent) <= 1 + count // 2


@pytest.mark.parametrize(
    ('calls', 'add', 'status'),
    [(servers, nova.add, 'RESERVED'), (volumes, cinder.add, 'lease-reserved')],
)
def test_every_id_can_be_filtered(world, calls, add, status):
    add(world.state, status='other')
    held = add(world.state)
    assert list(calls.list_ids(world.cloud.service(), status=status)) == [held['id']]


@pytest.mark.parametrize('calls', [servers, volumes, stacks])
def test_service_sees_all_projects_and_a_user_does_not(world, calls):
    calls.check_all_visible(world.cloud.service())
    with pytest.raises(errors.Forbidden):
        calls.check_all_visible(world.cloud.user(world.user()))


@pytest.mark.parametrize('calls', [servers, volumes])
def test_delete_what_is_gone(world, calls):
    with pytest.raises(errors.Gone):
        calls.delete(world.cloud.service(), 'nothing')
