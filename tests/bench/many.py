# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.many``: what is done costs among few leases and among a million.

Most of the many are over. Then they are purged, while others work on the same tables.
"""

import argparse
import contextlib
import dataclasses
import datetime
import functools
import itertools
import os
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oslo_config import cfg
from sqlalchemy import orm

from climate_core import conf as configuration
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.db import events, leases, store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import Database
from climate_core.plugins import loading
from climate_core.repair.reconciliation import Reconciler
from tests.bench import climate_rows, report
from tests.bench.climate import Climate
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Processes, run_in_directory
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.workload import WARM_UP, Result, Size, Workload

#: How many leases there are first, all of them live.
FEW = 1000
OVER = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
TIMES, STARTS = 30, 50
#: As many events as a manager with the default number of workers asks for.
WINDOW = 64
_SERVERS_AT_ONCE = 5000


def say(text: str) -> None:
    print(f'{datetime.datetime.now():%H:%M:%S} {text} (load {os.getloadavg()[0]:.1f})', flush=True)


class AmongMany(Climate):
    """Compares with the cloud when it is told to, and not by itself."""

    more = '[reconcile]\ninterval = 1000000\n'

    @property
    def configuration(self) -> cfg.ConfigOpts:
        """Return its configuration, for what is measured in this process."""
        return configuration.load(config_files=[str(self._config)])


class Rows:
    """The leases that are written into the tables."""

    def __init__(self, side: Climate, mariadb: MariaDB) -> None:
        self._side, self._mariadb = side, mariadb
        self._marks = itertools.count(1)
        self._start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=100)

    def write(self, count: int, over_at: datetime.datetime | None = None) -> None:
        """Write leases, live ones with their servers."""
        mark = next(self._marks)
        with _quick_writes(self._mariadb):
            climate_rows.seed(self._side.database_url, count, self._start, mark, over_at)
        if over_at is None:
            self._add_servers(f'{mark:04x}')

    def _add_servers(self, mark: str) -> None:
        query = 'SELECT resource_id FROM reservations WHERE lease_id LIKE %s'
        with self._mariadb.connect(Climate.database) as connection, connection.cursor() as cursor:
            cursor.execute(query, (f'{mark}%',))
            servers = [{'id': each} for (each,) in cursor.fetchall()]
        for first in range(0, len(servers), _SERVERS_AT_ONCE):
            self._side.cloud.order('servers', servers[first : first + _SERVERS_AT_ONCE])


@contextlib.contextmanager
def _quick_writes(mariadb: MariaDB) -> Iterator[None]:
    """Let a commit be on the disk later, and the log of the database be long, meanwhile."""
    quick = {'innodb_flush_log_at_trx_commit': 2, 'innodb_log_file_size': 2**30}
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f'SELECT {", ".join(f"@@{name}" for name in quick)}')
        before = dict(zip(quick, cursor.fetchone(), strict=True))
        try:
            for name, value in quick.items():
                cursor.execute(f'SET GLOBAL {name} = {value}')
            yield
        finally:
            for name, value in before.items():
                cursor.execute(f'SET GLOBAL {name} = {value}')


class Measurement:
    """Measures the same things, among few leases and among many."""

    def __init__(self, side: AmongMany, mariadb: MariaDB) -> None:
        self._side, self._conf = side, side.configuration
        self.database = Database(self._conf)
        self.probe = Probe(mariadb.connect())
        self._meter = Meter(self.probe, mariadb.process, side.processes, side.cloud.calls)
        size = Size(TIMES, FEW, TIMES, TIMES, (STARTS,), 0)
        self.work = Workload(side, self._meter, self.probe, size, say)
        cloud = Cloud(self._conf)
        plugins = loading.load_plugins(self._conf, cloud)
        self._reconciler = Reconciler(self._conf, self.database, plugins, Trusts(cloud))
        self.results: dict[str, dict[str, Result]] = {}

    def run(self, name: str) -> None:
        """Measure everything; the name is that of the row."""
        rows = self.probe.rows(
            "SELECT id FROM climate.leases WHERE status = 'PENDING' ORDER BY RAND() LIMIT 100"
        )
        ids = [each for (each,) in rows]
        self._note('create', name, self.work.creates(TIMES))
        self._note('show', name, self._get(lambda n: f'/v1/leases/{ids[n]}'))
        for kind, path in self._side.pages().items():
            self._note(f'page of 100, {kind}', name, self._get(functools.partial(_always, path)))
        upcoming = functools.partial(self.database.read, events.read_due, WINDOW)
        self._note('what is due', name, self._here(upcoming, TIMES))
        trusts = functools.partial(self.database.read, db_trusts.find_unneeded)
        self._note('trusts without a lease', name, self._here(trusts, TIMES))
        self._note(f'{STARTS} due', name, self.work.due(STARTS))
        say('comparing with the cloud')
        self._note('reconcile pass', name, self._here(self._reconciler.compare, 1))

    def _note(self, operation: str, name: str, result: Result) -> None:
        self.results.setdefault(operation, {})[name] = result

    def _get(self, path: Callable[[int], str]) -> Result:
        self.work.repeat(WARM_UP, path)
        return self.work.repeat(TIMES, path)

    def _here(self, function: Callable[[], Any], times: int) -> Result:
        """Measure what is called in this process."""
        function()
        before, began = self._meter.read(), time.process_time()
        spent = [_time_of(function) for _ in range(times)]
        cpu = (time.process_time() - began) * 1000 / times
        cost = self._meter.read().since(before, times)
        return Result(dataclasses.replace(cost, cpu_ms=cpu), p50_ms=statistics.median(spent))


def _always(path: str, _: int) -> str:
    return path


def _time_of(function: Callable[[], Any]) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    function()
    return (time.perf_counter() - began) * 1000


class Beside:
    """Works on the tables, again and again in a thread, and notes how long that takes."""

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self._name, self._function = name, function
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._spent: list[float] = []

    def __enter__(self) -> 'Beside':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._spent.append(_time_of(self._function))

    def __str__(self) -> str:
        spent = sorted(self._spent)
        p99 = spent[int(len(spent) * 0.99)]
        median = statistics.median(spent)
        return (
            f'{self._name}: {len(spent)} times, median {median:.0f} ms, p99 {p99:.0f} ms, '
            f'longest {spent[-1]:.0f} ms'
        )


def purge(found: Measurement, side: Climate) -> None:
    """Purge what was over in 2020, while others create, change and look for what is due."""
    database = found.database
    ((lease_id,),) = found.probe.rows(
        "SELECT id FROM climate.leases WHERE status = 'PENDING' LIMIT 1"
    )

    def change(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        store.update_lease(session, lease, name=f'n{lease.generation}')

    def create() -> None:
        found.work.create(side.reservation())

    others = [
        Beside('create', create),
        Beside('change of another lease', functools.partial(database.write, change)),
        Beside('what is due', functools.partial(database.read, events.read_due, WINDOW)),
    ]
    before = found.probe.counters()[0]
    with contextlib.ExitStack() as running:
        for each in others:
            running.enter_context(each)
        began, cpu = time.perf_counter(), time.thread_time()
        removed = store.purge(database, OVER + datetime.timedelta(1))
        took, cpu = time.perf_counter() - began, time.thread_time() - cpu
    statements = found.probe.counters()[0] - before
    say(f'purge of {removed}: {took:.1f} s, CPU {cpu:.1f} s, {statements} SQL with the others')
    for each in others:
        print(f'  {each}')


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    """Measure among few leases and among many, then purge some of the many."""
    with Processes(directory) as running:
        mariadb = MariaDB(running, options.buffer_pool)
        side = AmongMany(running, mariadb, RabbitMQ(running))
        rows, found = Rows(side, mariadb), Measurement(side, mariadb)
        for _ in range(WARM_UP):
            found.work.create(side.reservation())
        rows.write(FEW)
        say(f'{FEW} leases')
        found.run(str(FEW))
        began = time.monotonic()
        rows.write(options.live - FEW)
        rows.write(options.leases - options.live - options.purged, OVER + datetime.timedelta(9))
        rows.write(options.purged, OVER)
        say(f'{options.leases} leases, written in {time.monotonic() - began:.0f} s')
        found.run(str(options.leases))
        print(report.table(found.results, 'leases', compared=False))
        if options.purged:
            purge(found, side)
        found.database.dispose()


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.many', description=__doc__)
    parser.add_argument('--leases', type=int, default=1_000_000, help='in the tables at the end')
    parser.add_argument('--live', type=int, default=100_000, help='of them')
    parser.add_argument('--purged', type=int, default=500_000, help='of those that are over')
    parser.add_argument('--buffer-pool', default='512M', help='of the database')
    return run_in_directory(functools.partial(measure, parser.parse_args(argv)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
