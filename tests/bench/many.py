# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.many``: what reads cost among many leases that are over, and a purge."""

import argparse
import datetime
import functools
import os
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import conf as configuration
from climate_core.db import events, leases, listing, migration, owner_trusts, tables
from climate_core.db.engine import Database
from tests.bench import climate_rows
from tests.bench.cloud import PROJECT_ID
from tests.bench.processes import Processes, run_in_directory
from tests.bench.servers import MariaDB

LIVE = 1000
OVER = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
CONFIG = '[DEFAULT]\ntransport_url = fake:/\n[database]\nconnection = {url}\n'


def say(text: str) -> None:
    print(f'{text} (load {os.getloadavg()[0]:.1f})', flush=True)


def time_of(name: str, function: Callable[[], Any], times: int = 20) -> None:
    """Call a function, and print its median wall time and mean CPU time in milliseconds."""
    function()
    spent, cpu = [], time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        function()
        spent.append(time.perf_counter() - began)
    cpu = (time.process_time() - cpu) / times
    print(f'  {name}: {statistics.median(spent) * 1000:.1f} ms, CPU {cpu * 1000:.1f} ms')


def read(database: Database) -> None:
    """Print what reads cost."""
    query = listing.LeaseQuery(project_id=PROJECT_ID, limit=100, statuses=('PENDING',))
    page, _ = database.read(listing.page, query)
    time_of('show', functools.partial(database.read, leases.get, page[0].id))
    first = listing.LeaseQuery(project_id=PROJECT_ID, limit=100)
    time_of('page of 100', functools.partial(database.read, listing.page, first))
    time_of('due', functools.partial(database.read, events.upcoming, 100))
    time_of('trusts without a lease', functools.partial(database.read, owner_trusts.unneeded))


def finish(session: orm.Session) -> None:
    """Have the leases of the second seed be over since long ago."""
    over = {'status': 'TERMINATED', 'updated_at': OVER}
    lease, event = tables.LEASES, tables.EVENTS
    session.execute(sa.update(lease).where(lease.c.id.startswith('0002')).values(over))
    done = sa.update(event).where(event.c.lease_id.startswith('0002'))
    session.execute(done.values(next_at=None))


def purge(database: Database) -> None:
    """Purge, while another thread changes a lease all the time."""
    query = listing.LeaseQuery(statuses=('PENDING',), limit=1)
    ((lease,), _), stop = database.read(listing.page, query), threading.Event()
    waited: list[float] = []

    def change(session: orm.Session) -> None:
        found = leases.get(session, lease.id, lock=True)
        leases.update(session, found, name=f'n{found.generation}')

    def work() -> None:
        while not stop.wait(0.01):
            began = time.perf_counter()
            database.write(change)
            waited.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=work)
    thread.start()
    began = time.perf_counter()
    removed = leases.purge(database, OVER + datetime.timedelta(1))
    took = time.perf_counter() - began
    stop.set()
    thread.join()
    say(
        f'purge of {removed}: {took:.1f} s; meanwhile {len(waited)} changes of another lease, '
        f'median {statistics.median(waited):.0f} ms, longest {max(waited):.0f} ms'
    )


def measure(count: int, directory: pathlib.Path) -> None:
    """Read among few leases and among many, then purge the many."""
    start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=100)
    with Processes(directory) as servers:
        url = MariaDB(servers).create('climate')
        file = directory / 'climate.conf'
        file.write_text(CONFIG.format(url=url))
        conf = configuration.load(config_files=[str(file)])
        migration.upgrade(conf)
        database = Database(conf)
        climate_rows.seed(url, LIVE, start, 1)
        say(f'{LIVE} leases')
        read(database)
        climate_rows.seed(url, count, start, 2)
        database.write(finish)
        say(f'{LIVE} leases and {count} that are over')
        read(database)
        purge(database)
        database.dispose()


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.many', description=__doc__)
    parser.add_argument('--leases', type=int, default=1_000_000, help='that are over')
    options = parser.parse_args(argv)
    return run_in_directory(functools.partial(measure, options.leases))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
