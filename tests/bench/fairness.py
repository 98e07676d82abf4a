# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.fairness``: how late others make a single lease.

One project has many leases that are due at one moment; another has one, a second later.
"""

import argparse
import datetime
import pathlib
import sys

from tests.bench.climate import Climate
from tests.bench.processes import Processes, run_in_directory, wait_until
from tests.bench.servers import MariaDB, RabbitMQ

#: Seconds after the leases of the first project at which the single one is due.
LATER = 1.0


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    with Processes(directory) as running:
        side = Climate(running, MariaDB(running), RabbitMQ(running), options.workers)
        # Tokens, connections and the speed of a create.
        side.fill(50)
        at = side.arrange(options.leases)
        single = side.arrange_single(at + LATER)
        wait_until('started', lambda: single in side.cloud.started(), 600, 0.1)
        late = side.cloud.started()[single] - at - LATER
        count = options.leases + 1
        wait_until('all started', lambda: len(side.cloud.started()) >= count, 600, 0.1)
        times = [each - at for each in side.started()]
        print(
            f'{datetime.date.today()}: {options.leases} leases of one project were started '
            f'within {max(times):.2f} s; one of another, due {LATER:.0f} s after them, '
            f'{late:.2f} s late'
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.fairness', description=__doc__)
    parser.add_argument('--leases', type=int, default=1000, help='of the first project')
    parser.add_argument('--workers', type=int, default=1, help='managers of one program')
    options = parser.parse_args()
    return run_in_directory(lambda directory: measure(options, directory))


if __name__ == '__main__':
    sys.exit(main())
