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


def _read_until(process: 'subprocess.Popen[str]', pattern: str) -> tuple[re.Match[str], str]:
    """Read the log up to a line with a pattern; return its match, and what was read."""
    assert process.stdout is not None
    read = ''
    for line in process.stdout:
        read += line
        if found := re.search(pattern, line):
            return found, read
    raise AssertionError(read)


def _terminate(process: 'subprocess.Popen[str]') -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_it_serves_its_metrics_reports_on_its_threads_and_runs_until_sigterm(
    start: Start, url: str
) -> None:
    migration.upgrade(configure(url))
    with start(extra='[metrics]\nlisten = 127.0.0.1:0\n') as process:
        found, _ = _read_until(process, 'Metrics are at (http://.*)$')
        _read_until(process, 'is running')
        with urllib.request.urlopen(found[1], timeout=PATIENCE) as answer:
            metrics = answer.read().decode()
        process.send_signal(signal.SIGUSR2)
        _, text = _read_until(process, 'Configuration')
        _terminate(process)
    assert 'climate_database_up 1.0' in metrics
    assert 'climate_leases{status="ACTIVE"} 0.0' in metrics
    assert 'Guru Meditation' in text
    assert 'vendor = OpenStack' in text
    # The thread that looks for what is due, and where it is.
    assert 'climate_core/threads.py' in text


@pytest.mark.parametrize(
    ('upgraded', 'plugins', 'extra', 'reason'),
    [
        (True, '', '[metrics]\nlisten = nowhere\n', '[metrics] listen'),
        (False, '', '', 'climate-manage db upgrade'),
        (True, 'no:such', '', 'no:such'),
    ],
    ids=['address', 'old database', 'plugins'],
)
def test_it_does_not_start_and_says_why(
    start: Start, url: str, upgraded: bool, plugins: str, extra: str, reason: str
) -> None:
    if upgraded:
        migration.upgrade(configure(url))
    with start(plugins, extra) as process:
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert reason in said
