# SPDX-License-Identifier: Apache-2.0
"""A manager dies on the way of what a user does with a lease while it lives."""

import dataclasses
import datetime

import pytest

from climate_core.lease import changes, model, resources
from climate_core.lease.events import end, schedule, start
from climate_core.lease.transitions import Change
from tests.kill.deaths import EVENT, OUTBOX, check_no_error, check_told
from tests.support.fakes import leases, receiver

HOUR = datetime.timedelta(hours=1)
SECRET = 'a secret of sixteen'


def running_lease(stage, count, on_end='delete', **fields):
    """Return a lease that has started, with its servers."""
    servers = stage.cloud.servers(count, status='ACTIVE')
    made = leases.make(stage.database, servers, stage.cloud.trust(), on_end, **fields)
    return servers, leases.write(stage.database, leases.started(made))


def manual_lease(stage):
    """Return a lease that waits for its user from now on."""
    servers = stage.cloud.servers(1)
    lease = leases.make(stage.database, servers, stage.cloud.trust(), start_policy='manual')
    events = schedule.first_events(lease, (), lease.start_date)
    return servers, leases.write(stage.database, dataclasses.replace(lease, events=events))


def statuses(stage, lease):
    """Server -> the status of its reservation."""
    return {each.resource_id: each.status for each in stage.lease(lease).reservations}


@pytest.mark.parametrize(
    'kill',
    [*(f'{point}:end_reservation:1' for point in EVENT), 'finish.before:end_reservation:2'],
)
def test_taking_a_resource_out(stage, kill):
    (gone, stays), lease = running_lease(stage, 2)
    leases.change(stage.database, lease.id, resources.remove_reservation, lease.reservations[0].id)

    stage.survive(kill)
    stage.until(lambda: statuses(stage, lease)[gone] == 'deleted')

    after = stage.lease(lease)
    check_no_error(after)
    assert (after.status, statuses(stage, lease)[stays]) == ('ACTIVE', 'active')
    assert stage.cloud.effects()[gone] == ['delete']
    assert stage.cloud.effects()[stays] == []
    # What was asked for, and that it is done.
    stage.until(lambda: len({told['event_id'] for told in stage.told('lease.update')}) == 2)


@pytest.mark.parametrize('kill', [f'{point}:end_reservation:1' for point in EVENT])
def test_resource_that_was_not_extended_with_its_lease_ends_once(stage, kill):
    (gone, stays), lease = running_lease(stage, 2)

    def extend(after, now):
        # It was to end now.
        before = dataclasses.replace(after, end_date=now)
        return Change(changes.add_early_ends(before, after, [lease.reservations[0].id], now))

    leases.change(stage.database, lease.id, extend)

    stage.survive(kill)
    stage.until(lambda: statuses(stage, lease)[gone] == 'deleted')

    after = stage.lease(lease)
    check_no_error(after)
    assert (after.status, statuses(stage, lease)[stays]) == ('ACTIVE', 'active')
    assert (after.end_date, after.degraded) == (lease.end_date, False)
    assert [stage.cloud.effects()[each] for each in (gone, stays)] == [['delete'], []]
    stage.until(lambda: stage.told('lease.update'))
    assert len({told['event_id'] for told in stage.told('lease.update')}) == 1


@pytest.mark.parametrize('kill', [f'{point}:end_lease:1' for point in EVENT])
def test_lease_that_is_given_back_early_ends_once(stage, kill):
    (server,), lease = running_lease(stage, 1)
    leases.change(stage.database, lease.id, end.end_lease)

    stage.survive(kill)
    stage.until(lambda: stage.is_over(lease))

    after = stage.lease(lease)
    check_no_error(dataclasses.replace(after, status_reason=None))
    assert after.deleted_at is None
    assert after.end_date < lease.end_date
    assert stage.cloud.effects()[server] == ['delete']
    check_told(stage, 'lease.event.end_lease', kill)


def test_cancelled_lease_wakes_no_server(stage):
    """The start is due as well when the manager that died is followed."""
    (server,) = stage.cloud.servers(1)
    lease = leases.make(stage.database, [server], stage.cloud.trust())
    leases.write(stage.database, lease)
    stage.manager('event.claimed:start_lease:1').dies()
    leases.change(stage.database, lease.id, end.end_lease)

    stage.survive('remote.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))

    assert stage.cloud.effects()[server] == ['delete']
    assert stage.told('lease.event.start_lease') == []


@pytest.mark.parametrize(
    'kill',
    [
        'event.claimed:ready_to_start:1',
        'finish.before:ready_to_start:1',
        'finish.after:ready_to_start:1',
        *(f'{point}:lease.event.ready_to_start:1' for point in OUTBOX),
    ],
)
def test_manual_start_wakes_the_server_once(stage, kill):
    (server,), lease = manual_lease(stage)
    stage.manager(kill).dies()
    waiting = stage.manager()
    check_told(stage, 'lease.event.ready_to_start', kill)
    waiting.kill()
    assert stage.lease(lease).status == 'PENDING'
    assert stage.cloud.effects()[server] == []

    leases.change(stage.database, lease.id, start.start_lease)
    stage.survive('remote.after:start_lease:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    check_no_error(stage.lease(lease))
    assert stage.cloud.effects()[server] == ['wake_up']
    check_told(stage, 'lease.event.start_lease', '')


@pytest.mark.parametrize('kill', ['event.claimed', 'finish.before', 'finish.after'])
def test_telling_of_a_coming_start(stage, kill):
    servers = stage.cloud.servers(1)
    made = leases.make(stage.database, servers, stage.cloud.trust(), lasting=2 * HOUR)
    start = made.start_date + HOUR
    lease = dataclasses.replace(made, start_date=start, before_start=(7200,))
    events = schedule.first_events(lease, (), made.start_date)
    leases.write(stage.database, dataclasses.replace(lease, events=events))

    stage.survive(f'{kill}:{model.BEFORE_START}:1')

    check_told(stage, 'lease.event.before_start_lease', kill)
    (told,) = stage.told('lease.event.before_start_lease')
    assert 0 < told['starts_in'] <= 3600
    assert stage.cloud.effects()[servers[0]] == []


@pytest.mark.parametrize(('kill', 'times'), [('webhook.before', 1), ('webhook.after', 2)])
def test_webhook_is_called_after_a_kill(stage, kill, times):
    (server,) = stage.cloud.servers(1)
    with receiver.running() as hook:
        webhook = {'url': hook.url(), 'secret': SECRET, 'events': ['lease.event.*']}
        lease = leases.make(stage.database, [server], stage.cloud.trust(), webhook=webhook)
        leases.write(stage.database, lease)

        stage.survive(f'{kill}:lease.event.start_lease:1')
        hook.wait(times)

        assert len(hook.got) == times
        assert len({each.headers['webhook-id'] for each in hook.got}) == 1
        assert len({each.body for each in hook.got}) == 1
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    assert stage.cloud.effects()[server] == ['wake_up']
