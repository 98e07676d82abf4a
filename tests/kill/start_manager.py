# SPDX-License-Identifier: Apache-2.0
"""Run climate-manager, or one request, in a process of its own, with a hook at the points.

Every point is told to the test, which is how it waits; at one of them the process kills itself.
"""

import contextlib
import functools
import os
import pathlib
import signal
import threading
import types
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import oslo_messaging as messaging
import requests
import sqlalchemy as sa

from climate_core import conf as configuration
from climate_core import test_hooks
from climate_core.calendar.calendar import Calendar
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.cmd import manager
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.db.sql import Clock
from climate_core.delivery import webhooks
from climate_core.engine import start_preparation
from climate_core.operations import shrink
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.services import Services
from climate_core.plugins import loading, own_service_plugin, provisioned_plugin, step_context
from climate_core.repair import cleanup, reconciliation
from climate_hosts.operations import evacuation
from climate_hosts.operations.hosts import HostOperations
from climate_hosts.plugins import lane_plugin, server_drain
from climate_hosts.power import worker as host_power
from climate_hosts.watch import failures as host_watch

#: Seconds for which creates that come at once wait for each other.
_PATIENCE = 60.0


class Connections:
    """Count the database connections that are in use, and keep them away while it stands still.

    A process that is stopped in the middle of a transaction keeps the lock of SQLite's file, and
    every other process waits for it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_use = 0
        self._closed = False
        sa.event.listen(sa.pool.Pool, 'checkout', self._checkout)
        sa.event.listen(sa.pool.Pool, 'checkin', self._checkin)

    def _checkout(self, *_: Any) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._in_use += 1

    def _checkin(self, *_: Any) -> None:
        with self._changed:
            self._in_use -= 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def unused(self) -> Iterator[None]:
        """Wait until no connection is in use; let none be used inside."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._in_use)
        yield
        with self._changed:
            self._closed = False
            self._changed.notify_all()


class Hook:
    """Tells the points, dies at one of them, and stands still at another.

    :param kill: ``POINT:EVENT_TYPE:COUNT``: die when it is reached for the COUNT-th time; None
        for never. After ``/`` is one of the same form at which it stands still before that
    """

    def __init__(self, kill: str | None, tell: Connection) -> None:
        found = zip((kill or '').split('/'), (signal.SIGKILL, signal.SIGSTOP), strict=False)
        points = [(*each.split(':'), sent) for each, sent in found if each]
        self._signals = {(name, of): sent for name, of, _, sent in points}
        self._left = {(name, of): int(count) for name, of, count, _ in points}
        self._tell = tell
        self._lock = threading.Lock()
        self._connections = Connections()
        self._goes_on = threading.Event()
        signal.signal(signal.SIGCONT, lambda *_: self._goes_on.set())

    def __call__(self, name: str, info: dict[str, Any]) -> None:
        point = name, info['event_type']
        with self._lock:
            self._tell.send(name)
            left = self._left[point] = self._left.get(point, 0) - 1
            if not left and self._signals[point] == signal.SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
        if not left:
            self._stand_still()

    def _stand_still(self) -> None:
        with self._connections.unused():
            os.kill(os.getpid(), signal.SIGSTOP)
            # Of the process another thread may stop first, and this one goes on meanwhile.
            self._goes_on.wait()


def _begin(log: pathlib.Path) -> None:
    os.setsid()
    # To read the certificates of all authorities takes longer than all else at the start.
    os.environ['SSL_CERT_FILE'] = os.devnull
    with log.open('ab') as file:
        os.dup2(file.fileno(), 2)


