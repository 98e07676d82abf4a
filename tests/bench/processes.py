# SPDX-License-Identifier: Apache-2.0
"""Processes that the bench starts: one session each, a log file, CPU time, an orderly end."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence

_TICK_MS = 1000 / os.sysconf('SC_CLK_TCK')
_UTIME, _CSTIME, _PGRP = 11, 14, 2


class Failed(Exception):
    """The bench cannot go on with this part."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(what: str, ready: Callable[[], bool], seconds: float, every: float = 0.05) -> None:
    """Ask ``ready`` until it says yes.

    :raises Failed: it did not within ``seconds``
    """
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise Failed(f'{what}: not within {seconds:.0f} s')
        pause.wait(every)


def listens(port: int) -> bool:
    """Tell whether something accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(('127.0.0.1', port)) == 0


class Process:
    """One program with all its children.

    :param name: what to call it in messages; also the name of its log file
    :param command: program and arguments
    :param directory: where it runs, and where ``<name>.log`` is written
    :param env: variables on top of the bench's own
    """

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        directory: pathlib.Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = directory / f'{name}.log'
        with self.log.open('ab') as log:
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                cwd=directory,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def group(self) -> int:
        """Return the process group, which the children share."""
        return self._popen.pid

    def wait_for(self, ready: Callable[[], bool], seconds: float = 180) -> None:
        """Wait until it serves; say what its log ends with when it does not."""

        def ask() -> bool:
            if self._popen.poll() is not None:
                raise Failed(f'ended with status {self._popen.returncode}')
            return ready()

        try:
            wait_until('not ready', ask, seconds)
        except Failed as error:
            raise Failed(f'{self.name}: {error}\n{self.tail()}') from None

    def logged(self, text: str) -> int:
        """Count how often a text stands in the log."""
        return self.log.read_text(errors='replace').count(text)

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        return '\n'.join(self.log.read_text(errors='replace').splitlines()[-lines:])

    def cpu_ms(self) -> float:
        """Return the CPU milliseconds, user and system, that the group has used so far."""
        return group_cpu_ms(self.group)

    def memory(self) -> float:
        """Return the most memory that its first process has had, MiB."""
        status = pathlib.Path(f'/proc/{self._popen.pid}/status').read_text()
        (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith('VmHWM')]
        return int(peak) / 1024

    def memories(self) -> list[float]:
        """Return the memory that each process of the group has now, MiB."""
        found = []
        for directory in pathlib.Path('/proc').glob('[0-9]*'):
            with contextlib.suppress(OSError):
                if os.getpgid(int(directory.name)) == self.group:
                    pages = int((directory / 'statm').read_text().split()[1])
                    found.append(pages * os.sysconf('SC_PAGE_SIZE') / 2**20)
        return sorted(found)

    def stop(self, seconds: float = 5) -> None:
        """End the whole group: politely, and by force after ``seconds``."""
        if self._popen.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
        self._signal(signal.SIGKILL)
        self._popen.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.group, number)
        except ProcessLookupError:
            return


class Processes:
    """The processes of one part of the bench; with its end they end, the last one first.

    :param directory: where they run and log
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._running: list[Process] = []

    def __enter__(self) -> 'Processes':
        return self

    def __exit__(self, *_: object) -> None:
        while self._running:
            self._running.pop().stop()

    def start(
        self, name: str, command: Sequence[object], env: Mapping[str, str] | None = None
    ) -> Process:
        """Start one more; see :class:`Process`."""
        self._running.append(Process(name, command, self.directory, env))
        return self._running[-1]


def group_cpu_ms(group: int) -> float:
    """Sum the CPU milliseconds of the processes of a group, ended children included.

    Source: /proc/<pid>/stat, see proc(5): fields utime, stime, cutime, cstime, in clock ticks.
    """
    ticks = 0
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            # The name in brackets may hold blanks: count the fields behind it.
            fields = stat.read_text().rpartition(')')[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[_PGRP]) == group:
            ticks += sum(map(int, fields[_UTIME : _CSTIME + 1]))
    return ticks * _TICK_MS


def run(command: Sequence[object], env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed.

    :raises Failed: its status was not 0
    """
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        end = '\n'.join(done.stdout.splitlines()[-15:])
        raise Failed(f'{command[0]} {command[1]}: status {done.returncode}\n{end}')
    return done.stdout


def run_in_directory(measure: Callable[[pathlib.Path], None]) -> int:
    """Measure with a directory that is deleted afterwards; return the status of the program."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix='climate-bench-'))
    try:
        measure(directory)
    except (Failed, OSError) as error:
        print(f'bench: {error}', file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0
