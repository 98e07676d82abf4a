# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.emptying``: how long it takes to decide which shared hosts are emptied.

It is the part of ``climate_hosts.operations.evacuation`` that computes: the hosts in the
order of their load, and whether the servers of candidates fit on other hosts. The time that Nova
and Placement take is not included. All hosts are shared, and have servers of random sizes.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from climate_core.plugins import server_placement
from climate_core.plugins.server_placement import (
    CandidateHost,
    CannotDrainHosts,
    RunningServer,
    TargetHost,
)

#: As climate_hosts.operations.evacuation looks at hosts: so many at once, and at most.
BATCH, MOST = 10, 100
VCPUS, MEMORY_MB, DISK_GB = 64, 262_144, 2_000


def make(hosts: int, load: float, dice: random.Random) -> list[CandidateHost]:
    """Return hosts with servers, which take about a share of them."""
    found = []
    for number in range(hosts):
        servers, left = [], int(VCPUS * min(1.0, dice.uniform(0.5 * load, 1.5 * load)))
        while left > 0:
            size = dice.choice((1, 2, 4, 8))
            left -= size
            amounts = {'VCPU': size, 'MEMORY_MB': size * 4096, 'DISK_GB': size * 20}
            servers.append(
                RunningServer(id=f'{number}-{len(servers)}', amounts=amounts, zone='az1')
            )
        found.append(CandidateHost(id=number, name=f'host{number:05}', servers=servers))
    return found


def targets(hosts: Sequence[CandidateHost]) -> list[TargetHost]:
    """Return the same hosts with what is free there."""
    found = []
    for host in hosts:
        free = {'VCPU': VCPUS, 'MEMORY_MB': MEMORY_MB, 'DISK_GB': DISK_GB}
        for server in host.servers:
            for kind, amount in server.amounts.items():
                free[kind] -= amount
        found.append(TargetHost(name=host.name, free=free, zone='az1'))
    return found


def decide(hosts: Sequence[CandidateHost], free: Sequence[TargetHost], count: int) -> bool:
    """Decide for so many hosts; tell whether they can be emptied."""
    listed = sorted(hosts, key=lambda each: (len(each.servers), each.id))
    room, size = server_placement.FreeCapacity(free), max(BATCH, 2 * count)
    for end in range(size, max(MOST, size) + 1, size):
        try:
            server_placement.choose_hosts(listed[:end], count, room, spares=1)
        except CannotDrainHosts:
            continue
        return True
    return False


def measure(function: Callable[[], bool], times: int) -> tuple[bool, list[float]]:
    """Return what a function returns, and the milliseconds of each time."""
    took, answer = [], False
    for _ in range(times):
        began = time.perf_counter()
        answer = function()
        took.append(1000 * (time.perf_counter() - began))
    return answer, sorted(took)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.emptying', description=__doc__)
    parser.add_argument('--hosts', type=int, default=10_000)
    parser.add_argument('--times', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args(argv)
    print(f'{options.hosts} shared hosts; seed {options.seed}')
    print('load   wanted   answer    p50 ms   most ms')
    for load in (0.3, 0.7, 1.0):
        hosts = make(options.hosts, load, random.Random(options.seed))
        if load == 1.0:
            # No host has room for anything.
            hosts = [host for host in hosts if len(host.servers) > 1]
            free = [TargetHost(name=host.name, free={'VCPU': 0, 'MEMORY_MB': 0}) for host in hosts]
        else:
            free = targets(hosts)
        for count in (1, 10, 100):
            answer, took = measure(lambda h=hosts, f=free, c=count: decide(h, f, c), options.times)
            told = 'emptied' if answer else 'refused'
            print(
                f'{load:4.0%} {count:8} {told:>8} {statistics.median(took):9.1f} {took[-1]:9.1f}',
                flush=True,
            )
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