def _add_points() -> None:
    """Add points where the product has none.

    ``request.before`` and ``request.after``, of the type ``write``, before another service is
    asked to change something, and when it has done so; ``commit.before``, of the type that is the
    name of its thread, before a transaction that writes is committed.
    """
    send = requests.adapters.HTTPAdapter.send

    def tell(self: Any, asked: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        writes = asked.method != 'GET' and '/identity' not in str(asked.url)
        if writes:
            test_hooks.reached('request.before', event_type='write')
        answer = send(self, asked, **kwargs)
        if writes:
            test_hooks.reached('request.after', event_type='write')
        return answer

    requests.adapters.HTTPAdapter.send = tell  # type: ignore[method-assign]

    def commit(connection: sa.Connection) -> None:
        if connection.get_execution_options().get('climate_writes'):
            name = threading.current_thread().name
            test_hooks.reached('commit.before', event_type=name)

    sa.event.listen(sa.Engine, 'commit', commit)


def run(config: pathlib.Path, kill: str | None, log: pathlib.Path, tell: Connection) -> None:
    """Be climate-manager until the end of the process."""
    _run(config, kill, log, tell, Hook)


def run_notified(
    config: pathlib.Path, kill: str | None, log: pathlib.Path, tell: Connection, server: str
) -> None:
    """Be climate-manager, which Nova tells that a server runs after each look at a start."""
    heard = config.with_name('notified.conf')
    heard.write_text('[nova_notifications]\nenabled = true\n', encoding='utf-8')
    conf = configuration.load([], [str(config)])

    class NotifiedHook(Hook):
        def __call__(self, name: str, info: dict[str, Any]) -> None:
            super().__call__(name, info)
            if (name, info['event_type']) == ('finish.after', 'start_lease'):
                data = {'nova_object.data': {'uuid': server}}
                self._nova.info({}, 'instance.create.end', data)

        @functools.cached_property
        def _nova(self) -> messaging.Notifier:
            options = conf.nova_notifications
            # The exchange of Nova, within this process.
            conf.set_override('control_exchange', options.exchange)
            transport = messaging.get_notification_transport(conf)
            topics = options.topics[:1]
            return messaging.Notifier(transport, 'nova', driver='messagingv2', topics=topics)

    # It is the notification, and no look that comes soon, that finds it awake.
    _run(config, kill, log, tell, NotifiedHook, 600.0, '--config-file', str(heard))


def _run(
    config: pathlib.Path,
    kill: str | None,
    log: pathlib.Path,
    tell: Connection,
    hook: type[Hook],
    first_poll: float = 0.02,
    *words: str,
) -> None:
    _begin(log)
    # The comparison looks at servers too, and each look is a step of the fake cloud.
    reconciliation._FIRST_SECONDS = 3600.0
    # The fake cloud takes a step at each look, and needs no time for it.
    step_context._FIRST_PAUSE_SECONDS = 0.02  # type: ignore[misc]
    own_service_plugin.OwnServicePlugin._first_poll = lambda self: first_poll  # type: ignore[method-assign]
    lane_plugin.POLL_SECONDS = server_drain.POLL_SECONDS = evacuation._POLL_SECONDS = 0.02  # type: ignore[misc]
    # What is to be prepared is so at once.
    start_preparation.random = types.SimpleNamespace(uniform=lambda least, _most: least)  # type: ignore[assignment]
    host_watch._FIRST_SECONDS = 0.0
    host_power._FIRST_SECONDS = 0.0  # type: ignore[misc]
    host_power._POLL_SECONDS = 0.05  # type: ignore[misc]
    provisioned_plugin.IN_FLIGHT_SECONDS = 2.0  # type: ignore[misc]
    # What a dead manager was sending is sent again when its claim expires, in two seconds.
    webhooks._CLAIM_MARGIN = 1.0
    _add_points()
    test_hooks.install(hook(kill, tell))
    manager.main(['--config-file', str(config), *words])


def request(
    config: pathlib.Path,
    kill: str | None,
    log: pathlib.Path,
    tell: Connection,
    token: str,
    name: str,
    *given: Any,
) -> None:
    """Do what alice asks of leases, as the manager does for the API.

    :param token: hers
    :param name: of the operation
    """
    context, operations = _of_alice(config, log, token)
    test_hooks.install(Hook(kill, tell))
    holder = operations.creator if hasattr(operations.creator, name) else operations
    getattr(holder, name)(context, *given)


def create_at_once(
    config: pathlib.Path,
    kill: str | None,
    log: pathlib.Path,
    tell: Connection,
    token: str,
    *given: Any,
) -> None:
    """Create leases for alice, in threads whose names are ``create``.

    All of them come while the first one is about to commit.
    """
    context, operations = _of_alice(config, log, token)
    groups = operations.creator
    come = threading.Event()

    class WaitingHook(Hook):
        def __call__(self, name: str, info: dict[str, Any]) -> None:
            if name == 'commit.before' and not come.is_set():
                groups.await_waiting(len(given) - 1, _PATIENCE)
                come.set()
            super().__call__(name, info)

    test_hooks.install(WaitingHook(kill, tell))
    threads = [
        threading.Thread(
            target=operations.creator.create_lease, args=(context, each), name='create'
        )
        for each in given
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def _of_alice(
    config: pathlib.Path, log: pathlib.Path, token: str
) -> tuple[RequestContext, LeaseOperations]:
    _begin(log)
    conf = configuration.load([], [str(config)])
    cloud, database = Cloud(conf), Database(conf)
    plugins = loading.load_plugins(conf, cloud)
    context = RequestContext(
        auth_token=token,
        user_id='alice-id',
        project_id='demo-id',
        roles=['member', 'reader'],
        own_token=True,
    )
    # What was not done is undone by the next manager at once.
    shrink.UNDO_SECONDS = 0  # type: ignore[misc]
    _add_points()
    services = Services(
        conf,
        database,
        Clock(database),
        plugins,
        Calendar(database),
        Trusts(cloud),
        cloud,
    )
    return context, LeaseOperations(services)


def operate(
    config: pathlib.Path,
    kill: str | None,
    log: pathlib.Path,
    tell: Connection,
    name: str,
    *given: Any,
) -> None:
    """Do what an operator asks of hosts, as the manager does for the API.

    :param name: of the operation
    """
    _begin(log)
    conf = configuration.load([], [str(config)])
    operations = HostOperations(conf, Database(conf), Cloud(conf))
    _add_points()
    test_hooks.install(Hook(kill, tell))
    getattr(operations, name)(RequestContext(user_id='operator'), *given)


def delete_retired_trusts(
    config: pathlib.Path, kill: str | None, log: pathlib.Path, tell: Connection
) -> None:
    """Look once for trusts that no lease needs, as the comparison does."""
    _begin(log)
    conf = configuration.load([], [str(config)])
    database, trusts = Database(conf), Trusts(Cloud(conf))
    _add_points()
    test_hooks.install(Hook(kill, tell))
    for each in cleanup.find_retired_trusts(database):
        cleanup.delete_retired_trust(database, trusts, each)
