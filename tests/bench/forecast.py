# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.forecast``: how often the forecast was right, on a random load.

Leases of servers come and end on hosts that everybody uses. Each asks an hour or more ahead, and
is tried at its start on what is free then. Others boot servers without a lease meanwhile, which no
forecast knows of. The clock jumps, and no service is asked. How long leases of hosts wait, beside
what Haizea's authors published, ``python -m tests.bench.waiting`` prints.
"""

import argparse
import random
import sys
from collections.abc import Sequence

from climate_core.concurrency import SearchBudget
from climate_core.plugins.forecast import Forecast, FutureDemand, NotExpected, Release
from climate_core.plugins.server_placement import FreeCapacity, RunningServer, TargetHost

HOUR = 3600
SIZE, MOST = 16, 8


def run(hosts: int, asked: int, others: float, dice: random.Random) -> tuple[int, int, int, int]:
    """Return how often it was expected, and had room then; and not expected, but had room."""
    free = {f'h{number}': SIZE for number in range(hosts)}
    ends: list[Release] = []
    unknown: list[Release] = []
    counts = [0, 0, 0, 0]
    now = 0
    for number in range(asked):
        now += int(dice.expovariate(1 / (HOUR / 4)))
        ends, unknown = _end(free, ends, now), _end(free, unknown, now)
        servers = [
            RunningServer(id=f'{number}.{n}', amounts={'VCPU': dice.choice((1, 2, 4, 8))})
            for n in range(dice.randint(1, MOST))
        ]
        start = now + dice.randint(1, 4) * HOUR
        end = start + int(dice.uniform(1, 12) * HOUR)
        expected = _expects(free, ends, FutureDemand(start=start, end=end, servers=servers))
        # What others do until then, who tell nobody.
        now = start
        ends, unknown = _end(free, ends, now), _end(free, unknown, now)
        for _ in range(int(dice.expovariate(1 / others)) if others else 0):
            one = RunningServer(id='other', amounts={'VCPU': dice.choice((1, 2, 4))})
            _start(free, unknown, [one], now + int(dice.uniform(1, 24) * HOUR))
        had = _start(free, ends, servers, end)
        counts[2 * (not expected) + (not had)] += 1
    right, wrong, missed, refused = counts
    return right, wrong, missed, refused


def _expects(free: dict[str, int], ends: list[Release], asked: FutureDemand) -> bool:
    try:
        Forecast(_targets(free), ends).check(asked)
    except NotExpected:
        return False
    return True


def _targets(free: dict[str, int]) -> list[TargetHost]:
    return [TargetHost(name=name, free={'VCPU': each}) for name, each in free.items()]


def _start(
    free: dict[str, int], ends: list[Release], servers: list[RunningServer], end: int
) -> bool:
    places = FreeCapacity(_targets(free)).take(servers, SearchBudget(0))
    for server in servers if places else ():
        name = places[server.id] if places else ''
        free[name] -= server.amounts['VCPU']
        ends.append(Release(at=end, host=name, amounts=server.amounts))
    return places is not None


def _end(free: dict[str, int], ends: list[Release], now: int) -> list[Release]:
    for each in ends:
        if each.at <= now:
            free[each.host] += each.amounts['VCPU']
    return [each for each in ends if each.at > now]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.forecast', description=__doc__)
    parser.add_argument('--hosts', type=int, default=4)
    parser.add_argument('--requests', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args(argv)
    print(
        f'{options.hosts} hosts of {SIZE} VCPUs, {options.requests} requests, seed {options.seed}'
    )
    print('others boot   expected: right/wrong   not expected: had room/had none')
    for others in (0.0, 1.0, 3.0):
        dice = random.Random(options.seed)
        right, wrong, missed, refused = run(options.hosts, options.requests, others, dice)
        print(f'{others:11g}   {right:15}/{wrong:<5}   {missed:22}/{refused}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
