# SPDX-License-Identifier: Apache-2.0
"""What a manager does for a caller that the policy did not allow it, or that waits no more."""

import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core import exceptions, threads
from climate_core import policies as core_policies
from climate_core.context import RequestContext
from climate_core.db import feeds as db_feeds
from climate_core.db import leases, tables
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.rpc import ManagerClient
from climate_core.service import ManagerService
from climate_hosts import policies
from climate_hosts.operations.hosts import HostOperations
from climate_networks import policies as network_policies
from climate_networks.operations import FloatingIpOperations, NetworkOperations
from tests.support.created import get_id
from tests.support.world import TYPE, Things, Trusts, configure, user

PATIENCE = 60
NEVER = '2099-01-01 00:00'
Call = Callable[[ManagerClient, RequestContext, Any], Any]


class Manager:
    """A manager, and a client of its RPC.

    :param seconds: how long the client waits for an answer
    """

    def __init__(self, url: str, things: Things, seconds: int = PATIENCE) -> None:
        conf = configure(url, grace_seconds=PATIENCE)
        self.trusts = Trusts()
        self.service = ManagerService(
            conf,
            plugins={TYPE: things},
            trusts=self.trusts,
            watch=False,
        )
        conf.set_override('rpc_response_timeout', seconds)
        self.client = ManagerClient(conf)
        self.service.start()

    def values(self, *things: str) -> dict[str, Any]:
        listed = [{'resource_type': TYPE, 'resource_id': each} for each in things]
        return {
            'name': 'lease1',
            'start_date': '2098-01-01 00:00',
            'end_date': NEVER,
            'reservations': listed,
        }

    def create(self, *things: str) -> model.Lease:
        return self.read(get_id(self.client.create_lease(user(), self.values(*things))))

    def read(self, lease_id: Any) -> model.Lease:
        found = self.service.database.read(leases.find, lease_id)
        assert found is not None
        return found

    def leases(self) -> int:
        with self.service.database.engine.connect() as connection:
            return len(connection.execute(tables.LEASES.select()).all())


@pytest.fixture
def things() -> Things:
    return Things()


@pytest.fixture
def run(tmp_path: pathlib.Path, things: Things) -> Iterator[Callable[..., Manager]]:
    url = f'sqlite:///{tmp_path}/manager.sqlite'
    database = Database(configure(url))
    tables.load_metadata().create_all(database.engine)
    database.dispose()
    running: list[Manager] = []

    def make(seconds: int = PATIENCE) -> Manager:
        running.append(Manager(url, things, seconds))
        return running[-1]

    yield make
    for each in running:
        assert each.service.stop()


#: What is asked of a lease, and the rule that must allow it.
ON_LEASES: list[tuple[str, Call]] = [
    (
        core_policies.UPDATE_LEASE,
        lambda c, who, lease: c.update_lease(who, lease.id, {'name': 'mine'}),
    ),
    (core_policies.DELETE_LEASE, lambda c, who, lease: c.delete_lease(who, lease.id)),
    (core_policies.START_LEASE, lambda c, who, lease: c.start_lease(who, lease.id)),
    (core_policies.END_LEASE, lambda c, who, lease: c.end_lease(who, lease.id)),
    (
        core_policies.CREATE_RESERVATION,
        lambda c, who, lease: c.add_reservation(
            who, lease.id, {'resource_type': TYPE, 'resource_id': 'more'}
        ),
    ),
    (
        core_policies.UPDATE_RESERVATION,
        lambda c, who, lease: c.update_reservation(
            who, lease.id, lease.reservations[0].id, {'colour': 'red'}
        ),
    ),
    (
        core_policies.DELETE_RESERVATION,
        lambda c, who, lease: c.remove_reservation(who, lease.id, lease.reservations[0].id),
    ),
]


def allowed(rule: str, project_id: str, caller: str = 'project2') -> RequestContext:
    """Return the context of a user of a project, with what the API has enforced for them."""
    context = user(caller)
    context.grant(rule, project_id)
    return context


