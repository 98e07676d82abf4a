# SPDX-License-Identifier: Apache-2.0
"""A process whose threads break ends, and one that is told to stop leaves none behind."""

import contextlib
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from unittest import mock

import pytest
from oslo_config import cfg

from climate_core import service as command_service
from climate_core import threads
from climate_core.cmd import manager as command
from climate_core.cmd.manage import serve
from climate_core.context import RequestContext
from climate_core.db import tables
from climate_core.db.engine import Database
from climate_core.plugins.base import LeaseManaged
from climate_core.repair import reconciliation
from climate_core.repair.reconciliation import Reconciler
from climate_core.service import ManagerService
from climate_core.threads import MessageServer, VitalThread
from tests.support.world import TYPE, Things, Trusts, configure

PATIENCE = 60
_SIGNALLED = """
import signal, threading
from climate_core import threads
stop = threads.Shutdown()
stop.on_signals()
signalled = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Timer(0.2, signalled).start()
stop.wait()
"""


class Watched(Things, LeaseManaged):
    """Things that are looked at until ``release`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = threading.Event()
        self.release = threading.Event()
        self.trouble: Exception | None = None
        self.order: list[str] = []

    def unleased_since(self, resource_id: str) -> None:
        return None

    def discard(self, resource_id: str) -> None:
        return None

    def list_unleased(self) -> Iterable[str]:
        self.inside.set()
        assert self.release.wait(PATIENCE)
        if self.trouble is not None:
            raise self.trouble
        self.order.append('compared')
        return ()


@pytest.fixture(autouse=True)
def _hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a program stays behind in this process."""
    monkeypatch.setattr(threading, 'excepthook', threading.excepthook)
    monkeypatch.setattr(signal, 'signal', lambda *_: None)
    monkeypatch.setattr(signal, 'set_wakeup_fd', lambda *_, **__: None)
    monkeypatch.setattr(reconciliation, '_FIRST_SECONDS', 0.0)


@pytest.fixture
def things() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.release.set()


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    made = configure(f'sqlite:///{tmp_path}/manager.sqlite', grace_seconds=float(PATIENCE))
    made.set_override('enabled', False, group='nova_notifications')
    database = Database(made)
    tables.load_metadata().create_all(database.engine)
    database.dispose()
    return made


@pytest.fixture
def service(conf: cfg.ConfigOpts, things: Watched) -> ManagerService:
    return ManagerService(conf, plugins={TYPE: things}, trusts=Trusts(), watch=True)


def _fail() -> None:
    raise RuntimeError('a mistake of ours')


def _break(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def test_a_vital_thread_breaks(caplog: pytest.LogCaptureFixture) -> None:
    stop = threads.Shutdown()
    broken = threads.stop_on_broken_thread(stop.set)
    _break(VitalThread('scheduler', _fail))
    assert stop.requested
    assert broken.is_set()
    assert 'a mistake of ours' in caplog.text


def test_error_in_an_ordinary_thread_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    stop = threads.Shutdown()
    broken = threads.stop_on_broken_thread(stop.set)
    _break(threading.Thread(target=_fail, name='event_1'))
    assert not stop.requested
    assert not broken.is_set()
    assert 'a mistake of ours' in caplog.text


def test_a_signal_that_another_thread_gets() -> None:
    """A handler that runs in Python alone would not run before the first thread wakes up."""
    subprocess.run([sys.executable, '-c', _SIGNALLED], timeout=PATIENCE, check=True)


def test_a_manager_whose_comparison_breaks_ends(service: ManagerService, things: Watched) -> None:
    things.trouble = RuntimeError('a mistake of ours')
    things.release.set()
    # In a thread of its own: it would run for ever if the break were not seen.
    ended: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: ended.put(command._run(service)), daemon=True).start()
    assert ended.get(timeout=PATIENCE) == 1


def test_the_all_in_one_ends_when_a_part_breaks(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def serving(_conf: cfg.ConfigOpts) -> Iterator[str]:
        _break(VitalThread('api', _fail))
        yield 'http://127.0.0.1/v1'

    monkeypatch.setattr(serve, 'serving', serving)
    ended: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: ended.put(serve.run(conf)), daemon=True).start()
    assert ended.get(timeout=PATIENCE) == 1


def test_stop_waits_for_the_comparison(
    service: ManagerService, things: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    [reconciler] = [each for each in service._starters if isinstance(each, Reconciler)]
    wait, dispose = reconciler.wait, service.database.dispose

    def released(deadline: float) -> bool:
        things.release.set()
        return wait(deadline)

    def disposed() -> None:
        things.order.append('disposed')
        dispose()

    monkeypatch.setattr(reconciler, 'wait', released)
    monkeypatch.setattr(service.database, 'dispose', disposed)
    service.start()
    assert things.inside.wait(PATIENCE)
    assert service.stop()
    assert things.order == ['compared', 'disposed']


def test_stop_ends_at_its_deadline_whatever_hangs(
    service: ManagerService, things: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison waits for a cloud, the scheduler for a database, the rest for RabbitMQ."""
    service.conf.set_override('grace_seconds', 0.5, group='engine')
    # Longer than what is left: the deadline is for the bus, too.
    monkeypatch.setattr(command_service, 'CLOSE_SECONDS', 1e6)
    cleanup = service._transport.cleanup
    monkeypatch.setattr(service.scheduler, 'poll', things.release.wait)
    service.start()
    assert things.inside.wait(PATIENCE)
    monkeypatch.setattr(service.rpc._closing, '_target', things.release.wait)
    monkeypatch.setattr(service._transport, 'cleanup', things.release.wait)
    try:
        assert not service.stop()
        assert service.wait(0)
        assert not things.release.is_set()
    finally:
        # An RPC server that goes on would take the calls of other tests.
        things.release.set()
        service.rpc._close()
        cleanup()


def test_stop_wakes_the_rpc_server(
    service: ManagerService, things: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ sends an idle server nothing, so its poll would last for up to 5 s."""
    service.conf.set_override('grace_seconds', 5.0, group='engine')
    received = threading.Event()
    stop, nudge = service.rpc._server.stop, service._client.nudge

    def stopped() -> None:
        assert received.wait(PATIENCE)
        stop()

    def nudged(context: RequestContext) -> None:
        received.set()
        nudge(context)

    monkeypatch.setattr(service.rpc._server, 'stop', stopped)
    monkeypatch.setattr(service._client, 'nudge', nudged)
    things.release.set()
    service.start()
    service.rpc._opening.join()
    assert service.stop()


@pytest.mark.parametrize('redelivers', [True, False])
def test_only_a_server_whose_messages_are_lost_is_waited_for(redelivers: bool) -> None:
    release = threading.Event()
    polling = mock.Mock(stop=release.wait)
    server = MessageServer('polling', polling, redelivers=redelivers)
    server.start()
    server._opening.join()
    server.stop()
    assert server.wait(time.monotonic()) is redelivers
    release.set()
    assert server.wait(time.monotonic() + PATIENCE)


def test_server_that_is_not_connected_has_nothing_to_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, '_CLOSE_SECONDS', 0.0)
    release = threading.Event()
    server = MessageServer('connecting', mock.Mock(start=release.wait, stop=release.wait))
    server.start()
    assert server.is_connecting
    server.stop()
    assert server.wait(time.monotonic() + PATIENCE)
    assert server.is_connecting
    release.set()
