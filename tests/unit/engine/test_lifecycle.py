# SPDX-License-Identifier: Apache-2.0
"""A lease from its creation to its end, event by event, without a loop."""

import pytest

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.lease import views
from climate_core.plugins.base import PollAgain
from tests.support.world import Time, World, statuses


def _types(world: World, lease_id: str) -> dict[str, str]:
    return {e.event_type: e.status for e in views.visible_events(world.lease(lease_id))}


def test_lease_starts_and_ends_at_its_dates(world: World) -> None:
    lease_id = world.create('a', 'b', start='2082-12-01 13:00')
    lease = world.settle(lease_id, hours=1)
    assert lease.status == 'ACTIVE'
    assert statuses(lease.reservations) == ['active', 'active']
    assert sorted(world.things.journal) == [('wake', 'a'), ('wake', 'b')]
    lease = world.settle(lease_id, hours=1)
    assert lease.status == 'TERMINATED'
    assert statuses(lease.reservations) == ['deleted', 'deleted']
    assert lease.trust_id is None
    assert world.trusts.present == set()
    assert set(_types(world, lease_id).values()) == {'DONE'}
    assert world.told() == [
        'lease.create',
        'lease.event.before_end_lease',
        'lease.event.start_lease',
        'lease.event.end_lease',
    ]


def test_what_is_told_has_the_lease_but_not_its_trust(world: World) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    world.told()
    _, payload = world.sent[-1]
    assert payload['lease_id'] == lease_id
    assert payload['status'] == 'ACTIVE'
    assert payload['reservations'][0]['resource_id'] == 'a'
    assert payload['event_id']
    assert 'trust' not in str(world.sent)


def test_a_resource_on_its_way_is_looked_at_again(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [PollAgain(5), PollAgain(5)]
    lease_id = world.create('a', 'b')
    lease = world.settle(lease_id)
    assert lease.status == 'STARTING'
    assert statuses(lease.reservations) == ['pending', 'active']
    time.forward(seconds=4)
    assert world.run() == 0
    world.run_until_idle(seconds=1)
    assert world.settle(lease_id, seconds=5).status == 'ACTIVE'
    assert world.things.calls.count(('wake', 'b')) == 1


def test_what_is_transient_is_tried_again_with_back_off(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Transient('Nova is away')] * 3
    lease_id = world.create('a')
    waits = []
    for _ in range(3):
        lease = world.settle(lease_id)
        assert (lease.status, lease.reservations[0].status) == ('STARTING', 'pending')
        assert lease.reservations[0].status_reason == 'Nova is away'
        start = lease.event('start_lease')
        assert start is not None
        assert start.next_at is not None
        waits.append((start.next_at - time.now).total_seconds())
        time.now = start.next_at
    assert waits == [2, 4, 8]
    lease = world.settle(lease_id)
    assert (lease.status, lease.reservations[0].status_reason) == ('ACTIVE', None)


def test_permanent_error_fails_its_reservation_alone(world: World) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Permanent('The image is gone')]
    lease_id = world.create('a', 'b')
    lease = world.settle(lease_id)
    assert lease.status == 'ERROR'
    assert lease.status_reason == f'{lease.reservations[0].resource_type} a: The image is gone'
    assert statuses(lease.reservations) == ['error', 'active']
    assert _types(world, lease_id)['start_lease'] == 'ERROR'
    assert world.told()[-1] == 'lease.event.start_lease.error'
    assert world.sent[-1][1]['reason'] == lease.status_reason
    lease = world.settle(lease_id, hours=2)
    assert lease.status == 'TERMINATED'
    assert lease.status_reason is not None
    assert world.things.state == {'a': 'gone', 'b': 'gone'}


@pytest.mark.parametrize('bug', [KeyError('secret'), errors.Gone('secret')])
def test_a_bug_of_a_plugin_fails_one_reservation(
    world: World, caplog: pytest.LogCaptureFixture, bug: Exception
) -> None:
    world.things.answers['wake', 'a'] = [bug]
    lease_id = world.create('a', 'b')
    lease = world.settle(lease_id)
    assert lease.status == 'ERROR'
    assert statuses(lease.reservations) == ['error', 'active']
    assert 'Internal error' in str(lease.reservations[0].status_reason)
    assert 'secret' not in str(lease.reservations[0].status_reason)
    (logged,) = (r for r in caplog.records if r.levelname == 'ERROR')
    assert logged.exc_info is not None
    assert logged.exc_info[1] is bug
    world.run_until_idle(hours=2)
    assert world.things.state == {'a': 'gone', 'b': 'gone'}


@pytest.mark.parametrize(
    'failure', [exceptions.Transient('away'), exceptions.ServiceUnavailable('away')]
)
def test_what_is_expected_has_no_traceback(
    world: World, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    world.things.answers['wake', 'a'] = [failure]
    lease_id = world.create('a')
    assert world.settle(lease_id).status == 'STARTING'
    (logged,) = (r for r in caplog.records if r.name == 'climate_core.engine.plugin_calls')
    assert (logged.levelname, logged.exc_info) == ('WARNING', None)


def test_a_bug_does_not_keep_capacity_or_rights(world: World, time: Time) -> None:
    world.things.answers['end', 'a'] = [KeyError('x')]
    world.trusts.trouble = [KeyError('x')]
    lease_id = world.create('a')
    world.run_until_idle()
    time.forward(hours=2)
    for status in ('TERMINATING', 'TERMINATED'):
        assert world.settle(lease_id).status == status
        time.forward(seconds=2)
    assert world.trusts.present == {'trust1'}
    world.run_until_idle()
    assert world.trusts.present == set()


def test_a_lease_that_was_never_started_is_freed(world: World) -> None:
    lease_id = world.create('a', start='2082-12-01 13:00')
    assert world.settle(lease_id, hours=5).status == 'TERMINATED'
    reason = world.lease(lease_id).status_reason
    assert reason.endswith('not become active before the end of the lease.')
    assert world.things.journal == [('end', 'a')]
    check_not_started(world)


def check_not_started(world: World) -> None:
    told = [kind for kind in world.told() if kind.startswith('lease.event.start_lease')]
    assert told == ['lease.event.start_lease.error']
    (reason,) = (payload['reason'] for kind, payload in world.sent if kind == told[0])
    assert reason == 'The lease ended before it could be started.'
    assert world.told().count('lease.event.end_lease') == 1


def test_a_start_that_comes_after_the_end_is_told(world: World, time: Time) -> None:
    world.create('a', start='2082-12-01 13:00')
    time.forward(hours=5)
    for due in sorted(world.due(), key=lambda d: d.event_type != 'end_lease'):
        world.executor.run(due)
    world.run_until_idle()
    check_not_started(world)


def test_order_at_equal_times(world: World, time: Time) -> None:
    world.create('b', start='2082-12-01 13:00', before_end_date='2082-12-01 13:30')
    world.create('a', end='2082-12-01 13:00', before_end_date='2082-12-01 13:00')
    world.run_until_idle()
    time.forward(hours=1)
    due = [d.event_type for d in world.due()]
    assert due == ['before_end_lease', 'end_lease', 'start_lease']


def test_a_trust_that_cannot_be_deleted_is_given_up(world: World) -> None:
    world.trusts.trouble = [exceptions.Permanent('the owner is gone')]
    lease_id = world.create('a')
    world.run_until_idle(hours=2)
    event = world.lease(lease_id).event('release_trust')
    assert event is not None
    assert (event.status, event.status_reason) == ('ERROR', 'the owner is gone')
    assert world.lease(lease_id).status == 'TERMINATED'
