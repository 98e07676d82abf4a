# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest
from climate_cloud.processes import Processes, Service, ServiceFailed
from climate_cloud.settings import Settings

FOREVER = [sys.executable, '-c', 'import signal; signal.pause()']


@pytest.fixture
def processes(tmp_path: pathlib.Path) -> Processes:
    settings = Settings(state=tmp_path)
    settings.run.mkdir()
    settings.logs.mkdir()
    return Processes(settings)


def test_process_is_started_once_and_stopped(processes: Processes) -> None:
    processes.start(Service('one', FOREVER, lambda: True))
    pid = processes.pid('one')
    assert pid is not None
    assert os.getsid(pid) == pid
    processes.start(Service('one', FOREVER, lambda: True))
    assert processes.pid('one') == pid
    processes.stop('one')
    assert processes.pid('one') is None
    assert processes.names() == []


def test_pid_of_another_process_is_left_alone(processes: Processes) -> None:
    (processes.settings.run / 'one.pid').write_text(f'{os.getpid()} 12345\n')
    assert processes.pid('one') is None
    processes.stop('one')


def test_a_service_that_dies_is_named_with_its_log(processes: Processes) -> None:
    command = [sys.executable, '-c', 'raise SystemExit("no such option")']
    with pytest.raises(ServiceFailed, match=r'(?s)one ended.*no such option'):
        processes.start(Service('one', command, lambda: False))


def test_a_service_that_never_serves_is_named(processes: Processes) -> None:
    try:
        with pytest.raises(ServiceFailed, match='one is not ready after 1 s'):
            processes.start(Service('one', FOREVER, lambda: False, seconds=1))
    finally:
        processes.stop('one')
