# SPDX-License-Identifier: Apache-2.0

import pytest

from climate_core import exceptions
from climate_core.plugins.base import PollAgain
from tests.conformance.world import reserved
from tests.support.fakes import nova
from tests.support.missing import find_missing
from tests.unit.plugins.cases import change

FAULT = {'code': 500, 'message': 'No valid host.', 'created': '2026-01-01T00:00:00Z'}


def reserve(world, **values):
    return world.plugin().reserve(world.user(), values)


@pytest.mark.parametrize(
    ('hints', 'fine'),
    [
        ({'reserved': ['True']}, True),
        ({'reserved': 'yes'}, True),
        ({'lease_params': ['{}']}, True),
        ({'lease_id': ['x']}, True),
        ({'reserved': ['False'], 'lease_params': ['{}']}, False),
        ({'group': ['x']}, False),
        (None, False),
    ],
)
def test_a_server_that_is_being_built(world, hints, fine):
    server = nova.add(world.state, status='BUILD', task_state='networking', hints=hints)
    if fine:
        assert reserve(world, resource_id=server['id']).resource_id == server['id']
        return
    with pytest.raises(exceptions.BadRequest, match='BUILD') as caught:
        reserve(world, resource_id=server['id'])
    assert caught.value.field == 'resource_id'


@pytest.mark.parametrize('status', ['SHUTOFF', 'PAUSED', 'SHELVED_OFFLOADED', 'VERIFY_RESIZE'])
def test_what_the_owner_did_after_the_start_is_respected(world, status):
    case = reserved(world)
    change(case, status=status)
    assert case.wake_once() is None
    assert world.wakes(case.resource_id) == 0


@pytest.mark.parametrize(
    ('status', 'task'),
    [('BUILD', None), ('BUILD', 'spawning'), ('RESERVED', 'scheduling'), ('RESERVED', 'deleting')],
)
def test_what_is_on_its_way_is_waited_for(world, status, task):
    case = reserved(world)
    change(case, status=status, task_state=task)
    assert isinstance(case.wake_once(), PollAgain)
    assert world.wakes(case.resource_id) == 0


@pytest.mark.parametrize(
    ('status', 'task', 'awake'),
    [
        ('ACTIVE', None, True),
        ('ACTIVE', 'deleting', False),
        ('RESERVED', 'scheduling', False),
        ('BUILD', 'spawning', False),
        ('SHUTOFF', None, False),
        ('ERROR', None, False),
    ],
)
def test_server_that_was_woken_is_awake_when_it_is_active(world, status, task, awake):
    case = reserved(world)
    assert isinstance(case.wake_once(), PollAgain)
    change(case, status=status, task_state=task, next=[])
    assert case.plugin.is_started(case.lease, case.reservation) is awake
    assert world.wakes(case.resource_id) == 1


def test_server_that_was_not_woken_by_its_lease_is_not_looked_at(world):
    case = reserved(world)
    change(case, status='ACTIVE')
    with world.counted() as sent:
        assert not case.plugin.is_started(case.lease, case.reservation)
    assert sent == []


def test_an_error_is_told_with_its_fault(world):
    case = reserved(world)
    change(case, status='ERROR', fault=FAULT)
    with pytest.raises(exceptions.Permanent, match='No valid host'):
        case.wake_once()


def test_a_soft_deleted_server_is_gone(world):
    case = reserved(world)
    change(case, status='SOFT_DELETED')
    with pytest.raises(exceptions.Permanent, match='deleted'):
        case.wake_once()


def test_a_soft_deleted_server_is_not_missing_until_nova_deletes_it(world):
    """It can be restored, and must have an end then."""
    case = reserved(world)
    change(case, status='SOFT_DELETED')
    assert find_missing(world.plugin(), [case.reservation]) == {}
    change(case, status='DELETED')
    assert case.reservation.id in find_missing(world.plugin(), [case.reservation])
