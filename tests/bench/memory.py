# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.memory``: what the processes of the service have in memory.

It is told of each process in MiB: all that is resident (RSS), and that with what it shares with
others in parts (PSS), see proc(5), ``/proc/<pid>/smaps_rollup``. The manager is asked when it has
started and after leases have been created and started.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import sys

from tests.bench.climate import Climate
from tests.bench.processes import Process, Processes, run_in_directory, wait_until
from tests.bench.servers import MariaDB, RabbitMQ


def told_of(process: Process, when: str) -> str:
    """Return a line for each process of a group."""
    lines = []
    for directory in sorted(pathlib.Path('/proc').glob('[0-9]*')):
        with contextlib.suppress(OSError):
            if os.getpgid(int(directory.name)) == process.group:
                rollup = (directory / 'smaps_rollup').read_text().splitlines()[1:]
                sizes = {line.split(':')[0]: int(line.split()[1]) / 1024 for line in rollup}
                threads = len(list((directory / 'task').iterdir()))
                lines.append(
                    f'{process.name}, {when}: RSS {sizes["Rss"]:.1f}, PSS {sizes["Pss"]:.1f}, '
                    f'{threads} threads'
                )
    return '\n'.join(lines)


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    with Processes(directory) as running:
        side = Climate(running, MariaDB(running), RabbitMQ(running))
        api, manager = side.processes
        load = os.getloadavg()[0]
        print(f'{datetime.date.today()}, load average {load:.1f}, {options.leases} leases; MiB')
        print(told_of(manager, 'with its first lease'))
        side.arrange(options.leases)
        wait_until('started', lambda: len(side.started()) == options.leases, 600, 0.5)
        print(told_of(manager, 'after all were started'))
        print(told_of(api, 'after all were started'))


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.memory', description=__doc__)
    parser.add_argument('--leases', type=int, default=300)
    options = parser.parse_args()
    return run_in_directory(lambda directory: measure(options, directory))


if __name__ == '__main__':
    sys.exit(main())
