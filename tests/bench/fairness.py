# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.fairness``: how late others make a single lease.

One project has many leases that are due at one moment; another has one of a server, a second
later. With ``--stuck`` the many are of volumes, and Cinder does not answer from before they are
due.
"""

import argparse
import datetime
import os
import pathlib
import sys

from tests.bench.climate import Climate
from tests.bench.processes import Processes, run_in_directory, wait_until
from tests.bench.servers import MariaDB, RabbitMQ

#: Seconds after the leases of the first project at which the single one is due.
LATER = 1.0
#: Of Cinder, what the paths begin with.
CINDER = '/volume/'


class Shared(Climate):
    """Climate, in which one service may have so many percent of the threads."""

    def __init__(self, share: int, *args: object) -> None:
        self.more = f'\n[engine]\nservice_share = {share}\n'
        super().__init__(*args)  # type: ignore[arg-type]


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    with Processes(directory) as running:
        side = Shared(options.share, running, MariaDB(running), RabbitMQ(running), options.workers)
        # Tokens, connections and the speed of a create.
        side.fill(50)
        arrange = side.arrange_volumes if options.stuck else side.arrange
        at = arrange(options.leases)
        single = side.arrange_single(at + LATER)
        if options.stuck:
            side.cloud.order('hanging', CINDER)
        wait_until('started', lambda: single in side.cloud.started(), 600, 0.1)
        late = side.cloud.started()[single] - at - LATER
        if options.stuck:
            told = f'{options.leases} leases whose Cinder does not answer were due'
        else:
            told = told_of_all(side, options.leases, at, late)
        print(
            f'{datetime.date.today()}, load average {os.getloadavg()[0]:.1f}, share '
            f'{options.share}%: {told}; one of another project, due {LATER:.0f} s after them, '
            f'was started {late:.2f} s late'
        )


def told_of_all(side: Climate, count: int, at: float, late: float) -> str:
    """Wait until all are started; say when they were."""
    wait_until('all started', lambda: len(side.cloud.started()) > count, 600, 0.1)
    times = [each - at for each in side.started()]
    meanwhile = sum(LATER < each < LATER + late for each in times)
    return (
        f'{count} leases of one project were started within {max(times):.2f} s, '
        f'{meanwhile} of them while the single one was late'
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.fairness', description=__doc__)
    parser.add_argument('--leases', type=int, default=1000, help='of the first project')
    parser.add_argument('--workers', type=int, default=1, help='managers of one program')
    parser.add_argument('--stuck', action='store_true', help='Cinder does not answer')
    parser.add_argument('--share', type=int, default=75, help='[engine] service_share')
    options = parser.parse_args()
    return run_in_directory(lambda directory: measure(options, directory))


if __name__ == '__main__':
    sys.exit(main())
