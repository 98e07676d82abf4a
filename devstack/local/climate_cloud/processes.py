# SPDX-License-Identifier: Apache-2.0
"""Start, find and stop the processes of the cloud.

Each process leads a session of its own and has a file with its pid and its start time, so that a
pid that the kernel gave to another process is never taken for ours.
"""

import contextlib
import dataclasses
import os
import pathlib
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from climate_cloud.settings import Settings

#: Seconds between two looks at something that does not tell by itself.
LOOK_AGAIN = 0.25
STOP_SECONDS = 20


class ServiceFailed(Exception):
    """A service did not come up; the message has the end of its log."""


@dataclasses.dataclass(frozen=True)
class Service:
    """One process of the cloud.

    :param ready: tells whether it serves; called again and again until it does
    :param port: the service of :data:`climate_cloud.settings.PORTS` that it listens on, if any
    :param stop_group: the stop signal goes to all processes of the session, not only the first
    """

    name: str
    command: Sequence[str]
    ready: Callable[[], bool]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    port: str | None = None
    stop_group: bool = False
    seconds: int = 120


def _start_time(pid: int) -> str | None:
    """Return when the kernel started the process, or None if there is none (proc(5), field 22)."""
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(')')[2].split()
    return None if fields[0] == 'Z' else fields[19]


class Processes:
    """The processes of one cloud."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Set to end every wait for a service at once.
        self.give_up = threading.Event()

    def _pid_file(self, name: str) -> pathlib.Path:
        return self.settings.run / f'{name}.pid'

    def log(self, name: str) -> pathlib.Path:
        return self.settings.logs / f'{name}.log'

    def names(self) -> list[str]:
        """Name everything that was started and not stopped."""
        return sorted(path.stem for path in self.settings.run.glob('*.pid'))

    def pid(self, name: str) -> int | None:
        """Return the pid of a running process of ours, else None."""
        try:
            pid, started = self._pid_file(name).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == started else None

    def start(self, service: Service) -> None:
        """Start a service unless it runs, and wait until it serves.

        :raises ServiceFailed: it died, or is not ready in time
        """
        pid = self.pid(service.name) or self._spawn(service)
        self._wait(service, pid)

    def _spawn(self, service: Service) -> int:
        log = self.log(service.name)
        if log.exists():
            log.replace(log.with_suffix('.log.1'))
        with open(log, 'ab') as output:
            process = subprocess.Popen(
                [str(word) for word in service.command],
                cwd=self.settings.state,
                env={**clean_environment(), **service.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._pid_file(service.name).write_text(f'{process.pid} {_start_time(process.pid)}\n')
        # Its end is watched through a pidfd; Popen need not.
        process.returncode = 0
        return process.pid

    def _wait(self, service: Service, pid: int) -> None:
        looks = int(service.seconds / LOOK_AGAIN)
        with _pidfd(pid) as end:
            for _ in range(looks):
                if self.give_up.is_set() or service.ready():
                    return
                if _ended(end, LOOK_AGAIN):
                    raise ServiceFailed(self.failure(service.name, 'ended'))
        text = f'is not ready after {service.seconds} s'
        raise ServiceFailed(self.failure(service.name, text))

    def failure(self, name: str, what: str, lines: int = 20) -> str:
        """Say what is wrong with a service, with the last lines of its log."""
        return f'{name} {what}. The end of {self.log(name)}:\n{self.tail(name, lines)}'

    def tail(self, name: str, lines: int) -> str:
        log = self.log(name)
        text = log.read_text(errors='replace') if log.exists() else '(no log)'
        return '\n'.join(f'    {line}' for line in text.splitlines()[-lines:])

    def stop(self, service_name: str, whole_group: bool = False) -> None:
        """Stop a process: ask, wait, then kill its whole session."""
        pid = self.pid(service_name)
        if pid is not None:
            with _pidfd(pid) as end, contextlib.suppress(ProcessLookupError):
                (os.killpg if whole_group else os.kill)(pid, signal.SIGTERM)
                if not _ended(end, STOP_SECONDS):
                    os.killpg(pid, signal.SIGKILL)
                    _ended(end, STOP_SECONDS)
                os.killpg(pid, signal.SIGKILL)
        self._pid_file(service_name).unlink(missing_ok=True)


@contextlib.contextmanager
def _pidfd(pid: int):
    """Yield a descriptor that becomes readable when the process ends; None if it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _ended(descriptor: int | None, seconds: float) -> bool:
    if descriptor is None:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def clean_environment() -> dict[str, str]:
    """Return our environment without what would mislead a service."""
    misleading = ('OS_', 'PYTHON', 'RABBITMQ_', 'ERL_', 'CEPH_', 'CLIMATE_')
    return {key: value for key, value in os.environ.items() if not key.startswith(misleading)}