@pytest.mark.parametrize(('rule', 'call'), ON_LEASES)
@pytest.mark.parametrize('how', ['another project', 'another lease', 'another rule', 'nothing'])
def test_lease_on_which_the_policy_was_not_enforced_is_not_found(
    run: Callable[..., Manager], rule: str, call: Call, how: str
) -> None:
    callers = {
        'another project': user('project2'),
        'another lease': allowed(rule, 'project2'),
        'another rule': allowed(core_policies.GET_LEASES, 'project1', 'project1'),
        'nothing': RequestContext(
            user_id='user1', project_id='project1', granted={}, overwrite=False
        ),
    }
    manager = run()
    lease = manager.create('a')
    with pytest.raises(exceptions.LeaseNotFound, match=lease.id):
        call(manager.client, callers[how], lease)
    assert manager.read(lease.id) == lease


def test_administrator_whom_the_policy_allows_it_changes_a_lease_of_another_project(
    run: Callable[..., Manager],
) -> None:
    manager = run()
    lease = manager.create('a')
    manager.client.update_lease(
        allowed(core_policies.UPDATE_LEASE, 'project1'), lease.id, {'name': 'moved'}
    )
    assert manager.read(lease.id).name == 'moved'
    manager.client.update_lease(user('admins', roles=['admin']), lease.id, {'name': 'again'})
    assert manager.read(lease.id).name == 'again'


def remote_call(operation: Callable[..., Any], *args: Any, **kw: Any) -> Callable[..., Any]:
    """Return a call of an operation of a package: it takes the client, the user and a lease."""
    return lambda client, who, _: client.call(operation, who, *args, **kw)


#: What operators ask for, and the rule that must allow it.
OF_OPERATORS: list[tuple[str, Call]] = [
    (policies.CREATE, remote_call(HostOperations.create_host, {'name': 'cn1'})),
    (policies.UPDATE, remote_call(HostOperations.update_host, 1, {})),
    (policies.DELETE, remote_call(HostOperations.delete_host, 1)),
    (
        policies.UPDATE_PROPERTIES,
        remote_call(HostOperations.set_host_property, 'x', private=True),
    ),
    (policies.UPDATE_POOLS, remote_call(HostOperations.set_host_pool, 'x', {})),
    (policies.DELETE_POOLS, remote_call(HostOperations.delete_host_pool, 'x')),
    (
        network_policies.CREATE_NETWORKS,
        remote_call(NetworkOperations.create_networks, {}),
    ),
    (
        network_policies.UPDATE_NETWORKS,
        remote_call(NetworkOperations.update_network, 1, {}),
    ),
    (
        network_policies.DELETE_NETWORKS,
        remote_call(NetworkOperations.delete_network, 1),
    ),
    (
        network_policies.UPDATE_NETWORK_PROPERTIES,
        remote_call(NetworkOperations.set_network_property, 'x', private=True),
    ),
    (
        network_policies.CREATE_FLOATING_IPS,
        remote_call(FloatingIpOperations.create_floatingips, {}),
    ),
    (
        network_policies.DELETE_FLOATING_IPS,
        remote_call(FloatingIpOperations.delete_floatingip, 1),
    ),
]


def test_calls_of_operators_are_rejected_unless_the_policy_allows_them(
    run: Callable[..., Manager],
) -> None:
    manager = run()
    for rule, call in OF_OPERATORS:
        for caller in (
            user(roles=['member', 'service']),
            allowed(core_policies.UPDATE_LEASE, 'project1'),
        ):
            with pytest.raises(exceptions.Forbidden, match='not enforced the policy'):
                call(manager.client, caller, None)
        try:
            call(manager.client, allowed(rule, 'project2'), None)
        except exceptions.Forbidden:
            raise
        except Exception:  # noqa: BLE001 - there is no such host, network or pool, and no cloud
            continue


