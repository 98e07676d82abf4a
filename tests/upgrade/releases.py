# SPDX-License-Identifier: Apache-2.0
"""Processes that run a manager of this release or of the previous one."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 60.0
#: The commit of release 1.0.0, beside which the tests run this checkout. The next release changes
#: it to its own commit.
PREVIOUS = '13be083508b8fb13126c291202d85736fb381cf2'


def build_previous(directory: pathlib.Path) -> pathlib.Path:
    """Build the wheel of the previous release and return the directory that it is unpacked in."""
    if not PREVIOUS:
        pytest.skip('No release precedes this one.')
    source, code = directory / 'source', directory / 'code'
    source.mkdir()
    archive = subprocess.run(['git', 'archive', PREVIOUS], cwd=ROOT, capture_output=True)
    if archive.returncode != 0:
        reason = f'The previous release is commit {PREVIOUS}: {archive.stderr.decode()}'
        shallow = ['git', 'rev-parse', '--is-shallow-repository']
        if subprocess.run(shallow, cwd=ROOT, capture_output=True).stdout != b'false\n':
            pytest.skip(f'{reason}To run it, clone the history: "git fetch --unshallow".')
        pytest.fail(reason)
    subprocess.run(['tar', '-x'], cwd=source, input=archive.stdout, check=True)
    build = [sys.executable, '-m', 'build', '--wheel', '--no-isolation', '--outdir', directory]
    subprocess.run([*build, source], check=True, stdout=subprocess.DEVNULL)
    [wheel] = directory.glob('*.whl')
    with zipfile.ZipFile(wheel) as files:
        files.extractall(code)
    return code


class Process:
    """See :mod:`tests.upgrade.worker`.

    :param code: where its climate_core is
    :param heard: gets a word for each line that it tells
    :ivar done: what was done to resources: what, and to those of which lease
    """

    def __init__(
        self,
        code: pathlib.Path,
        config: pathlib.Path,
        log: pathlib.Path,
        heard: 'queue.SimpleQueue[str]',
    ) -> None:
        environment = {**os.environ, 'PYTHONPATH': str(code), 'PYTHONWARNINGS': 'ignore'}
        self._log = log
        self._heard = heard
        with log.open('wb') as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / 'worker.py'), str(config)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.done: list[tuple[str, str]] = []
        self.finished: list[tuple[str, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.code = str(self._next('code')['code'])

    def ask(self, what: str, *values: Any) -> Any:
        """Give a command and wait for its answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({'do': what, 'with': values}) + '\n')
        self._process.stdin.flush()
        told = self._next('answer', 'trouble')
        assert 'trouble' not in told, self._why(told['trouble'])
        return told['answer']

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that comes of the work on events."""
        while not happened():
            self._next('finished')

    def until_finished(self, event_type: str, lease_id: str) -> None:
        """Wait until this process has finished an event of a lease."""
        self.until(lambda: (event_type, lease_id) in self.finished)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()

    def _next(self, *wanted: str) -> dict[str, Any]:
        """Take what it tells, up to the first line of a wanted kind."""
        while True:
            try:
                told = self._told.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(self._why('It tells nothing more')) from None
            if 'end' in told:
                raise AssertionError(self._why('It died'))
            if any(kind in told for kind in wanted):
                return told

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            told = json.loads(line)
            if 'did' in told:
                self.done.append((told['did'], told['lease']))
            if 'finished' in told:
                self.finished.append((told['finished'], told['lease']))
            self._told.put(told)
            self._heard.put(line)
        self._told.put({'end': True})

    def _why(self, what: str) -> str:
        return f'{what}\n{self._log.read_text(errors="replace")[-5000:]}'
