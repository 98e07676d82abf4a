# SPDX-License-Identifier: Apache-2.0
"""climate-manager as a process."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from climate_core.db import migration
from tests.support.world import configure

PATIENCE = 60
_MAIN = 'import sys; from climate_core.cmd.manager import main; sys.exit(main())'
_CONF = """
[DEFAULT]
transport_url = fake:/
[database]
connection = {url}
[manager]
plugins = {plugins}
[nova_notifications]
enabled = false
[cinder_notifications]
enabled = false
[heat_notifications]
enabled = false
"""

Start = Callable[..., contextlib.AbstractContextManager['subprocess.Popen[str]']]


def _process(command: list[str]) -> 'subprocess.Popen[str]':
    pipe, merged = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(command, stdout=pipe, stderr=merged, text=True)


@pytest.fixture
def url(tmp_path: pathlib.Path) -> str:
    return f'sqlite:///{tmp_path}/climate.sqlite'


@pytest.fixture
def start(tmp_path: pathlib.Path, url: str) -> Start:
    """Return a context manager that runs climate-manager."""

    @contextlib.contextmanager
    def make(plugins: str = '', extra: str = '') -> Iterator['subprocess.Popen[str]']:
        config = tmp_path / 'climate.conf'
        config.write_text(_CONF.format(url=url, plugins=plugins) + extra)
        command = [sys.executable, '-W', 'ignore', '-c', _MAIN, '--config-file', str(config)]
        with _process(command) as process:
            try:
                yield process
            finally:
                process.kill()

    return make


def test_it_runs_until_sigterm(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if 'is running' in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


def test_it_reports_on_its_threads(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if 'is running' in line:
                break
        process.send_signal(signal.SIGUSR2)
        said = []
        for line in process.stdout:
            said.append(line)
            if 'Configuration' in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    text = ''.join(said)
    assert 'Guru Meditation' in text
    assert 'vendor = OpenStack' in text
    # The thread that looks for what is due, and where it is.
    assert 'climate_core/threads.py' in text


def test_it_does_not_start_on_an_address_that_makes_no_sense(
    start: Start, url: str, tmp_path: pathlib.Path
) -> None:
    migration.upgrade(configure(url))
    with start(extra='[metrics]\nlisten = nowhere\n') as process:
        assert process.stdout is not None
        said = process.stdout.read()
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert '[metrics] listen' in said


def test_it_serves_its_metrics(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start(extra='[metrics]\nlisten = 127.0.0.1:0\n') as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search('Metrics are at (http://.*)$', line):
                break
        assert found is not None
        with urllib.request.urlopen(found[1], timeout=PATIENCE) as answer:
            text = answer.read().decode()
    assert 'climate_database_up 1.0' in text
    assert 'climate_leases{status="ACTIVE"} 0.0' in text


def test_it_does_not_start_on_an_old_database(start: Start) -> None:
    with start() as process:
        assert process.stdout is not None
        said = process.stdout.read()
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert 'climate-manage db upgrade' in said


def test_it_does_not_start_without_its_plugins(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start('no:such') as process:
        assert process.stdout is not None
        said = process.stdout.read()
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert 'no:such' in said
