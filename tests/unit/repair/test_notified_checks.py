# SPDX-License-Identifier: Apache-2.0
"""A notification decides nothing: its resource is checked, and checks are bounded."""

import time

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.concurrency import RateLimit
from climate_core.repair import listener
from tests.support.fakes import leases
from tests.support.stopping import stop
from tests.support.world import executed
from tests.unit.repair.notified import SERVERS

KIND = 'virtual:instance'
DELETED = 'instance.delete.end'


def deleted(server_id):
    return {'nova_object.data': {'uuid': server_id}}


@pytest.fixture
def servers(cloud):
    return cloud.plugins[KIND]


@pytest.fixture
def lease(database):
    return leases.write(database, leases.make(database, ['server-1']))


@pytest.fixture
def clock(monkeypatch):
    """Return a list with the monotonic time that the checks see."""
    now = [1000.0]
    monkeypatch.setattr(time, 'monotonic', lambda: now[0])
    return now


def test_resource_that_exists_is_checked_again_and_then_left(
    database, cloud, servers, lease, clock
):
    """What a service notifies may come before it has stored it."""
    cloud.tell(SERVERS, DELETED, deleted('server-1'))
    checks = cloud.checks[KIND]
    assert checks.poll() == listener._RECHECK_SECONDS
    clock[0] += listener._RECHECK_SECONDS
    assert checks.poll() is None
    assert servers.asked == [['server-1']] * 2
    assert leases.read(database, lease.id) == lease


def test_resource_that_is_gone_a_moment_later_is_lost(database, cloud, servers, lease, clock):
    cloud.tell(SERVERS, DELETED, deleted('server-1'))
    servers.gone['server-1'] = 'It is gone.'
    clock[0] += listener._RECHECK_SECONDS
    assert cloud.checks[KIND].poll() is None
    assert leases.read(database, lease.id).status == 'TERMINATED'


@pytest.mark.parametrize(
    'trouble',
    [
        exceptions.Transient('Nova does not answer.'),
        sa.exc.TimeoutError('no connection left'),
        KeyError('server'),
    ],
)
def test_service_that_cannot_tell_loses_nothing(
    database, cloud, servers, lease, clock, caplog, trouble
):
    servers.trouble.append(trouble)
    cloud.tell(SERVERS, DELETED, deleted('server-1'))
    assert 'Could not check Resource server-1 after a notification' in caplog.text
    assert leases.read(database, lease.id) == lease
    servers.gone['server-1'] = 'It is gone.'
    clock[0] += listener._RECHECK_SECONDS
    cloud.checks[KIND].poll()
    assert leases.read(database, lease.id).status == 'TERMINATED'


def test_repeated_notifications_are_one_check_without_a_statement(
    database, cloud, servers, lease, clock
):
    cloud.notify(SERVERS, DELETED, deleted('server-1'))

    def repeat():
        for _ in range(100):
            cloud.notify(SERVERS, DELETED, deleted('server-1'))

    assert executed(database, repeat) == []
    cloud.checks[KIND].poll()
    assert servers.asked == [['server-1']]


def test_flood_about_one_resource_is_a_check_every_few_seconds(cloud, servers, lease, clock):
    checks, seconds = cloud.checks[KIND], 60
    for _ in range(10 * seconds):
        cloud.notify(SERVERS, DELETED, deleted('server-1'))
        checks.poll()
        clock[0] += 0.1
    assert len(servers.asked) <= seconds / listener._RECHECK_SECONDS + 1


def test_flood_about_all_resources_is_bounded(database, cloud, servers, clock, monkeypatch):
    monkeypatch.setattr(cloud.checks[KIND], '_limit', RateLimit(25, 60))
    names = [f'server-{number}' for number in range(40)]
    leases.write(database, leases.make(database, names))
    for name in names:
        cloud.notify(SERVERS, DELETED, deleted(name))
    for _ in range(10):
        cloud.checks[KIND].poll()
    assert [len(each) for each in servers.asked] == [10, 10, 5]
    clock[0] += 60
    cloud.checks[KIND].poll()
    assert servers.asked[-1] == names[25:35]


def test_what_waits_is_bounded_and_the_rest_left_to_the_reconciliation(
    database, cloud, clock, monkeypatch, caplog
):
    monkeypatch.setattr(listener, '_MAX_QUEUED', 3)
    names = [f'server-{number}' for number in range(6)]
    leases.write(database, leases.make(database, names))
    checks = cloud.checks[KIND]
    assert all(checks.request(name) for name in names)
    assert list(checks._waiting) == [(name, False) for name in names[:3]]
    assert caplog.text.count('the reconciliation checks the rest') == 1


def test_resource_that_no_lease_holds_is_not_checked(cloud, servers, lease, clock):
    cloud.tell(SERVERS, DELETED, deleted('server-2'))
    assert not servers.asked


def test_lease_that_ends_before_the_check_is_left_alone(database, cloud, servers, lease, clock):
    cloud.notify(SERVERS, DELETED, deleted('server-1'))
    servers.gone['server-1'] = 'It is gone.'
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET status = 'TERMINATING'"))
    before = leases.read(database, lease.id)
    cloud.checks[KIND].poll()
    assert leases.read(database, lease.id) == before


def test_thread_checks_as_soon_as_it_is_asked(database, cloud, servers, lease):
    checks = cloud.checks[KIND]
    servers.gone['server-1'] = 'It is gone.'
    checks.start()
    cloud.notify(SERVERS, DELETED, deleted('server-1'))
    deadline = time.monotonic() + 60
    while leases.read(database, lease.id).status != 'TERMINATED':
        assert time.monotonic() < deadline
    assert stop(checks)


def test_rate_is_limited_for_each_key_and_period(clock, monkeypatch):
    monkeypatch.setattr(RateLimit, 'MOST_KEYS', 2)
    limit = RateLimit(2, 60)
    assert [limit.take('a') for _ in range(3)] == [True, True, False]
    assert limit.take('b')
    # What cannot be counted is not allowed, until a period is over.
    assert not limit.take('c')
    clock[0] += 60
    assert limit.take('c')
    assert limit.take('a')
