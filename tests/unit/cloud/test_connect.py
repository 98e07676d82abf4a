# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import threading
from unittest import mock

import pytest
from oslo_context import fixture

from climate_core import context, exceptions
from climate_core.cloud import Cloud, errors, servers
from climate_core.cloud import volumes as cloud_volumes
from climate_core.db import trusts
from tests.conformance.world import reserved
from tests.support.fakes import cinder, keystone, nova


def test_nothing_is_sent_before_the_first_call(world):
    before = len(world.state.requests)
    Cloud(world.conf)
    assert len(world.state.requests) == before


def test_a_refused_token_is_replaced(world):
    case = reserved(world)
    owner = world.cloud.owner(case.lease.trust_id)
    world.state.tokens.clear()
    assert servers.get(owner, case.resource_id)['id'] == case.resource_id


def test_the_owner_alone_cannot_wake_and_its_token_is_kept(world):
    server = nova.add(world.state)
    token = world.user().auth_token
    alone = world.state.tokens[token]
    assert not nova._may_wake(server, {**alone, 'service_roles': []})
    case = reserved(world)
    case.wake()
    entry = next(e for e in world.state.journal() if e['what'] == 'wake_up')
    assert entry['as'] == 'alice-id'
    with world.counted() as sent:
        world.cloud.owner(case.lease.trust_id)
    assert sent == []


@pytest.mark.parametrize('disabled', [True, False])
def test_a_lost_trust_or_a_disabled_owner_is_for_ever(world, disabled):
    case = reserved(world)
    if disabled:
        world.state.users['alice-id']['enabled'] = False
    else:
        world.trusts.delete(case.lease.trust_id)
    with pytest.raises(errors.TrustRejected, match='Trustor is disabled' if disabled else ''):
        world.cloud.owner(case.lease.trust_id)


def test_a_service_user_that_is_refused_is_not_the_fault_of_the_owner(world):
    case = reserved(world)
    world.state.users['climate-id']['password'] = 'changed'
    with pytest.raises(exceptions.Transient):
        world.cloud.owner(case.lease.trust_id)


def test_owner_is_connected_after_a_failure_of_keystone(world):
    case = reserved(world)
    world.fault('POST', '/auth/tokens', 503)
    with pytest.raises(exceptions.Transient):
        world.cloud.owner(case.lease.trust_id)
    assert world.cloud.owner(case.lease.trust_id)


def test_the_compute_endpoint_can_be_given(fake, world):
    world.conf.set_override('compute_endpoint_override', f'{fake.url}/compute/v2.1', group='cloud')
    server = nova.add(world.state)
    assert servers.get(Cloud(world.conf).service(), server['id'])['id'] == server['id']


@pytest.fixture
def no_context():
    with fixture.ClearRequestContext():
        yield


def test_every_call_for_an_event_has_its_id(world, no_context):
    case = reserved(world)
    before = len(world.state.request_ids)
    event_id = '11111111-1111-4111-8111-111111111111'
    context.of_event(event_id, case.lease.id)
    case.wake()
    sent = world.state.request_ids[before:]
    assert sent
    assert set(sent) == {f'req-{event_id}'}


def test_the_calls_for_a_user_have_the_id_that_nova_gave(world, no_context):
    server = nova.add(world.state)
    user = world.user()
    user.global_request_id = 'req-22222222-2222-4222-8222-222222222222'
    user.update_store()
    servers.get(world.cloud.user(user), server['id'])
    assert world.state.request_ids[-1] == user.global_request_id


def test_what_nobody_asked_for_has_no_id(world, no_context):
    list(servers.list_ids(world.cloud.service()))
    assert world.state.request_ids[-1] is None


def test_the_block_storage_endpoint_can_be_given(fake, volumes):
    """It has no project, as Cinder's later releases take it; this fake one wants one."""
    volume = cinder.add(volumes.state)
    fake.state.no_cinder = True
    override = f'{fake.url}/volume/v3/demo-id'
    volumes.conf.set_override('block_storage_endpoint_override', override, group='cloud')
    conn = Cloud(volumes.conf).user(volumes.user())
    assert cloud_volumes.get(conn, volume['id'])['id'] == volume['id']


