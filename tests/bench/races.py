# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.races``: several managers promise the same units, and what comes of it.

Each manager is a process with a calendar of its own, and knows of the others by the database
alone. It asks for whole hosts and shares by chance, for floating IPs by number and by address, or
for network segments, and gives some of them back.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import datetime
import itertools
import multiprocessing
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand
from climate_core.db import sql, tables
from climate_core.db.engine import Database
from climate_networks import db
from climate_networks.plugins.floatingips import FloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin
from climate_networks.units import Segment
from tests.bench import calendar
from tests.bench.calendar import HOUR, LEASE, RESERVATION
from tests.support.world import configure

_ALLOCATION = tables.ALLOCATIONS
#: The external network.
NETWORK = str(uuid.UUID(int=14))
#: Promises begin within so many hours, and last some of them.
HOURS, LONGEST = 48, 8
#: Of so many promises of a manager the first is given back right away.
GIVEN_BACK = 10


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.races', description=__doc__)
    parser.add_argument(
        '--database', nargs='+', choices=KINDS, default=KINDS, help='which ones (default: all)'
    )
    parser.add_argument('--creates', type=int, default=10_000, help='in all')
    parser.add_argument('--managers', type=int, default=3)
    parser.add_argument('--units', type=int, default=200, help='so many there are')
    parser.add_argument(
        '--of', nargs='+', choices=DEMANDS, default=[*DEMANDS], help='which ones (default: all)'
    )
    return parser.parse_args(argv)


KINDS = ('sqlite', 'mariadb', 'postgresql')


def manage(url: str, number: int, creates: int, of: str, units: int) -> collections.Counter[str]:
    """Be a manager that is asked for so much; return what came of that."""
    dice = random.Random(number)
    database = Database(configure(url))
    own = Calendar(database, dice)
    found: collections.Counter[str] = collections.Counter()
    start = database.read(sql.read_time).replace(minute=0, second=0, microsecond=0) + HOUR
    for _ in range(creates):
        begin = start + dice.randrange(HOURS) * HOUR
        end = begin + dice.randint(1, LONGEST) * HOUR
        made = uuidutils.generate_uuid()
        demand = DEMANDS[of](dice, units)
        wanted = [dataclasses.replace(demand, reservation_id=made, field='min')]
        # As a manager does, which makes the owner's trust between this and the transaction.
        proposed = own.propose(wanted, begin, end, start) or frozenset()
        try:
            database.write(_create, own, wanted, begin, end, proposed)
        except exceptions.NotEnough:
            found['refused'] += 1
            continue
        found['granted'] += 1
        if found['granted'] % GIVEN_BACK == 1:
            database.write(_release, own, made, database.read(sql.read_time))
            found['given back'] += 1
    database.dispose()
    return found


def _of_hosts(dice: random.Random, units: int) -> Demand:
    least = dice.randint(1, 3)
    piece = None if dice.random() < 0.3 else calendar.PIECE
    return Demand(
        kind='host', min_pieces=least, max_pieces=least + dice.randint(0, 2), piece=piece
    )


def _of_addresses(dice: random.Random, units: int) -> Demand:
    """Demand some addresses, or certain ones, as a reservation does."""
    values: dict[str, Any] = {'network_id': NETWORK, 'amount': dice.randint(1, 3)}
    if dice.random() < 0.3:
        chosen = dice.sample(range(units), min(units, values['amount']))
        values = {'network_id': NETWORK, 'required_floatingips': [*map(_address, chosen)]}
    plugin = FloatingIpPlugin(cfg.ConfigOpts(), None)  # type: ignore[arg-type]
    return plugin._demand(plugin._normalized_params(values))


def _of_networks(dice: random.Random, units: int) -> Demand:
    """Demand any segment, or a certain one, as a reservation does."""
    number = dice.randrange(units) + 1 if dice.random() < 0.3 else None
    plugin = NetworkPlugin(cfg.ConfigOpts(), None)  # type: ignore[arg-type]
    return plugin._demand(plugin._normalized_params({'network_name': 'n', 'segment_id': number}))


