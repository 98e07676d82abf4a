# SPDX-License-Identifier: Apache-2.0
"""What the workload needs to know of a service: Climate and Blazar each are one of these."""

import abc
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tests.bench.cloud import Client
from tests.bench.processes import Process, Processes, free_port
from tests.bench.servers import MariaDB

#: What uwsgi logs when one of its processes has loaded the application.
LOADED = 'ready in '
#: The API server of both: so many processes with so many threads each.
PROCESSES, THREADS = 2, 8


class Side(abc.ABC):
    """One service, running with a cloud of its own.

    :param prefix: of the Python environment with the programs of the service
    """

    name: ClassVar[str]
    database: ClassVar[str]
    #: With how many leases a list can still be asked for.
    most_listed: ClassVar[int]
    #: Whether it remembers what happened to a lease.
    has_history: ClassVar[bool]
    headers: Mapping[str, str]
    #: More words for the commands of its managers, which are programs of their own.
    manager_options: Sequence[Sequence[object]] = ((),)

    def __init__(self, running: Processes, mariadb: MariaDB, prefix: pathlib.Path) -> None:
        self._bin, self._prefix, self._running = prefix / 'bin', prefix, running
        self.cloud = Client(running, f'cloud-of-{self.database}')
        self._url = mariadb.create(self.database)
        self._port = free_port()
        self.api = f'http://127.0.0.1:{self._port}'

    def _configure(self, text: str) -> pathlib.Path:
        file = self._running.directory / f'{self.database}.conf'
        file.write_text(text)
        return file

    def _start(self, config: pathlib.Path, module: str, env: Mapping[str, str]) -> None:
        """Start the manager and the API, whose database is there."""
        manager, api = f'{self.database}-manager', f'{self.database}-api'
        command = [self._bin / manager, '--config-file', config]
        server = wsgi_server(self._bin / 'uwsgi', self._port, module, self._prefix)
        self.processes: Sequence[Process] = [
            self._running.start(api, server, env),
            *(
                self._running.start(
                    f'{manager}-{number}' if number else manager, [*command, *more]
                )
                for number, more in enumerate(self.manager_options)
            ),
        ]
        self.processes[0].wait_for(lambda: self.processes[0].logged(LOADED) == PROCESSES)

    def beaten(self) -> int | None:
        """Return how many claims managers lost to one another; None where that is not counted."""
        return None

    @abc.abstractmethod
    def reservation(self) -> Mapping[str, Any]:
        """Make ready what one lease reserves; return the reservation for the request."""

    @abc.abstractmethod
    def fill(self, count: int) -> None:
        """Have this many more leases, PENDING and due in far future, for list and show."""

    @abc.abstractmethod
    def seed(self, count: int) -> None:
        """Write so many more leases, like those of :meth:`fill`, into the tables."""

    @abc.abstractmethod
    def pages(self) -> Mapping[str, str]:
        """Kinds of lists that the service can give -> their paths."""

    @abc.abstractmethod
    def set_hosts(self, count: int) -> None:
        """Have so many hosts that can be reserved, and none of them reserved."""

    @abc.abstractmethod
    def arrange(self, count: int) -> float:
        """Have ``count`` leases due at one moment.

        :returns: that moment, unix time, some seconds from now
        """

    @abc.abstractmethod
    def started(self) -> Sequence[float]:
        """Unix times at which the cloud was told to start one of the leases of ``arrange``."""


def wsgi_server(program: object, port: int, module: str, prefix: pathlib.Path) -> Sequence[object]:
    """Return the command of the API server, the same for both services."""
    return [
        program,
        '--http-socket',
        f'127.0.0.1:{port}',
        '--module',
        module,
        '--master',
        '--processes',
        PROCESSES,
        '--threads',
        THREADS,
        '--enable-threads',
        '--lazy-apps',
        '--need-app',
        '--die-on-term',
        '--buffer-size',
        65535,
        '--disable-logging',
        '--add-header',
        'Connection: close',
        '--pyhome',
        prefix,
    ]
