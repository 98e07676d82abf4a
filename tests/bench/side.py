# SPDX-License-Identifier: Apache-2.0
"""What the workload needs to know of a service: Climate and Blazar each are one of these."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tests.bench.cloud import Client
from tests.bench.processes import Process

#: What uwsgi logs when one of its processes has loaded the application.
LOADED = 'ready in '
#: The API server of both: so many processes with so many threads each.
PROCESSES, THREADS = 2, 8


class Side(Protocol):
    """One service, running."""

    name: str
    api: str
    database: str
    headers: Mapping[str, str]
    #: With how many leases a list can still be asked for.
    most_listed: int
    #: Whether it remembers what happened to a lease.
    has_history: bool
    cloud: Client

    @property
    def processes(self) -> Sequence[Process]:
        """The API and the manager."""

    def reservation(self) -> Mapping[str, Any]:
        """Make ready what one lease reserves; return the reservation for the request."""

    def fill(self, count: int) -> None:
        """Have this many more leases, PENDING and due in far future, for list and show."""

    def seed(self, count: int) -> None:
        """Write so many more leases, like those of :meth:`fill`, into the tables."""

    def pages(self) -> Mapping[str, str]:
        """Kinds of lists that the service can give -> their paths."""

    def set_hosts(self, count: int) -> None:
        """Have so many hosts that can be reserved, and none of them reserved."""

    def arrange(self, count: int) -> float:
        """Have ``count`` leases due at one moment.

        :returns: that moment, unix time, some seconds from now
        """

    def started(self) -> Sequence[float]:
        """Unix times at which the cloud was told to start one of the leases of ``arrange``."""


def wsgi_server(
    program: object, port: int, module: str, extra: Sequence[object] = ()
) -> Sequence[object]:
    """The command of the API server, the same for both services."""
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
        *extra,
    ]
