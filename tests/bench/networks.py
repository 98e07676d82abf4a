# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.networks``: what leases of floating IPs and of networks cost.

Neutron is the one of ``tests/support/fakes``, so only Climate's part is measured.
"""

import argparse
import dataclasses
import functools
import itertools
import pathlib
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from climate_core.db.calendar import COMMIT_DELAY
from tests.bench import web
from tests.bench.__main__ import say
from tests.bench.climate import Climate
from tests.bench.cloud import NOVA
from tests.bench.costs import Costs, Refused, ask, print_costs
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Failed, Processes, run_in_directory, wait_until
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.workload import WARM_UP
from tests.support.fakes.neutron import PUBLIC

DAY = 86_400.0
#: What is registered: so many addresses there are, and segments from the first one on.
FIRST_ADDRESS, LAST_ADDRESS = '203.0.113.20', '203.0.113.199'
FIRST_SEGMENT, LAST_SEGMENT = 200, 455
#: Of a lease of several.
ADDRESSES = 5


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.networks', description=__doc__)
    parser.add_argument('--creates', type=int, default=50)
    parser.add_argument('--due', type=int, default=20, help='leases that start, or end, at once')
    return parser.parse_args(argv)


class ClimateNetworks(Climate):
    """The service, with floating IPs and network segments that are registered."""

    # Nothing is compared with Neutron meanwhile.
    more = '\n[reconcile]\ninterval = 86400\n'

    def __init__(self, running: Processes, mariadb: MariaDB, rabbitmq: RabbitMQ) -> None:
        super().__init__(running, mariadb, rabbitmq)
        self._operator = {'X-Auth-Token': self.cloud.token(NOVA)}
        for path, values in {
            'floatingips': {
                'floating_network_id': PUBLIC,
                'floating_ip_range': f'{FIRST_ADDRESS}-{LAST_ADDRESS}',
            },
            'networks': {
                'network_type': 'vlan',
                'physical_network': 'physnet1',
                'segment_range': f'{FIRST_SEGMENT}-{LAST_SEGMENT}',
            },
        }.items():
            web.call('POST', f'{self.api}/v1/{path}', values, self._operator)

    def due(self, reservations: Sequence[Mapping[str, Any]]) -> tuple[float, list[str]]:
        """Create leases that start together; return when, and their ids."""
        at = self._moment_after(len(reservations))
        return at, self._create(reservations, at)

    def end(self, lease_id: str) -> None:
        web.call('POST', f'{self.api}/v1/leases/{lease_id}/end', None, self.headers)

    def made(self, what: str) -> list[dict[str, Any]]:
        """Return what is in Neutron."""
        url = f'{self.cloud.url}/network/v2.0/{what}'
        listed: list[dict[str, Any]] = web.call('GET', url, None, self._operator)[0][what]
        return listed


def addresses(count: int, *required: str) -> Mapping[str, Any]:
    """Return a reservation of so many addresses."""
    found = {'resource_type': 'virtual:floatingip', 'network_id': PUBLIC, 'amount': count}
    return {**found, 'required_floatingips': list(required)}


def network(**values: Any) -> Mapping[str, Any]:
    """Return a reservation of a network."""
    return {'resource_type': 'network', 'network_name': 'n', **values}


@dataclasses.dataclass(frozen=True)
class Round:
    """Leases that start together, and end together.

    :param what: each of them has
    :param fill: puts into Neutron what is in the way of their ends
    """

    what: str
    reservation: Mapping[str, Any]
    fill: Callable[[ClimateNetworks], None] = lambda _side: None


def _forward(side: ClimateNetworks) -> None:
    for each in side.made('floatingips'):
        forwardings = [str(uuid.uuid4()) for _ in range(2)]
        side.cloud.order('floatingips', [{**each, 'port_forwardings': forwardings}])


def _connect(side: ClimateNetworks) -> None:
    for each in side.made('networks'):
        where = {'network_id': each['id']}
        side.cloud.order('network_ports', [where, where])
        side.cloud.order('interfaces', [{**where, 'cidr': '10.9.0.0/24', 'nexthop': '10.9.0.7'}])


ROUNDS = (
    Round('1 address', addresses(1)),
    Round(f'{ADDRESSES} addresses', addresses(ADDRESSES)),
    Round('1 address with 2 port forwardings', addresses(1), _forward),
    Round('1 network', network()),
    Round('1 network with a description', network(network_description='for a class')),
    Round('1 network with 2 ports, and a router with a route', network(), _connect),
)


class Work:
    """What is done, one thing after the other."""

    def __init__(
        self, side: ClimateNetworks, options: argparse.Namespace, meter: Meter, probe: Probe
    ) -> None:
        self._side, self._probe, self._options = side, probe, options
        self._costs = Costs(meter, probe, side.cloud.kinds)
        self._days = itertools.count(100)

    def run(self) -> Iterator[str]:
        """Yield a line for each operation."""
        yield from self._creates('1 address', addresses(1), addresses(1, FIRST_ADDRESS))
        yield from self._creates('1 network', network(), network(segment_id=FIRST_SEGMENT))
        for each in ROUNDS:
            yield from self._round(each)

    def _ask(self, reservation: Mapping[str, Any], day: int) -> float:
        return ask(self._side, reservation, time.time() + day * DAY, 2)[1]

    def _creates(
        self, what: str, some: Mapping[str, Any], certain: Mapping[str, Any]
    ) -> Iterator[str]:
        """Ask for some, and for one that is promised already."""
        times = self._options.creates
        for _ in range(WARM_UP):
            self._ask(some, next(self._days))
        # For so long what has changed is read with each create: here all that is registered.
        threading.Event().wait(COMMIT_DELAY + 1)
        days = [next(self._days) for _ in range(times)]
        yield self._costs.of(
            f'create, {what}', times, lambda: [self._ask(some, day) for day in days]
        )
        day = next(self._days)
        self._ask(certain, day)
        threading.Event().wait(COMMIT_DELAY + 1)
        self._refused(certain, day)
        yield self._costs.of(
            f'refused, {what} that is promised',
            times,
            lambda: [self._refused(certain, day) for _ in range(times)],
        )

    def _refused(self, reservation: Mapping[str, Any], day: int) -> float:
        began = time.perf_counter()
        try:
            self._ask(reservation, day)
        except Refused:
            return (time.perf_counter() - began) * 1000
        raise Failed('something was promised twice')

    def _round(self, leases: Round) -> Iterator[str]:
        count, active = self._options.due, self._count('ACTIVE')
        at, made = self._side.due([leases.reservation] * count)
        threading.Event().wait(max(0.0, at - 1 - time.time()))

        def start() -> Sequence[float]:
            self._wait('ACTIVE', active + count)
            return ()

        yield self._costs.of(f'{count} starts at once, each {leases.what}', count, start)
        leases.fill(self._side)
        terminated = self._count('TERMINATED')

        def end() -> Sequence[float]:
            for each in made:
                self._side.end(each)
            self._wait('TERMINATED', terminated + count)
            return ()

        yield self._costs.of(f'{count} ends, each {leases.what}', count, end)

    def _wait(self, status: str, count: int) -> None:
        wait_until(status, lambda: self._count(status) >= count, 60 + count, 0.2)

    def _count(self, status: str) -> int:
        query = f'SELECT COUNT(*) FROM {self._side.database}.leases WHERE status = %s'
        ((found,),) = self._probe.rows(query, (status,))
        return int(found)


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    with Processes(directory) as running:
        mariadb, rabbitmq = MariaDB(running), RabbitMQ(running)
        say('climate: starting')
        side = ClimateNetworks(running, mariadb, rabbitmq)
        print_costs(side, mariadb, functools.partial(Work, side, options))


def main(argv: Sequence[str]) -> int:
    return run_in_directory(functools.partial(measure, arguments(argv)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