def test_the_project_in_an_endpoint_is_the_users(volumes):
    """The catalogue is the service's; asking for the user's would be one call more."""
    volume = cinder.add(volumes.state)
    service = volumes.cloud.service()
    with volumes.counted() as sent:
        for conn in (volumes.cloud.user(volumes.user()), service):
            assert cloud_volumes.get(conn, volume['id'])['id'] == volume['id']
    asked = [line for line in sent if '/volume/' in line]
    assert ['demo-id' in line for line in asked] == [True, False]
    assert ['service-id' in line for line in asked] == [False, True]


def test_leases_that_share_a_trust_share_its_token(world):
    trust_id = world.trust()
    world.cloud.service().session.get_token()
    together = threading.Barrier(8, timeout=60)

    def connect(_number):
        together.wait()
        return world.cloud.owner(trust_id)

    with world.counted() as sent, concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = set(map(id, pool.map(connect, range(8))))
    assert len(found) == 1
    assert sum(each.startswith('POST') for each in sent) == 1


def test_rejected_trust_is_retired(world):
    world.cloud.database = mock.Mock()
    retire = world.cloud.database.write
    trust_id = world.trust()
    world.cloud.owner(trust_id)
    assert not retire.called
    other = world.trust()
    world.trusts.delete(other)
    with pytest.raises(errors.TrustRejected):
        world.cloud.owner(other)
    retire.assert_called_once_with(trusts.retire, [other])
    world.state.users['climate-id']['password'] = 'changed'
    world.state.tokens.clear()
    with pytest.raises(exceptions.Transient):
        Cloud(world.conf).owner(trust_id)
    retire.assert_called_once_with(trusts.retire, [other])


def test_prepared_token_is_the_one_of_the_start(world):
    trust_id = world.trust()
    with world.counted() as sent:
        assert world.cloud.prepare(trust_id, 60.0)
        assert not world.cloud.prepare(trust_id, 60.0)
    assert [each.startswith('POST') for each in sent] == [True]
    with world.counted() as sent:
        world.cloud.owner(trust_id)
    assert sent == []


@pytest.mark.parametrize('seconds', [keystone.HOURS * 3600, 1800.0])
def test_token_that_would_end_too_soon_is_replaced(world, seconds):
    trust_id = world.trust()
    kept = world.cloud.owner(trust_id)
    with world.counted() as sent:
        assert world.cloud.prepare(trust_id, seconds)
    assert len(sent) == 1
    assert world.cloud.owner(trust_id) is not kept


def test_token_of_the_service_is_prepared_with_that_of_an_owner(world):
    trust_id = world.trust()
    cloud = Cloud(world.conf)
    assert cloud.prepare(trust_id, 60.0)
    before = len(world.state.requests)
    headers = cloud.owner(trust_id).session.get_auth_headers()
    assert headers.keys() >= {'X-Auth-Token', 'X-Service-Token'}
    assert len(world.state.requests) == before


def test_trust_that_is_not_prepared_is_refused_as_at_the_start(world):
    world.cloud.database = mock.Mock()
    retire = world.cloud.database.write
    trust_id = world.trust()
    world.trusts.delete(trust_id)
    with pytest.raises(errors.TrustRejected):
        world.cloud.prepare(trust_id, 60.0)
    retire.assert_called_once_with(trusts.retire, [trust_id])


def test_keystone_that_is_away_takes_no_token_away(world):
    trust_id = world.trust()
    kept = world.cloud.owner(trust_id)
    world.fault('POST', '/auth/tokens', 503)
    with pytest.raises(exceptions.Transient):
        world.cloud.prepare(trust_id, 1800.0)
    assert world.cloud.owner(trust_id) is kept
