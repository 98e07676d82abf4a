# SPDX-License-Identifier: Apache-2.0
"""The fake cloud of the bench: that of the tests, with what Blazar needs besides, and counters.

``python -m tests.bench.cloud PORT DIRECTORY`` serves Keystone and Nova on 127.0.0.1, at zero
latency, in a process of its own. Both services get the same program. ``GET /fake/bench`` tells
what was counted; paths under ``/fake`` are not.
"""

import collections
import pathlib
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench import blazar_cloud, climate_cloud, web
from tests.bench.nova_compute import NovaCompute
from tests.bench.processes import Processes, free_port
from tests.support.fakes import cloud_server
from tests.support.fakes.remote import Remote
from tests.support.fakes.state import State

#: The user of the bench, and the services, with the roles that each installation guide asks.
USER, PROJECT, PASSWORD = 'bench', 'bench-project', 'secret'
#: A user of another project.
RIVAL, RIVAL_PROJECT = 'rival', 'rival-project'
PROJECT_ID = f'{PROJECT}-id'
NOVA, SERVICE_PROJECT = 'nova', 'service'
SERVICES = ('climate', 'blazar', NOVA)
#: Versions and ids in a path.
_NO_NAME = re.compile(r'|v\d+(\.\d+)?|[0-9a-f-]{32,36}|\d+')
_WAKE_UP = re.compile(r'/compute/v2\.1/servers/([^/]+)/action')


class Counted(list[tuple[str, str, int]]):
    """The requests of :class:`State`, of which only what the bench asks for is kept.

    :param woken: called with the id of each server that is woken
    """

    def __init__(self, woken: Callable[[str], None] = lambda _server: None) -> None:
        super().__init__()
        self._woken = woken
        self.calls = 0
        self.kinds: collections.Counter[str] = collections.Counter()
        self.refused: list[str] = []
        self.started: dict[str, float] = {}
        self.again: list[str] = []

    def append(self, request: tuple[str, str, int]) -> None:
        method, path, status = request
        self.calls += 1
        names = [each for each in path.split('/') if not _NO_NAME.fullmatch(each)]
        self.kinds[' '.join([method, *names])] += 1
        action = _WAKE_UP.fullmatch(path)
        if status >= 400:
            self.refused.append(f'{status} {method} {path}')
        elif action:
            if action[1] in self.started:
                self.again.append(action[1])
            self.started.setdefault(action[1], time.time())
            self._woken(action[1])


class Handler(cloud_server.Handler):
    """A request; one to a service that hangs is never answered."""

    server: 'Server'

    def _answer(self) -> None:
        if any(self.path.startswith(each) for each in self.server.hanging):
            threading.Event().wait()
        super()._answer()


class Server(cloud_server.Server):
    def __init__(self, port: int, directory: pathlib.Path) -> None:
        state = State(directory / 'cloud-journal')
        compute = NovaCompute(state)
        state.requests = self._counted = Counted(compute.wake)
        state.network_quota = 1_000_000
        for name in SERVICES:
            state.user(name, PASSWORD, SERVICE_PROJECT, ['admin', 'service'])
        state.user(USER, PASSWORD, PROJECT, ['member', 'reader'])
        state.user(RIVAL, PASSWORD, RIVAL_PROJECT, ['member', 'reader'])
        super().__init__(state, port)
        self.RequestHandlerClass = Handler
        #: What the paths of services begin with that do not answer.
        self.hanging: list[str] = []
        self._aggregates, self._lanes = blazar_cloud.Aggregates(), climate_cloud.Lanes()
        self.routes = (
            *blazar_cloud.routes(self._aggregates),
            *climate_cloud.routes(self._lanes),
            ('GET', '/fake/bench', self._report),
            ('POST', '/fake/nova-compute', compute.start),
            ('POST', '/fake/hanging', self._hang),
            *cloud_server.ROUTES,
        )

    def _hang(self, request: Any) -> Any:
        self.hanging.append(request.body)
        return self.hanging

    def _report(self, request: Any) -> Any:
        counted = self._counted
        aggregates = {str(key): moment for key, moment in self._aggregates.started.items()}
        started = {**aggregates, **self._lanes.started, **counted.started}
        found = {'calls': counted.calls, 'kinds': counted.kinds}
        refused = {'refused': counted.refused, 'again': counted.again}
        return {**found, **refused, 'started': started}


class Client(Remote):
    """Starts the cloud and speaks with it on behalf of the bench."""

    def __init__(self, processes: Processes, name: str) -> None:
        port = free_port()
        self.url = f'http://127.0.0.1:{port}'
        root = str(pathlib.Path(__file__).parents[2])
        mine = processes.directory / name
        mine.mkdir()
        command = [sys.executable, '-m', 'tests.bench.cloud', port, mine]
        process = processes.start(name, command, {'PYTHONPATH': root})
        process.wait_for(lambda: web.serves(self.url + '/fake/bench'))

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = self.call('/fake/bench')[1]
        return report

    def calls(self) -> int:
        """Return the number of calls so far."""
        calls: int = self.report()['calls']
        return calls

    def kinds(self) -> dict[str, int]:
        """Return how often each call came: its method, and the names in its path."""
        kinds: dict[str, int] = self.report()['kinds']
        return kinds

    def refused(self) -> Sequence[str]:
        """Return the calls that were answered with 400 or more."""
        refused: list[str] = self.report()['refused']
        return refused

    def started_again(self) -> Sequence[str]:
        """Return the servers that were woken once more, as often as they were."""
        again: list[str] = self.report()['again']
        return again

    def started(self) -> dict[str, float]:
        """Server, aggregate or lane -> unix time at which a lease started it."""
        started: dict[str, float] = self.report()['started']
        return started


if __name__ == '__main__':
    Server(int(sys.argv[1]), pathlib.Path(sys.argv[2])).serve_forever()