@pytest.mark.parametrize(
    'call',
    [
        lambda m, who: m.client.create_lease(who, m.values('b')),
        lambda m, who: m.client.check_lease(who, m.values('b')),
        lambda m, who: m.client.find_windows(who, {'reservations': [], 'duration': '1h'}),
        lambda m, who: m.client.create_feed(who, {'name': 'x'}),
    ],
)
def test_request_for_something_new_is_rejected_unless_the_policy_was_asked(
    run: Callable[..., Manager], call: Callable[[Manager, RequestContext], Any]
) -> None:
    manager = run()
    with pytest.raises(exceptions.Forbidden, match='not enforced the policy'):
        call(manager, allowed(core_policies.GET_LEASES, 'project1', 'project1'))
    assert (manager.leases(), manager.trusts.made) == (0, 0)


def test_feed_of_another_user_is_not_read_or_deleted(run: Callable[..., Manager]) -> None:
    manager = run()
    token = manager.client.create_feed(user(), {'name': 'x'})
    feed_id = manager.service.database.read(db_feeds.of_user, 'user1', 'project1')[0].id
    assert token
    assert manager.client.feed_roles(user('project2', 'user2'), feed_id) == []
    for caller in (user('project2'), allowed(core_policies.DELETE_FEED, 'project2')):
        with pytest.raises(exceptions.FeedNotFound):
            manager.client.delete_feed(caller, feed_id)
    assert manager.client.feed_roles(user(), feed_id) == ['member']
    manager.client.delete_feed(user(), feed_id)
    assert manager.client.feed_roles(user(), feed_id) == []


def test_request_stops_when_its_caller_has_given_up(
    run: Callable[..., Manager], things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, names = run(seconds=1), [f't{number}' for number in range(100)]
    # The message has waited for a thread before, so that the deadline is over when the call is.
    monkeypatch.setattr('climate_core.rpc.received_at', lambda: time.monotonic() - 0.5)
    seen: list[str] = []
    free, stopped = threading.Event(), threading.Event()
    reserve = things.reserve

    def reserve_slowly(context: RequestContext, values: Any, _: str) -> Any:
        seen.append(values['resource_id'])
        assert free.wait(PATIENCE)
        return reserve(context, values)

    monkeypatch.setattr(things, 'reserve', reserve_slowly)
    service_create = manager.service.rpc._server.dispatcher.dispatch

    def dispatch(incoming: Any) -> Any:
        try:
            return service_create(incoming)
        finally:
            if seen:
                stopped.set()

    monkeypatch.setattr(manager.service.rpc._server.dispatcher, 'dispatch', dispatch)
    with pytest.raises(exceptions.ServiceUnavailable, match='does not answer'):
        manager.client.create_lease(user(), manager.values(*names))
    free.set()
    assert stopped.wait(PATIENCE)
    assert seen == names[:1]
    assert (manager.leases(), manager.trusts.made) == (0, 0)


def test_request_that_has_waited_too_long_for_a_thread_does_not_start(
    run: Callable[..., Manager], things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = run()
    received = time.monotonic() - PATIENCE
    monkeypatch.setattr('climate_core.rpc.received_at', lambda: received)
    with pytest.raises(exceptions.ServiceUnavailable, match='longer than its caller waits'):
        manager.client.create_lease(user(), manager.values('a'))
    assert not things.state
    assert manager.leases() == 0


def test_message_that_waits_for_a_thread_says_for_how_long() -> None:
    """oslo.messaging takes messages from the bus also while all threads are at work."""
    executor = threads._MessageExecutor(1)
    free, now = threading.Event(), time.monotonic()
    first = executor.submit(free.wait, PATIENCE)
    second = executor.submit(lambda: (threads.received_at(), time.monotonic()))
    queued = time.monotonic()
    free.set()
    received, started = second.result(PATIENCE)
    assert first.result(PATIENCE)
    assert now <= received <= queued <= started
    executor.shutdown()
