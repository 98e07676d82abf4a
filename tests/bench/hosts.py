# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.hosts``: what leases of hosts cost, here and in Blazar 18, in a run."""

import argparse
import concurrent.futures
import contextlib
import functools
import itertools
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from climate_core.db.calendar import COMMIT_DELAY
from tests.bench import blazar
from tests.bench.__main__ import ROOT, say
from tests.bench.climate_hosts import ClimateHosts
from tests.bench.climate_hosts import hosts as of_hosts
from tests.bench.costs import Costs, Refused, ask, print_costs
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Failed, Processes, run_in_directory, wait_until
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.side import PROCESSES, Side
from tests.bench.workload import WARM_UP

DAY = 86_400.0
#: So many creates at once want the last host.
RIVALS = 8


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.hosts', description=__doc__)
    parser.add_argument('--hosts', type=int, nargs='+', default=[100, 1000, 10_000])
    parser.add_argument('--creates', type=int, default=50, help='among each number of hosts')
    parser.add_argument('--due', type=int, default=200, help='leases that start at once')
    parser.add_argument(
        '--promises', type=int, default=100, help='of each host, at the end; only with Climate'
    )
    parser.add_argument('--only', choices=('climate', 'blazar'))
    parser.add_argument(
        '--blazar-venv', type=pathlib.Path, default=ROOT / '.cloud' / 'bench-blazar'
    )
    return parser.parse_args(argv)


class Work:
    """What is done to one service, one thing after the other."""

    def __init__(self, side: Side, options: argparse.Namespace, meter: Meter, probe: Probe):
        self._side, self._probe, self._options = side, probe, options
        self._costs = Costs(meter, probe)
        self._days = itertools.count(100)
        self._ours = isinstance(side, ClimateHosts)

    def run(self) -> Iterator[str]:
        """Yield a line for each operation."""
        first, *more = self._options.hosts
        self._side.set_hosts(first)
        for _ in range(WARM_UP):
            self._create(next(self._days))
        yield self._creates(first)
        yield self._rivals()
        yield self._due(self._options.due)
        for count in more:
            if not self._ours and count > 1000:
                yield f'create, 1 host of {count}: not run, each host is read one by one'
                continue
            self._side.set_hosts(count)
            for _ in range(PROCESSES if self._ours else 1):
                self._create(next(self._days))
            if self._ours:
                self._settle()
            yield self._creates(count)
        if self._ours:
            yield self._refused(max(self._options.hosts))
            yield from self._promised(max(self._options.hosts), self._options.promises)

    def _create(self, day: int, count: int = 1, hours: int = 2) -> float:
        """Ask for hosts on a day from now; return the milliseconds that it took."""
        at = time.time() + day * DAY
        wanted = of_hosts(count) if self._ours else self._side.reservation()
        return ask(self._side, wanted, at, hours)[1]

    def _settle(self) -> None:
        """Wait until what has changed, which is all hosts, is not read with each create."""
        threading.Event().wait(COMMIT_DELAY + 1)
        # This one reads it once more.
        self._create(next(self._days))

    def _creates(self, count: int, told: str = '') -> str:
        times = self._options.creates if self._ours or count <= 100 else 10
        days = [next(self._days) for _ in range(times)]
        return self._costs.of(
            f'create, 1 host of {count}{told}',
            times,
            lambda: [self._create(day) for day in days],
        )

    def _refused(self, count: int, told: str = '') -> str:
        day, times = next(self._days), self._options.creates
        self._create(day, count, 20)

        def refused() -> float:
            began = time.perf_counter()
            with contextlib.suppress(Refused):
                self._create(day)
                raise Failed('a host was promised twice')
            return (time.perf_counter() - began) * 1000

        # For so long everything that has changed is read again.
        threading.Event().wait(COMMIT_DELAY + 1)
        refused()
        return self._costs.of(
            f'refused, none of {count} is free{told}',
            times,
            lambda: [refused() for _ in range(times)],
        )

    def _promised(self, count: int, promises: int) -> Iterator[str]:
        """Do the same with many promises, and start a manager that reads them."""
        side = self._side
        assert isinstance(side, ClimateHosts)
        side.promise(promises)
        self._create(next(self._days))
        self._settle()
        told = f', {count * promises} promises'
        yield self._creates(count, told)
        yield self._refused(count, told)
        seconds, process = side.start_manager()
        yield f'a manager with these: ready in {seconds:.1f} s, {process.memory():.0f} MiB'

    def _rivals(self) -> str:
        """Have several creates at once want the last host."""
        day = next(self._days)
        if self._ours:
            self._create(day, self._options.hosts[0] - 1)
        else:
            self._side.set_hosts(1)
        together = threading.Barrier(RIVALS)

        def ask(_: int) -> tuple[bool, float]:
            together.wait()
            began = time.perf_counter()
            try:
                self._create(day)
            except (Failed, Refused):
                return False, (time.perf_counter() - began) * 1000
            return True, (time.perf_counter() - began) * 1000

        with concurrent.futures.ThreadPoolExecutor(RIVALS) as pool:
            found = list(pool.map(ask, range(RIVALS)))
        granted = sum(each for each, _ in found)
        return f'{RIVALS} at once for the last host: {granted} granted, all answered in ' + (
            f'{max(spent for _, spent in found):.0f} ms'
        )

    def _due(self, count: int) -> str:
        self._side.set_hosts(max(count, self._options.hosts[0]))
        active = self._active()
        at = self._side.arrange(count)
        threading.Event().wait(max(0.0, at - 1 - time.time()))

        def start() -> Sequence[float]:
            wait_until('started', lambda: len(self._side.started()) >= count, 60 + count, 0.1)
            wait_until('ACTIVE', lambda: self._active() - active >= count, 60 + count, 0.2)
            return ()

        told = self._costs.of(f'{count} due at once, each', count, start)
        late = sorted(moment - at for moment in self._side.started())
        return f'{told}; late p50 {statistics.median(late):.2f}, last {late[-1]:.2f} s'

    def _active(self) -> int:
        table = f'{self._side.database}.leases'
        ((found,),) = self._probe.rows(f"SELECT COUNT(*) FROM {table} WHERE status = 'ACTIVE'")
        return int(found)


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    sides: dict[str, Callable[..., Side]] = {'climate': ClimateHosts}
    if not blazar.installed(options.blazar_venv) and options.only != 'climate':
        say(f'installing Blazar into {options.blazar_venv}')
        blazar.install(options.blazar_venv)
    sides['blazar'] = functools.partial(blazar.Blazar, options.blazar_venv)
    with Processes(directory) as servers:
        mariadb, rabbitmq = MariaDB(servers), RabbitMQ(servers)
        for name, start in sides.items():
            if options.only not in (None, name):
                continue
            with Processes(directory) as running:
                say(f'{name}: starting')
                side = start(running, mariadb, rabbitmq)
                print_costs(side, mariadb, functools.partial(Work, side, options))


def main(argv: Sequence[str]) -> int:
    return run_in_directory(functools.partial(measure, arguments(argv)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
