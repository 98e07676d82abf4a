# SPDX-License-Identifier: Apache-2.0
import dataclasses
import uuid

import pytest

from climate_core import exceptions
from climate_core.plugins import missing
from climate_core.plugins.base import Wait
from tests.conformance.world import reserved
from tests.support.fakes import nova

FAULT = {'code': 500, 'message': 'No valid host.', 'created': '2026-01-01T00:00:00Z'}


def reserve(world, **values):
    return world.plugin().reserve(world.user(), values)


def look(case):
    return case.wake_once()


def change(case, **fields):
    case.world.state.servers[case.resource_id].update(fields)


def test_the_end_action_comes_from_the_configuration(world):
    world.conf.set_override('on_end', 'shelve', group='virtual:instance')
    server = nova.add(world.state)
    assert reserve(world, resource_id=server['id']).params == {'on_end': 'shelve'}
    asked = reserve(world, resource_id=server['id'], on_end='stop')
    assert asked.params == {'on_end': 'stop'}


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


def test_an_administrator_reserves_in_his_project_only(world):
    server = nova.add(world.state)
    with pytest.raises(exceptions.ResourceNotFound):
        world.plugin().reserve(world.context('climate'), {'resource_id': server['id']})


@pytest.mark.parametrize('status', ['SHUTOFF', 'PAUSED', 'SHELVED_OFFLOADED', 'VERIFY_RESIZE'])
def test_what_the_owner_did_after_the_start_is_respected(world, status):
    case = reserved(world)
    change(case, status=status)
    assert look(case) is None
    assert world.wakes(case.resource_id) == 0


@pytest.mark.parametrize(
    ('status', 'task'),
    [('BUILD', None), ('BUILD', 'spawning'), ('RESERVED', 'scheduling'), ('RESERVED', 'deleting')],
)
def test_what_is_on_its_way_is_waited_for(world, status, task):
    case = reserved(world)
    change(case, status=status, task_state=task)
    assert isinstance(look(case), Wait)
    assert world.wakes(case.resource_id) == 0


def test_an_error_is_told_with_its_fault(world):
    case = reserved(world)
    change(case, status='ERROR', fault=FAULT)
    with pytest.raises(exceptions.Permanent, match='No valid host'):
        look(case)


def test_a_soft_deleted_server_is_gone(world):
    case = reserved(world)
    change(case, status='SOFT_DELETED')
    with pytest.raises(exceptions.Permanent, match='deleted'):
        look(case)


def test_a_wake_up_that_failed_is_told_and_tried_again(world):
    case = reserved(world)
    change(case, wake_failures=1)
    with pytest.raises(exceptions.Transient, match='No space left on the host'):
        case.wake()
    case.wake()
    assert world.awake(case.resource_id)
    assert world.wakes(case.resource_id) == 2


def test_somebody_was_faster(world):
    case = reserved(world)
    fault = {'method': 'POST', 'path': '/action', 'status': 409, 'count': 1, 'after': True}
    world.state.faults.append(fault)
    assert isinstance(look(case), Wait)
    case.wake()
    assert world.wakes(case.resource_id) == 1


def test_nova_finds_no_host(world):
    case = reserved(world)
    world.state.faults.append({'method': 'POST', 'path': '/action', 'status': 409, 'count': 1})
    with pytest.raises(exceptions.Transient, match='409'):
        look(case)


def test_an_answer_that_was_lost(world):
    """Nova took the wake-up, but its answer never came."""
    case = reserved(world)
    fault = {'method': 'POST', 'path': '/action', 'status': 0, 'count': 1, 'after': True}
    world.state.faults.append(fault)
    with pytest.raises(exceptions.Transient):
        look(case)
    case.wake()
    assert world.wakes(case.resource_id) == 1


def test_nova_refuses(world):
    case = reserved(world)
    world.state.users['climate-id']['roles'] = ['reader']
    world.state.tokens.clear()
    with pytest.raises(exceptions.Permanent, match='403'):
        look(case)


def test_a_lease_without_a_trust(world):
    case = reserved(world)
    plugin, lease = case.plugin, dataclasses.replace(case.lease, trust_id=None)
    with pytest.raises(exceptions.Permanent, match='trust'):
        plugin.wake_up(lease, case.reservation)
    assert isinstance(plugin.end(lease, case.reservation), Wait)


def test_many_missing_are_looked_up_in_a_list(world, monkeypatch):
    monkeypatch.setattr(missing, '_FEW', 1)
    cases = [reserved(world) for _ in range(4)]
    world.destroy(cases[2].resource_id)
    world.state.servers[cases[3].resource_id]['status'] = 'SOFT_DELETED'
    found = world.plugin().find_missing([case.reservation for case in cases])
    assert set(found) == {cases[2].reservation.id}


def test_a_soft_deleted_server_is_not_missing_until_nova_deletes_it(world):
    """It can be restored, and must have an end then."""
    case = reserved(world)
    change(case, status='SOFT_DELETED')
    assert world.plugin().find_missing([case.reservation]) == {}
    change(case, status='DELETED')
    assert case.reservation.id in world.plugin().find_missing([case.reservation])


def test_nothing_is_missing_from_nothing(world):
    with world.counted() as sent:
        assert world.plugin().find_missing([]) == {}
    assert sent == []


def test_an_unknown_server(world):
    with pytest.raises(exceptions.ResourceNotFound):
        reserve(world, resource_id=str(uuid.uuid4()))


def test_a_token_that_has_expired(world):
    server = nova.add(world.state)
    del world.state.tokens[world.user().auth_token]
    with pytest.raises(exceptions.Unauthorized):
        reserve(world, resource_id=server['id'])
