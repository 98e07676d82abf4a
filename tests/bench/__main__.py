# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench``: what an operation costs, here and in Blazar 18, in one run."""

import argparse
import datetime
import functools
import os
import pathlib
import platform
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench import blazar, climate, report
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Failed, Processes
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.side import PROCESSES, THREADS, Side
from tests.bench.workload import Result, Size, Workload

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIMATE, BLAZAR = climate.Climate.name, blazar.Blazar.name


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.bench', description=__doc__)
    parser.add_argument('--quick', action='store_true', help='fewer of everything: minutes')
    parser.add_argument(
        '--peer', choices=('blazar', 'none'), default='blazar', help='what to compare with'
    )
    parser.add_argument(
        '--leases',
        type=int,
        nargs='+',
        metavar='N',
        help='leases due at once, one round for each number',
    )
    parser.add_argument(
        '--listed',
        type=int,
        nargs='+',
        metavar='N',
        help='leases of which a page of 100 is asked for, in growing order',
    )
    parser.add_argument(
        '--workers',
        type=int,
        nargs='+',
        default=[1],
        metavar='N',
        help='managers that climate-manager runs; Climate is measured once for each number',
    )
    parser.add_argument(
        '--managers',
        type=int,
        nargs='+',
        default=[1],
        metavar='N',
        help='climate-managers on one database; Climate is measured once for each number',
    )
    parser.add_argument(
        '--only', choices=('climate', 'blazar'), help='measure one of the two alone'
    )
    parser.add_argument(
        '--blazar-venv',
        type=pathlib.Path,
        default=ROOT / '.cloud' / 'bench-blazar',
        help='where Blazar is installed by the bench (default: %(default)s)',
    )
    parser.add_argument('--keep', action='store_true', help='keep the logs and the databases')
    parser.add_argument(
        '--write',
        type=pathlib.Path,
        metavar='FILE',
        help='write the table to this file, in reStructuredText, if nothing is missing in it',
    )
    return parser.parse_args(argv)


def size(options: argparse.Namespace) -> Size:
    """Choose how much is done."""
    if options.quick:
        due, listed = options.leases or (1, 50), options.listed or (1000,)
        return Size(10, leases=200, lists=5, shows=30, due=due, idle=20, listed=listed)
    due, listed = options.leases or (1, 50, 200), options.listed or (1000, 10_000, 100_000)
    return Size(
        30, leases=1000, lists=10, shows=100, due=due, idle=60, listed=listed, more_hosts=(1000,)
    )


def say(text: str) -> None:
    now = datetime.datetime.now()
    print(f'{now:%H:%M:%S} {text}', file=sys.stderr, flush=True)


class Bench:
    """One run: a database server and a broker, then one service after the other."""

    def __init__(self, options: argparse.Namespace, servers: Processes) -> None:
        self._options, self._size = options, size(options)
        self._directory = servers.directory
        self._mariadb = MariaDB(servers)
        self._rabbitmq = RabbitMQ(servers)
        self.results: dict[str, dict[str, Result]] = {}
        self.notes: list[str] = []
        self.complete = True

    def run(self) -> None:
        if self._options.only != 'blazar':
            for option, counts in self._processes().items():
                for count in counts:
                    name = CLIMATE if count == 1 else f'{CLIMATE}, {count} {option}'
                    many: Any = {option: count}
                    self._measure(name, functools.partial(climate.Climate, **many))
        if self._options.peer == 'blazar' and self._options.only != 'climate':
            self._peer(self._options.blazar_venv)

    def _processes(self) -> dict[str, Sequence[int]]:
        """Return of what there are how many in the runs of Climate."""
        several = [count for count in self._options.managers if count > 1]
        return {'workers': self._options.workers, 'managers': several}

    def conditions(self) -> str:
        load = os.getloadavg()[0]
        return (
            f'{datetime.date.today()}, {os.cpu_count()} cores, load {load:.1f}, '
            f'Python {platform.python_version()}, MariaDB {self._mariadb.version()}, '
            f'RabbitMQ; each API: uwsgi, {PROCESSES} processes x {THREADS} threads'
        )

    def _peer(self, venv: pathlib.Path) -> None:
        try:
            if not blazar.installed(venv):
                say(f'{BLAZAR}: installing into {venv}')
                blazar.install(venv)
            say(f'{BLAZAR}: release {blazar.check(venv)}')
        except Failed as error:
            self.notes.append(f'{BLAZAR} cannot be installed here and was not measured: {error}')
            return
        self._measure(BLAZAR, functools.partial(blazar.Blazar, venv))

    def _measure(self, name: str, start: Callable[..., Side]) -> None:
        """Measure one; what fails there does not keep the other from being measured."""
        try:
            self._try(name, start)
        except (Failed, OSError) as error:
            self.complete = False
            self.notes.append(f'{name} was not measured to the end: {error}')

    def _try(self, name: str, start: Callable[..., Side]) -> None:
        say(f'{name}: starting')
        directory = self._directory / name.replace(' ', '-')
        directory.mkdir()
        with Processes(directory) as running:
            side = start(running, self._mariadb, self._rabbitmq)
            probe = Probe(self._mariadb.connect())
            meter = Meter(probe, self._mariadb.process, side.processes, side.cloud.calls)
            workload = Workload(side, meter, probe, self._size, lambda t: say(f'{name}: {t}'))
            for operation, result in workload.run():
                self.results.setdefault(operation, {})[name] = result
            self.notes.append(f'{name}: {_memory(side)}')
            if refused := sorted(set(side.cloud.refused())):
                self.notes.append(f'{name}: the fake cloud refused {refused}')
        say(f'{name}: stopped')


def _memory(side: Side) -> str:
    """Say how much memory the processes of a service have now."""
    found = (
        f'{each.name} {", ".join(f"{size:.0f}" for size in each.memories())}'
        for each in side.processes
    )
    return f'MiB of memory: {"; ".join(found)}'


def measure(options: argparse.Namespace, directory: pathlib.Path) -> bool:
    """Run and print the table; tell whether nothing is missing in it."""
    with Processes(directory) as servers:
        bench = Bench(options, servers)
        bench.run()
        print(f'{bench.conditions()}\n\n{report.table(bench.results)}\n\n{report.LEGEND}')
        for note in [*bench.notes, *report.notes(bench.results)]:
            print(f'NOTE: {note}')
        if options.write and bench.complete:
            command = shlex.join(['python', '-m', 'tests.bench', *sys.argv[1:]])
            heading = f'``{command}``, {bench.conditions()}'
            options.write.write_text(f'{heading}:\n\n{report.table(bench.results)}\n')
        return bench.complete


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = pathlib.Path(tempfile.mkdtemp(prefix='climate-bench-'))
    try:
        return 0 if measure(options, directory) else 1
    except (Failed, OSError) as error:
        print(f'bench: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if options.keep:
            say(f'kept: {directory}')
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
