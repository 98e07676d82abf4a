# SPDX-License-Identifier: Apache-2.0
"""A lease that its user starts, ends or cancels, without a loop."""

import pytest

from climate_core import exceptions
from climate_core.db import listing
from tests.support.world import TYPE, Time, World, at, statuses

ONE = '2082-12-01 13:00'
AWAY = exceptions.Transient('Nova is away')


def _manual(world: World, *things: str) -> str:
    lease_id = world.create(*things, start=ONE, end='2082-12-01 15:00', start_policy='manual')
    world.run_until_idle(hours=1)
    return lease_id


def test_a_manual_lease_waits_for_its_user(world: World, time: Time) -> None:
    lease_id = _manual(world, 'a')
    lease = world.lease(lease_id)
    assert (lease.status, lease.status_reason) == (
        'PENDING',
        'Waiting to be started by its user.',
    )
    assert world.told() == ['lease.create', 'lease.event.ready_to_start']
    assert world.things.calls == []
    time.forward(minutes=30)
    world.start(lease_id)
    assert (world.lease(lease_id).status, world.lease(lease_id).status_reason) == (
        'STARTING',
        None,
    )
    assert world.settle(lease_id).status == 'ACTIVE'
    assert world.told()[-2:] == ['lease.update', 'lease.event.start_lease']
    assert world.settle(lease_id, hours=2).status_reason is None
    assert world.things.journal == [('wake', 'a'), ('end', 'a')]


def test_what_joins_a_waiting_lease_is_woken_with_it(world: World) -> None:
    lease_id = _manual(world, 'a')
    world.join(lease_id, 'b')
    world.run_until_idle()
    assert world.things.calls == []
    world.start(lease_id)
    world.run_until_idle()
    world.join(lease_id, 'c')
    world.run_until_idle()
    assert world.things.state == {'a': 'awake', 'b': 'awake', 'c': 'awake'}


@pytest.mark.parametrize('moment', ['waiting', 'running'])
def test_ending_early_frees_all(world: World, time: Time, moment: str) -> None:
    lease_id = world.create('a', 'b', events=[{'event_type': 'note', 'time': '2082-12-01 13:50'}])
    if moment == 'running':
        world.run_until_idle()
    time.forward(minutes=10)
    world.end(lease_id)
    lease = world.lease(lease_id)
    assert (lease.status, lease.end_date) == ('TERMINATING', time.now)
    assert (lease.before_end_date or time.now) <= lease.end_date
    world.end(lease_id)
    lease = world.settle(lease_id)
    assert (lease.status, lease.status_reason, lease.deleted_at) == ('TERMINATED', None, None)
    assert world.things.state == {'a': 'gone', 'b': 'gone'}
    assert world.trusts.present == set()
    assert {'lease.event.note', 'lease.event.start_lease.error'}.isdisjoint(world.told())
    assert world.told()[-1] == 'lease.event.end_lease'
    before = world.lease(lease_id)
    world.end(lease_id)
    assert world.lease(lease_id) == before
    time.forward(days=1)
    assert world.run() == 0


def test_cancelled_lease_ends_without_a_start(world: World) -> None:
    lease_id = world.create('a', start=ONE, before_start=[60])
    world.things.answers['end', 'a'] = [AWAY]
    world.end(lease_id)
    lease = world.settle(lease_id)
    assert (lease.status, lease.status_reason) == ('TERMINATING', f'{TYPE} a: Nova is away')
    lease = world.settle(lease_id, hours=2)
    assert (lease.status, lease.status_reason) == (
        'TERMINATED',
        'Cancelled by its user before its start.',
    )
    assert (lease.start_date, lease.end_date) == (at(ONE), at('2082-12-01 14:00'))
    assert world.things.journal == [('end', 'a')]
    assert world.told() == ['lease.create', 'lease.update', 'lease.event.end_lease']


def test_end_that_fails_again_for_the_same_reason_is_not_told_again(world: World) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    world.things.answers['end', 'a'] = [AWAY] * 4
    world.run_until_idle(hours=2)
    for _ in range(3):
        lease = world.settle(lease_id, minutes=10)
        if lease.status == 'TERMINATING':
            assert lease.status_reason == f'{TYPE} a: Nova is away'
    assert world.settle(lease_id, minutes=10).status == 'TERMINATED'
    page = [entry for _, entry in world.database.read(listing.read_history_page, lease_id)[0]]
    ends = [each.result for each in page if each.action == 'event.end_lease']
    # It begins, it cannot be done, and it is done.
    assert ends == ['progress', 'retry', 'done']


def test_ending_while_the_start_is_at_work(world: World) -> None:
    world.things.answers['wake', 'a'] = [lambda: world.end(lease_id)]
    lease_id = world.create('a', 'b', start='2082-12-01 11:59')
    lease = world.settle(lease_id)
    assert (lease.status, set(statuses(lease.reservations))) == ('TERMINATED', {'deleted'})
    assert world.things.state == {'a': 'gone', 'b': 'gone'}
    assert ('end', 'b') in world.things.journal
