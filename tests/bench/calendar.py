# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.calendar``: what the calendar costs in a process, without the service.

All units are promised for four of five hours, for weeks from tomorrow on; a tenth of them begins
each hour.
"""

import argparse
import contextlib
import datetime
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.admission import Calendar
from climate_core.calendar.model import Demand, Unit, Wanted
from climate_core.db import rows, tables, utcnow
from climate_core.db.engine import Database
from tests.support.databases import run_mariadb, run_postgresql
from tests.support.world import configure, executed

UNIT, LEASE = tables.UNITS, tables.LEASES
RESERVATION, ALLOCATION = tables.RESERVATIONS, tables.ALLOCATIONS
HOUR = datetime.timedelta(hours=1)
#: Promises begin after one another every so many hours, and last one hour less.
PERIOD, GROUPS = 10, 10
PIECE = {'vcpus': 4, 'memory_mb': 8192, 'disk_gb': 40}
CAPACITY = {'vcpus': 64, 'memory_mb': 262144, 'disk_gb': 2000}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.calendar', description=__doc__)
    parser.add_argument(
        '--database', choices=('sqlite', 'mariadb', 'postgresql'), default='mariadb'
    )
    parser.add_argument('--units', type=int, nargs='+', default=[100, 1000, 10_000])
    parser.add_argument('--promises', type=int, default=100, help='for each unit')
    parser.add_argument('--times', type=int, default=30, help='of each operation')
    parser.add_argument('--shares', action='store_true', help='of units, not whole ones')
    return parser.parse_args(argv)


@contextlib.contextmanager
def served(kind: str) -> Iterator[Callable[[], str]]:
    """Run a database server; give a function that makes an empty database."""
    if kind == 'sqlite':
        with tempfile.TemporaryDirectory(prefix='climate-bench-') as place:
            yield lambda: f'sqlite:///{pathlib.Path(place)}/{uuidutils.generate_uuid()}'
        return
    with (run_mariadb if kind == 'mariadb' else run_postgresql)() as server:
        yield server.create


def seed(database: Database, units: int, promises: int, shares: bool) -> datetime.datetime:
    """Write units and promises; return when the first of these begins."""
    tables.METADATA.create_all(database.engine)
    start = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + 24 * HOUR
    database.write(_seed, start, units, promises, shares)
    return start


def _seed(
    session: orm.Session, start: datetime.datetime, units: int, promises: int, shares: bool
) -> None:
    now = utcnow.read(session) - HOUR
    rows.insert(session, UNIT, [_unit(number, promises, now) for number in range(units)])
    leases, reservations = [], []
    for number in range(promises):
        for group in range(GROUPS):
            made = uuidutils.generate_uuid()
            begin = start + (number * PERIOD + group) * HOUR
            leases.append(_lease(made, begin, number + 1))
            reservations.append(_reservation(made, str(group)))
    rows.insert(session, LEASE, leases)
    rows.insert(session, RESERVATION, reservations)
    promised = (
        sa.select(
            UNIT.c.id,
            LEASE.c.generation,
            RESERVATION.c.id,
            LEASE.c.start_date,
            LEASE.c.end_date,
            sa.literal(1),
            sa.literal(PIECE if shares else None, tables.Json()),
            sa.literal(0),
        )
        .join_from(UNIT, RESERVATION, _group() == RESERVATION.c.resource_id)
        .join(LEASE, LEASE.c.id == RESERVATION.c.lease_id)
    )
    columns = list(ALLOCATION.columns)
    session.execute(sa.insert(ALLOCATION).from_select(columns, promised))


def _group() -> sa.ColumnElement[str]:
    return sa.cast(UNIT.c.id % GROUPS, sa.String(10))


def _unit(number: int, promises: int, now: datetime.datetime) -> dict[str, Any]:
    return {
        'kind': 'host',
        'pool': 'default',
        'available': True,
        'capacity': CAPACITY,
        'lanes': 4,
        'properties': {
            'hypervisor_hostname': f'compute{number}.example.org',
            'service_name': f'compute{number}',
            'vcpus': 64,
            'memory_mb': 262144,
            'availability_zone': f'zone{number % 3}',
            'traits': [f'HW_CPU_X86_FEATURE{each}' for each in range(40)],
        },
        'generation': promises + 1,
        'changed_at': now,
    }


def _lease(made: str, start: datetime.datetime, generation: int) -> dict[str, Any]:
    return {
        'id': made,
        'name': 'lease',
        'project_id': 'project',
        'user_id': 'user',
        'status': 'PENDING',
        'degraded': False,
        'start_date': start,
        'end_date': start + (PERIOD - 1) * HOUR,
        'generation': generation,
        'start_policy': 'auto',
        'created_at': start,
    }


def _reservation(made: str, resource_id: str) -> dict[str, Any]:
    return {
        'id': made,
        'lease_id': made,
        'resource_type': 'physical:host',
        'resource_id': resource_id,
        'status': 'PENDING',
        'params': {},
        'missing_resources': False,
        'resources_changed': False,
        'created_at': datetime.datetime.now(datetime.UTC),
    }


def memory() -> float:
    """Return what this process has, MiB."""
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def timed(function: Callable[[], Any], times: int) -> tuple[float, float]:
    """Return the median and the longest time of a call, ms."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken), max(taken)


