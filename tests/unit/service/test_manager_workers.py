# SPDX-License-Identifier: Apache-2.0
"""Several managers as the processes of one climate-manager."""

import multiprocessing
import os
import re
import signal
import threading

import pytest

from climate_core import conf as config
from climate_core import threads
from climate_core.cmd import manager
from climate_core.db import migration
from climate_core.delivery import metrics
from climate_core.threads import VitalThread
from tests.support.world import configure
from tests.unit.service.manager_process import PATIENCE, Start, read_until, terminate

#: Seconds for which a second thread may do what it should not.
_CHANCE = 0.2
_RUNNING = r' (\d+) INFO climate_core.service .*The manager on (\S+-[12]) is running'


def _pids(process):
    """Return the process ids of two managers, by their names, when both run."""
    found = {}
    while len(found) < 2:
        running, _ = read_until(process, _RUNNING)
        found[running[2]] = int(running[1])
    return found


def test_each_manager_runs_in_a_process_of_its_own_and_is_started_again(
    start: Start, url: str
) -> None:
    migration.upgrade(configure(url))
    with start('--workers', '2', extra='[manager]\nhost = controller\n') as process:
        pids = _pids(process)
        assert sorted(pids) == ['controller-1', 'controller-2']
        os.kill(pids['controller-2'], signal.SIGKILL)
        again, _ = read_until(process, _RUNNING)
        assert again[2] == 'controller-2'
        terminate(process)
    for pid in (pids['controller-1'], int(again[1])):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_manager_whose_thread_broke_is_started_again(monkeypatch):
    stopped = []
    monkeypatch.setattr(manager.os, 'kill', lambda *sent: stopped.append(sent))
    monkeypatch.setattr(threading, 'excepthook', threading.excepthook)
    threads.stop_on_broken_thread(manager.end_process)
    vital, other = VitalThread('scheduler', print), threading.Thread(target=print)
    for thread in (other, vital):
        broken = threading.ExceptHookArgs((ValueError, ValueError('x'), None, thread))
        threading.excepthook(broken)
    assert stopped == [(os.getpid(), signal.SIGTERM)]


def test_manager_that_is_starting_is_stopped_after_its_start(monkeypatch):
    steps = []

    class Manager:
        def __init__(self, _conf):
            self.stopping = threading.Thread(target=lambda: process.terminate(), daemon=True)

        def start(self):
            self.stopping.start()
            self.stopping.join(_CHANCE)
            steps.append('start')

        def stop(self):
            steps.append('stop')
            return True

    monkeypatch.setattr(manager.service, 'ManagerService', Manager)
    monkeypatch.setattr(manager.process, 'report_on_signal', lambda _conf: None)
    monkeypatch.setattr(threading, 'excepthook', threading.excepthook)
    events = [multiprocessing.Event() for _ in range(3)]
    conf = config.load([], config_files=[])
    process = manager.ManagerProcess(0, conf, manager._SharedState(*events))
    process.run()
    process._manager.stopping.join(PATIENCE)
    assert steps == ['start', 'stop']


def test_managers_have_their_time_of_grace(monkeypatch):
    """Let the supervisor wait as long as a manager does, and fork at once."""
    made = []

    class Supervisor:
        def __init__(self, **given):
            made.append(given)

        def register_hooks(self, on_terminate):
            self.on_terminate = on_terminate

        def add(self, service, workers, args):
            self.shared = args[1]

        def run(self):
            self.shared.work_left.set()
            raise SystemExit(0)

    monkeypatch.setattr(manager.cotyledon, 'ServiceManager', Supervisor)
    conf = config.load([], config_files=[])
    conf.set_override('grace_seconds', 99.5, group='engine')
    assert manager.run_managers(conf, 2) == 1
    (given,) = made
    assert given.keys() == {'graceful_shutdown_timeout', 'mp_context'}
    assert given['graceful_shutdown_timeout'] > 100


def test_managers_that_cannot_start_say_why(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start(extra='[manager]\nworkers = 2\n[metrics]\nlisten = nowhere\n') as process:
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert re.search('does not start: .metrics. listen must be an address', said)


@pytest.mark.parametrize(
    ('listen', 'number', 'address'),
    [
        ('127.0.0.1:9464', 0, '127.0.0.1:9464'),
        ('127.0.0.1:9464', 1, '127.0.0.1:9465'),
        ('[::1]:9464', 2, '[::1]:9466'),
        ('127.0.0.1:0', 1, '127.0.0.1:0'),
        (None, 1, None),
    ],
)
def test_each_manager_serves_its_own_metrics(listen, number, address):
    conf = config.load([], config_files=[])
    conf.set_override('host', 'controller', group='manager')
    conf.set_override('listen', listen, group='metrics')
    manager.name_worker(conf, number)
    assert (conf.manager.host, conf.metrics.listen) == (f'controller-{number + 1}', address)


def test_port_of_the_last_manager_must_be_one():
    conf = config.load([], config_files=[])
    conf.set_override('listen', '127.0.0.1:65535', group='metrics')
    with pytest.raises(metrics.BadAddress, match='must be a port up to 65534'):
        manager.name_worker(conf, 1)