def _address(number: int) -> str:
    return f'203.0.{number // 250}.{number % 250 + 1}'


#: What is asked for -> how much of it, by chance.
DEMANDS: Mapping[str, Callable[[random.Random, int], Demand]] = {
    'hosts': _of_hosts,
    'addresses': _of_addresses,
    'networks': _of_networks,
}


def _create(
    session: orm.Session,
    own: Calendar,
    wanted: Sequence[Demand],
    begin: datetime.datetime,
    end: datetime.datetime,
    proposed: Collection[int],
) -> None:
    (made,) = (each.reservation_id for each in wanted)
    sql.insert(session, LEASE, [calendar.make_lease(made, begin, 0)])
    sql.insert(session, RESERVATION, [calendar.make_reservation(made, made)])
    own.allocate(own.transaction(session), wanted, begin, end, proposed=proposed)


def _release(session: orm.Session, own: Calendar, made: str, now: datetime.datetime) -> None:
    own.release(own.transaction(session), {made: ()}, now)


def over_booked(database: Database) -> Iterator[str]:
    """Give what is promised twice: by each hour of each host."""
    query = sa.select(_ALLOCATION).order_by(_ALLOCATION.c.unit_id)
    units = database.read(lambda session: session.execute(sa.select(tables.UNITS)).all())
    promised = collections.defaultdict(list)
    for row in database.read(lambda session: session.execute(query).all()):
        promised[row.unit_id].append(row)
    for unit in units:
        for moment in sorted({row.start for row in promised[unit.id]}):
            there = [row for row in promised[unit.id] if row.start <= moment < row.end]
            whole = any(row.piece is None for row in there) and len(there) > 1
            taken: collections.Counter[str] = collections.Counter()
            for row in there:
                for name, size in (row.piece or {}).items():
                    taken[name] += size * row.pieces
            much = any(taken[name] > unit.capacity.get(name, 0) for name in taken)
            if whole or much or len({row.lane for row in there}) < len(there):
                yield f'{unit.kind} {unit.id} at {moment}: {there}'


def _seed(database: Database, of: str, units: int) -> None:
    calendar.seed(database, units if of == 'hosts' else 0, 0, False)
    if of == 'addresses':
        subnets = {_address(number): 'subnet' for number in range(units)}
        database.write(db.insert_floatingips, NETWORK, subnets)
    if of == 'networks':
        segments = [Segment('vlan', 'physnet1', number + 1) for number in range(units)]
        database.write(db.insert_segments, segments, {'available': True, 'access': None}, {})


def race(
    url: str, options: argparse.Namespace, of: str
) -> tuple[collections.Counter[str], list[str]]:
    """Let managers ask for units; return what came of it, and what is promised twice.

    :param of: which ones, of :data:`DEMANDS`
    """
    database = Database(configure(url))
    _seed(database, of, options.units)
    creates = options.creates // options.managers
    found: collections.Counter[str] = collections.Counter()
    context = multiprocessing.get_context('spawn')
    with concurrent.futures.ProcessPoolExecutor(options.managers, context) as pool:
        jobs = [
            pool.submit(manage, url, each, creates, of, options.units)
            for each in range(options.managers)
        ]
        for job in jobs:
            found += job.result()
    wrong = list(over_booked(database))
    database.dispose()
    return found, wrong


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    failed = False
    for kind, of in itertools.product(options.database, options.of):
        began, load = time.monotonic(), os.getloadavg()[0]
        with calendar.served(kind) as make:
            found, wrong = race(make(), options, of)
        told = ', '.join(f'{count} {what}' for what, count in sorted(found.items()))
        print(
            f'{kind}: {options.managers} managers, {options.units} {of}: {told}; '
            f'{len(wrong)} over-booked; {time.monotonic() - began:.0f} s, load {load:.1f}',
            flush=True,
        )
        for each in wrong[:3]:
            print(f'  {each}')
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
