# SPDX-License-Identifier: Apache-2.0
"""A manager dies while it empties a shared host, or gives it back."""

import pytest

from tests.kill.deaths import WRITE, check_no_error, check_told_once, die
from tests.kill.pools import Pool
from tests.support.databases import ENGINES


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_taking_a_shared_host_and_giving_it_back(stage):
    """That it is closed to ordinary servers is written again by the next manager."""
    pool = Pool(stage)
    stage.cloud.order('hypervisors', [{'name': 'cn1'}])
    pool.enrol('cn1', shared=True)
    lease = pool.lease(1, kind='best_effort')
    assert (stage.lease(lease).status, pool.is_marked('cn1')) == ('IN_PROGRESS', False)
    event = 'make_room'
    # The third one has granted it.
    die(stage, f'event.claimed:{event}:1', f'{WRITE}1', f'finish.before:{event}:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    after = stage.lease(lease)
    check_no_error(after)
    assert [each.event_type for each in after.events].count('start_lease') == 1
    assert (pool.open(), pool.allocations(), pool.is_marked('cn1')) == ({'cn1'}, ['cn1'], True)
    check_told_once(stage, 'lease.event.make_room')

    stage.kill_all()
    pool.end(lease)
    die(stage, 'finish.before:end_lease:1', 'commit.before:shared-hosts:1')
    stage.until(lambda: stage.is_over(lease))
    stage.until(lambda: pool.find('cn1').open_to_unreserved and not pool.is_marked('cn1'))
    assert pool.kept() == {}


def _share(stage, count=2):
    """Have a shared host with servers, and another host that has room for them."""
    pool = Pool(stage)
    stage.cloud.order('hypervisors', [{'name': 'cn1'}, {'name': 'cn2'}])
    pool.enrol('cn1', shared=True)
    servers = stage.cloud.servers(count, status='ACTIVE')
    claim(stage, pool, servers)
    return pool, servers


def claim(stage, pool, servers):
    """Have ordinary servers on a host."""
    host = pool.find('cn1').provider_id
    claims = [{'hypervisor_id': host, 'server_id': each} for each in servers]
    stage.cloud.order('claims', claims)


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_emptying_a_shared_host(stage):
    """A server that was asked to move, of which nothing is written yet, is not asked again."""
    pool, servers = _share(stage)
    lease = pool.lease(1, kind='best_effort')
    event = 'make_room'
    # That the host is closed, and that each server is to move; the last one has granted it.
    die(stage, f'event.claimed:{event}:1', *[f'{WRITE}1'] * 3, f'finish.before:{event}:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    after = stage.lease(lease)
    check_no_error(after)
    assert [each.event_type for each in after.events].count('start_lease') == 1
    assert [stage.cloud.effects()[each] for each in servers] == [['os-migrateLive']] * 2
    assert (pool.open(), pool.allocations()) == ({'cn1'}, ['cn1'])
    check_told_once(stage, 'lease.event.make_room')


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_emptying_a_host_for_its_pool(stage):
    pool = Pool(stage)
    stage.cloud.order('hypervisors', [{'name': 'cn1'}, {'name': 'cn2'}])
    pool.enrol('cn1', empty=True)
    servers = stage.cloud.servers(2, status='ACTIVE')
    claim(stage, pool, servers)
    # Each server is to move; then what is left is told, or that the host is empty.
    die(stage, f'{WRITE}1', f'{WRITE}1', *['commit.before:host-drainer:1'] * 2)
    stage.until(lambda: pool.find('cn1').available)
    assert [stage.cloud.effects()[each] for each in servers] == [['os-migrateLive']] * 2
    assert pool.is_marked('cn1')


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_two_managers_empty_a_shared_host(stage):
    pool, servers = _share(stage, 20)
    lease = pool.lease(1, kind='best_effort')
    stage.manager()
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    assert [stage.cloud.effects()[each] for each in servers] == [['os-migrateLive']] * 20
    check_told_once(stage, 'lease.event.make_room')


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_shared_host_that_is_not_empty_in_time(stage):
    pool, _ = _share(stage, 0)
    lease = pool.lease(1, kind='best_effort', best_effort_timeout=1)
    # It came when the host was chosen, and does not leave it.
    claim(stage, pool, stage.cloud.servers(1, status='ACTIVE', task_state='rebooting'))
    event = 'make_room'
    # The second one begins when the time is over.
    die(
        stage,
        f'finish.before:{event}:1',
        f'event.claimed:{event}:1',
        f'finish.before:{event}:1',
        f'finish.after:{event}:1',
        'commit.before:shared-hosts:1',
    )
    stage.until(lambda: stage.lease(lease).status == 'TIMEDOUT')
    stage.until(lambda: pool.find('cn1').open_to_unreserved and not pool.is_marked('cn1'))
    assert (pool.kept(), pool.allocations()) == ({}, [])
    check_told_once(stage, 'lease.event.make_room.error')
