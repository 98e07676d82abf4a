# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.dashboard``: what a page of the dashboard costs with many leases.

Horizon's own views run in this process, against a lease service of its own on MariaDB.
"""

import argparse
import functools
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import requests

from tests.bench import dashboard_rows
from tests.bench.climate_hosts import ClimateHosts
from tests.bench.cloud import PROJECT_ID, USER
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Processes, run_in_directory
from tests.bench.servers import MariaDB, RabbitMQ

#: The operator, whose roles are those of the services.
OPERATOR = 'climate'
#: The title of a page, who looks at it, the name of its address, and its query.
PAGES: Sequence[tuple[str, str, str, dict[str, str]]] = (
    ('leases', USER, 'project:climate_leases:index', {}),
    ('leases, by status', USER, 'project:climate_leases:index', {}),
    ('one lease', USER, 'project:climate_leases:detail', {}),
    ('its resources', USER, 'project:climate_leases:detail', {'tab': 'lease__reservations'}),
    ('form of a new lease', USER, 'project:climate_leases:create', {}),
    ('calendar', USER, 'project:climate_calendar:index', {}),
    ('calendar, resources', USER, 'project:climate_calendar:index', {'group_by': 'resource'}),
    ('calendar, filter', USER, 'project:climate_calendar:index', {'q': 'lease-999'}),
    ('hosts', OPERATOR, 'admin:climate_hosts:index', {}),
    ('calendar of hosts', OPERATOR, 'admin:climate_host_calendar:index', {}),
    ('the same, filter', OPERATOR, 'admin:climate_host_calendar:index', {'q': 'compute9999'}),
    ('queue', OPERATOR, 'admin:climate_queue:index', {}),
    ('usage', OPERATOR, 'admin:climate_usage:index', {}),
    ('planned usage', OPERATOR, 'admin:climate_usage:planned', {}),
)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.dashboard', description=__doc__)
    parser.add_argument('--leases', type=int, default=1000)
    parser.add_argument('--hosts', type=int, default=10_000)
    parser.add_argument('--times', type=int, default=10, help='that each page is asked for')
    return parser.parse_args(argv)


class Cost(NamedTuple):
    """What a page costs: milliseconds, statements, requests to the lease service, kB."""

    median: float
    worst: float
    horizon_cpu: float
    service_cpu: float
    database_cpu: float
    statements: float
    calls: float
    size: float


class Counter:
    """Count the requests that Horizon sends."""

    def __init__(self) -> None:
        self.calls = 0
        send = requests.Session.send

        def counted(session: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return send(session, *args, **kwargs)

        requests.Session.send = counted  # type: ignore


class Visits:
    """Ask for the pages of the dashboard, and measure them.

    :param lease_id: of one of the leases
    """

    def __init__(self, side: ClimateHosts, meter: Meter, lease_id: str, times: int) -> None:
        # Only now: it needs Django's settings.
        from tests.bench import dashboard_visitor

        self._lease_id, self._times, self._meter = lease_id, times, meter
        self._counter = Counter()
        tokens = {user: side.cloud.token(user) for user in (USER, OPERATOR)}
        self._visitor = dashboard_visitor.Visitor(side.api, tokens, PROJECT_ID)

    def run(self) -> Iterator[tuple[str, Cost]]:
        """Yield the title of each page and what it costs."""
        for title, user, name, query in PAGES:
            roles = ('admin',) if user == OPERATOR else ('member', 'reader')
            self._visitor.become(user, *roles)
            if title.endswith('by status'):
                self._visitor.choose_status('PENDING')
            given = [self._lease_id] if name.endswith(':detail') else []
            get = functools.partial(self._visitor.get, f'horizon:{name}', given, query)
            yield title, self._cost(get)

    def _cost(self, get: Callable[[], bytes]) -> Cost:
        # The first one reads templates, and each process of the service its rules.
        size = max(len(get()) for _ in range(3))
        before, calls = self._meter.read(), self._counter.calls
        spent, began_cpu = [], time.process_time()
        for _ in range(self._times):
            began = time.perf_counter()
            get()
            spent.append((time.perf_counter() - began) * 1000)
        used = (time.process_time() - began_cpu) * 1000 / self._times
        cost = self._meter.read().since(before, self._times)
        sent = (self._counter.calls - calls) / self._times
        worst = max(spent)
        median = statistics.median(spent)
        cpu = used, cost.cpu_ms, cost.database_cpu_ms
        return Cost(median, worst, *cpu, cost.statements, sent, size / 1000)


def table(rows: Sequence[tuple[str, Cost]]) -> str:
    """Format the costs as a simple table of reStructuredText."""
    heads = (
        'page',
        'p50 ms',
        'worst ms',
        'CPU Horizon',
        'service',
        'database',
        'SQL',
        'HTTP',
        'kB',
    )
    decimals = (0, 0, 0, 0, 0, 1, 1, 0)
    cells = [
        [title, *(f'{value:.{n}f}' for value, n in zip(cost, decimals, strict=True))]
        for title, cost in rows
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    rule = ' '.join('=' * width for width in widths)
    lines = [
        ' '.join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in (heads, *cells)
    ]
    return '\n'.join([rule, lines[0], rule, *lines[1:], rule])


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    with Processes(directory) as running:
        mariadb, rabbitmq = MariaDB(running), RabbitMQ(running)
        side = ClimateHosts(running, mariadb, rabbitmq)
        side.set_hosts(options.hosts)
        lease_id = dashboard_rows.seed(side.database_url, options.leases, PROJECT_ID)
        service, manager = side.processes
        # No page needs it, and what it reads is not to be counted.
        manager.stop()
        meter = Meter(Probe(mariadb.connect()), mariadb.process, [service], side.cloud.calls)
        print(
            f'{options.leases} leases, as many that wait, {options.hosts} hosts, '
            f'load {os.getloadavg()[0]:.1f}',
            flush=True,
        )
        print(table([*Visits(side, meter, lease_id, options.times).run()]))
        print(f'load {os.getloadavg()[0]:.1f}')


def main(argv: Sequence[str]) -> int:
    os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.dashboard.settings'
    return run_in_directory(functools.partial(measure, arguments(argv)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
