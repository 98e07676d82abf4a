# SPDX-License-Identifier: Apache-2.0
"""A climate-manager that is run as a process."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

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
    def make(
        *arguments: str, plugins: str = '', extra: str = ''
    ) -> Iterator['subprocess.Popen[str]']:
        config = tmp_path / 'climate.conf'
        config.write_text(_CONF.format(url=url, plugins=plugins) + extra)
        command = [sys.executable, '-W', 'ignore', '-c', _MAIN, '--config-file', str(config)]
        command += arguments
        with _process(command) as process:
            try:
                yield process
            finally:
                process.kill()

    return make


def read_until(process: 'subprocess.Popen[str]', pattern: str) -> tuple[re.Match[str], str]:
    """Read the log up to a line with a pattern; return its match, and what was read."""
    assert process.stdout is not None
    read = ''
    for line in process.stdout:
        read += line
        if found := re.search(pattern, line):
            return found, read
    raise AssertionError(read)


def terminate(process: 'subprocess.Popen[str]') -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
