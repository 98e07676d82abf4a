# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.calendar``: what the calendar costs in a process, without the service.

From tomorrow on each unit is promised for nine of ten hours, as often as is asked for; the
promises of a tenth of the units begin each hour.
"""

import argparse
import collections
import contextlib
import datetime
import itertools
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand, Unit
from climate_core.db import sql, tables, timeline
from climate_core.db.engine import Database
from tests.support.databases import run_mariadb, run_postgresql
from tests.support.plans import plans
from tests.support.world import configure, executed
from tests.unit.calendar.units import Filter

UNIT, LEASE = tables.UNITS, tables.LEASES
RESERVATION, ALLOCATION = tables.RESERVATIONS, tables.ALLOCATIONS
HOUR = datetime.timedelta(hours=1)
#: Promises begin after one another every so many hours, and last one hour less.
PERIOD, GROUPS = 10, 10
PIECE = {'vcpus': 4, 'memory_mb': 8192, 'disk_gb': 40}
#: The index of promises by their times.
TIMES = 'allocations_time_idx'
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
    tables.load_metadata().create_all(database.engine)
    start = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + 24 * HOUR
    database.write(_seed, start, units, promises, shares)
    return start


def _seed(
    session: orm.Session, start: datetime.datetime, units: int, promises: int, shares: bool
) -> None:
    now = sql.read_time(session) - HOUR
    sql.insert(session, UNIT, [make_unit(number, promises, now) for number in range(units)])
    seed_promises(session, start, promises, shares)


def seed_promises(
    session: orm.Session, start: datetime.datetime, promises: int, shares: bool, first: int = 1
) -> None:
    """Write promises of all units.

    :param first: the generation of a unit for its first one
    """
    leases, reservations = [], []
    for number in range(promises):
        for group in range(GROUPS):
            made = uuidutils.generate_uuid()
            begin = start + (number * PERIOD + group) * HOUR
            leases.append(make_lease(made, begin, number + first))
            reservations.append(make_reservation(made, str(group)))
    sql.insert(session, LEASE, leases)
    sql.insert(session, RESERVATION, reservations)
    promise(session, _group(), PIECE if shares else None)


def promise(
    session: orm.Session, group: sa.ColumnElement[str], piece: Mapping[str, Any] | None = None
) -> None:
    """Write the promises of all reservations: of each unit to those of its group.

    :param group: of a unit: what its reservations have as their resource
    :param piece: how much of a unit; None: all of it
    """
    promised = (
        sa.select(
            UNIT.c.id,
            LEASE.c.generation,
            RESERVATION.c.id,
            LEASE.c.start_date,
            LEASE.c.end_date,
            sa.literal(1),
            sa.literal(piece, tables.Json()),
            sa.literal(0),
            sa.literal(None, sa.Boolean),
        )
        .join_from(UNIT, RESERVATION, group == RESERVATION.c.resource_id)
        .join(LEASE, LEASE.c.id == RESERVATION.c.lease_id)
    )
    session.execute(sa.insert(ALLOCATION).from_select([*ALLOCATION.columns], promised))


def _group() -> sa.ColumnElement[str]:
    return sa.cast(UNIT.c.id % GROUPS, sa.String(10))


def make_unit(number: int, promises: int, now: datetime.datetime) -> dict[str, Any]:
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


def make_lease(made: str, start: datetime.datetime, generation: int) -> dict[str, Any]:
    return {
        'id': made,
        'name': 'lease',
        'project_id': 'project',
        'user_id': 'user',
        'status': 'PENDING',
        'degraded': False,
        'before_start': [],
        'start_date': start,
        'end_date': start + (PERIOD - 1) * HOUR,
        'generation': generation,
        'start_policy': 'auto',
        'created_at': start,
    }


def make_reservation(made: str, resource_id: str) -> dict[str, Any]:
    return {
        'id': made,
        'lease_id': made,
        'resource_type': 'physical:host',
        'resource_id': resource_id,
        'status': 'PENDING',
        'params': {},
        'amounts': {},
        'given_up': False,
        'missing_resources': False,
        'resources_changed': False,
        'created_at': datetime.datetime.now(datetime.UTC),
    }


def memory() -> float:
    """Return what this process has, MiB."""
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Cost(NamedTuple):
    """What a call costs: statements of each kind, and milliseconds.

    :param cpu: of this process, without the database's
    """

    statements: Mapping[str, int]
    cpu: float
    median: float
    worst: float

    def __str__(self) -> str:
        kinds = ', '.join(f'{count} {kind}' for kind, count in sorted(self.statements.items()))
        times = f'CPU {self.cpu:.1f}, p50 {self.median:.1f}, worst {self.worst:.1f} ms'
        return f'{sum(self.statements.values())} SQL ({kinds}), {times}'


class Bench:
    """One database and what is done in it.

    :param promises: of each unit
    :param shares: promise shares of units, not whole ones
    """

    def __init__(self, url: str, units: int, promises: int, shares: bool) -> None:
        self._database = Database(configure(url))
        self._shares = shares
        self._promises = promises
        self._start = seed(self._database, units, promises, shares)
        self._calendar = Calendar(self._database)
        self._turns = itertools.count()

    def run(self, times: int) -> Iterator[str]:
        had, began = memory(), time.perf_counter()
        self._calendar.refresh()
        load = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield f'first reading: {load:.1f} s, {memory() - had:.0f} MiB more, peak {peak:.0f} MiB'
        for name, function in (
            ('check, all are free', lambda: self.check(-20, 4)),
            ('check, a tenth is free', lambda: self.check(30, 1)),
            ('promise', self.promise),
            ('promise in one of three zones', lambda: self.promise(zone='zone1')),
            ('refuse, none is free', self.refuse),
            ('five windows', self.windows),
            ('capacity of the last week', self.week),
        ):
            yield f'{name}: {self._cost(function, times)}'
        yield f'  read by {self.plan()}'

    def _cost(self, function: Callable[[], Any], times: int) -> Cost:
        kinds = collections.Counter(
            statement.split()[0] for statement, _ in executed(self._database, function)
        )
        taken, cpu = [], time.process_time()
        for _ in range(times):
            began = time.perf_counter()
            function()
            taken.append((time.perf_counter() - began) * 1000)
        used = (time.process_time() - cpu) * 1000 / times
        return Cost(kinds, used, statistics.median(taken), max(taken))

    def check(self, start: float, hours: float) -> None:
        """Look for one unit, so many hours from tomorrow."""
        begin = self._start + start * HOUR
        self._calendar.check_capacity(self._wanted(''), begin, begin + hours * HOUR)

    def refuse(self) -> None:
        """Look for one unit where there is none; of shares there always are some."""
        with contextlib.suppress(exceptions.NotEnough):
            self.check(25, 20)

    def promise(self, zone: str | None = None) -> None:
        """Promise one unit, with the two statements that write who gets it."""

        def write(session: orm.Session) -> None:
            made = uuidutils.generate_uuid()
            sql.insert(session, LEASE, [make_lease(made, self._start, 0)])
            sql.insert(session, RESERVATION, [make_reservation(made, made)])
            begin = self._start - 20 * HOUR + next(self._turns) * HOUR / 12
            end = begin + HOUR / 12
            transaction = self._calendar.transaction(session)
            self._calendar.allocate(transaction, self._wanted(made, zone), begin, end)

        self._database.write(write)

    def windows(self) -> None:
        """Look for the first windows of 20 hours."""
        begin = self._start + 20 * HOUR
        self._calendar.find_windows(self._wanted(''), 20 * HOUR, begin, begin + 2000 * HOUR, 5)

    def week(self) -> None:
        """Read what there is and what is promised in the last week of all promises."""
        self._database.read(timeline.read_capacity, self._last_week())

    def plan(self) -> str:
        """Return the part of the plan for that which reads promises."""
        with self._database.engine.begin() as connection:
            is_mysql = connection.dialect.name == 'mysql'
            connection.exec_driver_sql('ANALYZE TABLE allocations' if is_mysql else 'ANALYZE')
        (text,) = plans(self._database, timeline.read_capacity, self._last_week(), settings=())
        return next((line.strip() for line in text.split('\n') if TIMES in line), 'a scan')

    def _last_week(self) -> timeline.CapacityQuery:
        end = self._start + self._promises * PERIOD * HOUR
        return timeline.CapacityQuery(
            since=end - 7 * 24 * HOUR, until=end, project_id='project', limit=50_000
        )

    def _wanted(self, reservation_id: str, zone: str | None = None) -> list[Demand]:
        def matches(unit: Unit) -> bool:
            return unit.pool == 'default' and (
                zone is None or unit.properties['availability_zone'] == zone
            )

        piece = PIECE if self._shares else None
        return [
            Demand(
                kind='host',
                min_pieces=1,
                max_pieces=1,
                unit_filter=Filter(matches=matches),
                piece=piece,
                reservation_id=reservation_id,
                field='min',
            )
        ]


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    with served(options.database) as make:
        for units in options.units:
            print(f'{options.database}, {units} units, {units * options.promises} promises')
            bench = Bench(make(), units, options.promises, options.shares)
            for line in bench.run(options.times):
                print(f'  {line}', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
