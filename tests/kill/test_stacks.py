# SPDX-License-Identifier: Apache-2.0
"""A manager dies on the way of leases with a stack and its members."""

import dataclasses

import pytest

from climate_core.plugins import stack_end
from tests.kill.deaths import check_told, end, kills, start, start_with_deaths
from tests.support.databases import ENGINES
from tests.support.fakes import leases
from tests.support.kinds import kind_cell


def build(stage, server='RESERVED', volume='lease-reserved', count=2, **fields):
    """Return a stack with servers and a volume; its id and theirs."""
    servers = stage.cloud.servers(count, status=server)
    volumes = stage.cloud.volumes(1, status=volume, mark=volume == 'lease-reserved')
    (stack,) = stage.cloud.stacks(1, members=[*volumes, *servers], **fields)
    return stack, servers, volumes


def hold(stage, stack, servers, volumes, on_end='delete'):
    trust_id = stage.cloud.trust()
    return leases.make(
        stage.database,
        servers,
        trust_id,
        volume_ids=volumes,
        stack_ids=[stack],
        stack_end=on_end,
    )


def ended(stage, lease):
    """Return the lease as it is when it has started and ends now."""
    now = lease.start_date
    woken = [dataclasses.replace(r, woken_at=now) for r in leases.started(lease).reservations]
    started = dataclasses.replace(leases.started(lease), reservations=tuple(woken))
    return leases.write(stage.database, leases.due(started))


def woken_by_heat(stage):
    return [e['id'] for e in stage.cloud.journal() if e['what'] == 'woken by heat']


@pytest.mark.parametrize('kill', kills('start_lease', looks=(1, 2, 3)))
def test_killed_start_wakes_each_member_once(stage, kill):
    """Heat wakes each member once; nobody else wakes anything."""
    stack, servers, volumes = build(stage)
    lease = leases.write(stage.database, hold(stage, stack, servers, volumes))

    start(stage, kill, lease)

    assert sorted(woken_by_heat(stage)) == sorted([*servers, *volumes])
    effects = stage.cloud.effects()
    assert effects[stack] == ['update']
    assert [effects[each] for each in (*servers, *volumes)] == [['woken by heat']] * 3
    check_told(stage, 'lease.event.start_lease', kill)


@pytest.mark.parametrize('kill', kills('end_lease', looks=(1, 2)))
def test_killed_end_deletes_the_stack_once(stage, kill):
    stack, servers, volumes = build(stage, 'ACTIVE', 'available')
    lease = ended(stage, hold(stage, stack, servers, volumes))

    end(stage, kill, lease)
    check_told(stage, 'lease.event.end_lease', kill)

    effects = stage.cloud.effects()
    assert effects[stack] == ['delete']
    assert [effects[each] for each in (*servers, *volumes)] == [['deleted by heat']] * 3


@pytest.mark.parametrize('kill', kills('end_lease', looks=(1, 2, 3, 4)))
def test_end_of_a_stack_that_is_kept(stage, kill):
    """The server that ran is suspended with it, the spare is deleted; the volume stays."""
    stack, servers, volumes = build(stage, 'ACTIVE', 'available')
    (spare,) = stage.cloud.servers(1)
    lease = ended(stage, hold(stage, stack, [*servers, spare], volumes, 'snapshot'))

    end(stage, kill, lease)
    check_told(stage, 'lease.event.end_lease', kill)

    effects = stage.cloud.effects()
    assert effects[stack] == ['snapshot', 'suspend']
    assert stage.made('snapshot create') == 1
    assert effects[spare] == ['delete']
    assert [effects[each] for each in servers] == [['suspended by heat']] * 2
    assert [effects[each] for each in volumes] == [[]]


@pytest.mark.parametrize('kill', ['finish.after:end_lease:3', 'remote.after:end_lease:4'])
def test_a_suspension_that_fails_is_given_up_after_all_tries_of_all_managers(stage, kill):
    stack, servers, volumes = build(stage, 'ACTIVE', 'available', suspend_failures=99)
    lease = ended(stage, hold(stage, stack, servers, volumes, 'suspend'))

    stage.survive(kill)
    stage.manager()
    stage.until(lambda: stage.is_over(lease))

    effects = stage.cloud.effects()
    assert effects[stack] == ['suspend'] * stack_end.MAX_TRIES
    assert [effects[each] for each in servers] == [['suspend']] * 2


@kind_cell('Existing servers, volumes and stacks', 'immediate')
@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_the_whole_life_with_a_death_at_every_remote_call(stage):
    stack, servers, volumes = build(stage, count=1)
    lease = leases.write(stage.database, hold(stage, stack, servers, volumes))
    start_with_deaths(stage, lease)
    assert sorted(woken_by_heat(stage)) == sorted([*servers, *volumes])