class Bench:
    """One database and what is done in it."""

    def __init__(self, url: str, units: int, options: argparse.Namespace) -> None:
        self._database = Database(configure(url))
        self._times, self._shares = options.times, options.shares
        self._start = seed(self._database, units, options.promises, options.shares)
        self._calendar = Calendar(self._database)

    def run(self) -> Iterator[str]:
        had = memory()
        load, _ = timed(lambda: self._refused_or_not(1, 0, 1), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield f'first load {load / 1000:.1f} s, {memory() - had:.0f} MiB more, peak {peak:.0f} MiB'
        for name, function in (
            ('check 1', lambda: self._refused_or_not(1, -20, 4)),
            ('check 1 among promises', lambda: self._refused_or_not(1, 30, 1)),
            ('promise 1', self._promise),
            ('promise 1 of 3 zones', lambda: self._promise(zone='zone1')),
            ('refused', lambda: self._refused_or_not(1, 25, 20)),
            ('windows', self._windows),
        ):
            sql = len(executed(self._database, function))
            median, worst = timed(function, self._times)
            yield f'{name}: {sql} SQL, p50 {median:.1f} ms, worst {worst:.1f} ms'

    def _wanted(self, reservation_id: str, least: int, zone: str | None = None) -> list[Wanted]:
        def matches(unit: Unit) -> bool:
            return unit.pool == 'default' and (
                zone is None or unit.properties['availability_zone'] == zone
            )

        demand = Demand(
            kind='host',
            least=least,
            most=least,
            matches=matches,
            piece=PIECE if self._shares else None,
        )
        return [Wanted(reservation_id=reservation_id, demand=demand, field='min')]

    def _refused_or_not(self, least: int, start: float, hours: float) -> None:
        begin = self._start + start * HOUR
        with contextlib.suppress(exceptions.NotEnough):
            self._calendar.check(self._wanted('', least), begin, begin + hours * HOUR)

    def _promise(self, zone: str | None = None) -> None:
        def write(session: orm.Session) -> None:
            made = uuidutils.generate_uuid()
            rows.insert(session, LEASE, [_lease(made, self._start, 0)])
            rows.insert(session, RESERVATION, [_reservation(made, made)])
            begin = self._start - 20 * HOUR
            self._calendar.promise(session, self._wanted(made, 1, zone), begin, begin + 4 * HOUR)

        self._database.write(write)

    def _windows(self) -> None:
        begin = self._start + 20 * HOUR
        self._calendar.windows(self._wanted('', 1), 20 * HOUR, begin, begin + 2000 * HOUR, 5)


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    with served(options.database) as make:
        for units in options.units:
            print(f'{options.database}, {units} units, {units * options.promises} promises')
            for line in Bench(make(), units, options).run():
                print(f'  {line}', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
