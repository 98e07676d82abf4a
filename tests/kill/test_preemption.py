# SPDX-License-Identifier: Apache-2.0
"""A manager dies while the server of a preemptible lease is shelved, or woken again."""

import pytest

from climate_core.db import sql
from climate_core.lease.events import preemption, queue
from tests.kill.deaths import EVENT
from tests.support.databases import ENGINES
from tests.support.fakes import leases

LOOKS = (1, 2, 3)
GAVE_WAY = ['shelve', 'lock']
WOKEN = ['unlock', 'unshelve']


def running(stage, on_end='delete'):
    """Return a preemptible lease that runs, and its server."""
    (server,) = stage.cloud.servers(1, status='ACTIVE', launched_at='2082-12-01T12:00:00')
    trust = stage.cloud.trust()
    made = leases.make(stage.database, [server], trust, on_end, preemptible=True)
    lease = leases.started(made)
    leases.write(stage.database, lease)
    return lease, server


def preempted(stage, on_end='delete'):
    """Return a preemptible lease whose room another one needs, and its server."""
    lease, server = running(stage, on_end)
    now = stage.database.read(sql.read_time)
    leases.change(stage.database, lease.id, preemption.preempt_lease, now, now)
    return lease, server


def grant(stage, lease):
    """Find room for a lease again: the cloud of these tests has no forecast."""

    def apply(found, now):
        amounts = {each.id: {'servers': 1} for each in queue.pending_reservations(found)}
        return queue.grant_lease(found, amounts, now)

    leases.change(stage.database, lease.id, apply)


def waits(stage, lease):
    return stage.lease(lease).status == 'WAITING'


def shown(stage, server):
    """Return what the server is by now: what the cloud says of it last."""
    entries = [each for each in stage.cloud.journal() if each['id'] == server]
    return next(each['status'] for each in reversed(entries) if each['what'] == 'server is')


@pytest.mark.parametrize('look', LOOKS)
@pytest.mark.parametrize('point', EVENT)
def test_killed_preemption_shelves_the_server_once(stage, point, look):
    lease, server = preempted(stage)

    stage.survive(f'{point}:preempt_lease:{look}')
    stage.until(lambda: waits(stage, lease))

    assert stage.cloud.effects()[server] == GAVE_WAY
    assert shown(stage, server) == 'SHELVED_OFFLOADED'
    had = [each.status for each in stage.lease(lease).reservations]
    assert sorted(had) == ['deleted', 'pending']


@pytest.mark.parametrize('number', [1, 2])
def test_after_nova_has_done_a_step_and_before_that_is_written(stage, number):
    lease, server = preempted(stage)

    stage.survive(f'request.after:write:{number}')
    stage.until(lambda: waits(stage, lease))

    assert stage.cloud.effects()[server] == GAVE_WAY


@pytest.mark.parametrize('look', [1, 2])
@pytest.mark.parametrize('point', EVENT)
def test_killed_resumption_wakes_the_server_once(stage, point, look):
    lease, server = preempted(stage)
    manager = stage.manager()
    stage.until(lambda: waits(stage, lease))
    manager.kill()
    grant(stage, lease)

    stage.survive(f'{point}:start_lease:{look}')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    assert stage.cloud.effects()[server] == [*GAVE_WAY, *WOKEN]
    assert shown(stage, server) == 'ACTIVE'


@pytest.mark.parametrize('number', [1, 2])
def test_end_of_one_that_is_giving_way(stage, number):
    lease, _ = preempted(stage)

    stage.manager(f'request.after:write:{number}').dies()
    stage.ask('end_lease', lease.id).ends()
    stage.manager()
    stage.until(lambda: stage.is_over(lease))

    assert stage.made('server gone') == 1


def end_before_the_lock(stage, kill=''):
    """End a lease while its manager stands still that is about to lock the server; let it go on.

    The other manager may take up the lease's giving way before its end.

    :param kill: where that one dies then
    :returns: this manager, the lease, its server, and what Nova had done before it went on
    """
    lease, server = preempted(stage, 'shelve')
    late = stage.manager(f'{kill}/request.before:write:2')
    stage.until(lambda: late.stands_still)
    stage.ask('end_lease', lease.id).ends()
    other = stage.manager()
    stage.until(lambda: stage.is_over(lease))
    other.kill()
    before = stage.cloud.effects()[server]
    assert before in (['shelve'], [*GAVE_WAY, 'unlock'])
    late.goes_on()
    return late, lease, server, before


def test_late_lock_of_a_manager_that_dies_is_undone_by_the_comparison(stage):
    late, _, server, before = end_before_the_lock(stage, 'request.after:write:2')
    late.dies()
    waits, other = preempted(stage)
    stage.manager()
    stage.until(lambda: stage.lease(waits).status == 'WAITING')
    assert stage.cloud.effects()[server] == [*before, 'lock']

    assert stage.undo_locks('virtual:instance') == [server]
    assert stage.undo_locks('virtual:instance') == []
    effects = stage.cloud.effects()
    assert (effects[server], effects[other]) == ([*before, 'lock', 'unlock'], GAVE_WAY)


def test_late_lock_of_a_manager_that_lives_is_undone_by_itself(stage):
    _, lease, server, before = end_before_the_lock(stage)
    stage.until(lambda: stage.cloud.effects()[server] == [*before, 'lock', 'unlock'])
    assert stage.lease(lease).status == 'TERMINATED'


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_a_death_at_every_remote_call(stage):
    lease, server = preempted(stage)
    for count in (1, 1, 1):
        stage.manager(f'remote.after:preempt_lease:{count}', claims_expire=False).dies()
    manager = stage.manager(claims_expire=False)
    stage.until(lambda: waits(stage, lease))
    assert stage.cloud.effects()[server] == GAVE_WAY
    manager.kill()
    grant(stage, lease)
    for count in (1, 1):
        stage.manager(f'remote.after:start_lease:{count}').dies()
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    assert stage.cloud.effects()[server] == [*GAVE_WAY, *WOKEN]
