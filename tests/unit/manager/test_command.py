# SPDX-License-Identifier: Apache-2.0
"""climate-manager as a process."""

import contextlib
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from climate_core.db import migration
from tests.unit.engine.world import configure

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
    def make(plugins: str = '') -> Iterator['subprocess.Popen[str]']:
        config = tmp_path / 'climate.conf'
        config.write_text(_CONF.format(url=url, plugins=plugins))
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
        assert process.wait(PATIENCE) == 0


def test_it_does_not_start_on_an_old_database(start: Start) -> None:
    with start() as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(PATIENCE) == 1
    assert 'climate-manage db upgrade' in said


def test_it_does_not_start_without_its_plugins(start: Start, url: str) -> None:
    migration.upgrade(configure(url))
    with start('no:such') as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(PATIENCE) == 1
    assert 'no:such' in said
