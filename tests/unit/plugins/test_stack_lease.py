# SPDX-License-Identifier: Apache-2.0
"""Stacks, their members and the engine, from one end of a lease to the other."""

import pytest

from tests.support.fakes import nova


def test_the_life_of_a_stack(leased):
    stack = leased.stack(volumes=1)
    lease_id = leased.lease_of(stack)
    leased.run_for(lease_id, 'ACTIVE')
    (volume, server, spare) = stack['members']
    assert [leased.server(each) for each in (server, spare)] == ['ACTIVE', 'RESERVED']
    assert leased.volume(volume) == 'available'
    leased.finish(lease_id)
    assert leased.stacks.gone(stack['id'])
    assert leased.server(server) is leased.server(spare) is leased.volume(volume) is None


@pytest.mark.parametrize(('servers', 'told'), [(1, True), (2, False)])
def test_a_stack_of_which_heat_wakes_nothing(leased, caplog, servers, told):
    stack = leased.stack(servers=servers)
    leased.run_for(leased.lease_of(stack), 'ACTIVE')
    assert leased.server(stack['members'][-1]) == 'RESERVED'
    assert ('started none of its members' in caplog.text) is told


@pytest.mark.parametrize('on_end', ['nothing', 'suspend', 'snapshot'])
def test_a_stack_that_woke_half_way_keeps_its_members(leased, on_end):
    stack = leased.stack(servers=3, volumes=1, update_failures=10_000)
    lease_id = leased.lease_of(stack, on_end=on_end)
    leased.look_around(5)
    (volume, server, _, spare) = stack['members']
    leased.stacks.state.servers[server]['status'] = 'ACTIVE'
    leased.stacks.state.volumes[volume]['status'] = 'available'
    leased.finish(lease_id)
    (reservation, *_) = leased.lease(lease_id).reservations
    assert reservation.woken_at is None
    assert not leased.stacks.gone(stack['id'])
    assert leased.server(server) == ('ACTIVE' if on_end == 'nothing' else 'SUSPENDED')
    assert leased.volume(volume) == 'available'
    assert leased.server(spare) is None


@pytest.mark.parametrize('on_end', ['suspend', 'snapshot'])
def test_a_stack_that_heat_cannot_suspend(leased, on_end):
    stack = leased.stack(servers=3, volumes=1, suspend_failures=99, snapshot_failures=99)
    lease_id = leased.lease_of(stack, on_end=on_end)
    leased.run_for(lease_id, 'ACTIVE')
    leased.finish(lease_id)
    (volume, *servers, spare) = stack['members']
    assert [leased.server(each) for each in servers] == ['SUSPENDED', 'SUSPENDED']
    assert leased.volume(volume) == 'available'
    assert leased.server(spare) is None


def test_a_stack_that_another_user_updated(leased):
    stack = leased.stack(volumes=1)
    lease_id = leased.lease_of(stack)
    leased.run_for(lease_id, 'ACTIVE')
    leased.stacks.state.stacks[stack['id']]['creds'] = 'bob-id'
    leased.finish(lease_id)
    assert leased.stacks.gone(stack['id'])
    assert not set(stack['members']) & {*leased.stacks.state.servers, *leased.stacks.state.volumes}


def test_a_stack_that_fails_keeps_nobody_else_asleep(leased):
    bad, good = leased.stack(volumes=1, update_failures=10_000), leased.stack()
    alone = nova.add(leased.stacks.state)['id']
    lease_id = leased.lease_of(bad, good, alone=[alone])
    leased.look_around(10)
    assert leased.server(alone) == 'ACTIVE'
    assert [leased.server(each) for each in good['members']] == ['ACTIVE', 'RESERVED']
    assert [leased.server(each) for each in bad['members'][1:]] == ['RESERVED', 'RESERVED']
    assert leased.lease(lease_id).status == 'STARTING'


def test_a_stack_that_cannot_be_deleted_keeps_nobody_running(leased):
    stack = leased.stack(volumes=1, delete_failures=10_000)
    alone = nova.add(leased.stacks.state)['id']
    lease_id = leased.lease_of(stack, alone=[alone])
    leased.run_for(lease_id, 'ACTIVE')
    leased.time.now = leased.lease(lease_id).end_date
    leased.look_around(3)
    assert leased.server(alone) is None
    leased.look_around(60)
    assert not leased.stacks.gone(stack['id'])
    assert not set(stack['members']) & {*leased.stacks.state.servers, *leased.stacks.state.volumes}
    assert leased.lease(lease_id).status == 'TERMINATING'
    leased.stacks.state.stacks[stack['id']]['delete_failures'] = 0
    leased.run_for(lease_id, 'TERMINATED')


def test_a_stack_that_is_to_be_kept_keeps_its_members_waiting(leased):
    """Snapshot and suspension fail six times, and the members are not deleted meanwhile."""
    stack = leased.stack(servers=2, snapshot_failures=99, suspend_failures=99)
    lease_id = leased.lease_of(stack, on_end='snapshot')
    leased.run_for(lease_id, 'ACTIVE')
    leased.finish(lease_id)
    assert leased.server(stack['members'][0]) == 'SUSPENDED'


def test_a_stack_that_never_woke_is_gone_with_its_members(leased):
    stack = leased.stack(volumes=1, update_failures=10_000)
    lease_id = leased.lease_of(stack, on_end='nothing')
    leased.finish(lease_id)
    assert leased.stacks.gone(stack['id'])
    assert not set(stack['members']) & {*leased.stacks.state.servers, *leased.stacks.state.volumes}
