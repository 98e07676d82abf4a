# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.waiting``: how long leases wait beside leases with a start date.

It repeats the experiment that Haizea's authors published (Sotomayor, Montero, Llorente, Foster:
"Combining batch execution and leasing using virtual machines", HPDC 2008): leases of hosts that
wait until there is enough for them, and leases that are asked for a day before they start and have
10, 20 or 30% of all host hours. It runs the calendar alone, with a clock that jumps.

Their load was a trace of SDSC Blue Horizon: 5545 requests for 144 hosts in 30 days. The trace is
not here: the load is a random one with these three numbers, so compare the growth from row to row,
not the numbers themselves. Theirs are those without suspending: leases of the kind retry are not
suspended.
"""

import argparse
import collections
import datetime
import heapq
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from climate_common.dates import from_microseconds
from climate_core.calendar import calendar, windows
from climate_core.calendar.model import Demand, QueuedRequest, Unit
from climate_core.calendar.search import (
    InsufficientCapacity,
    JointSearch,
    Search,
)
from climate_core.calendar.unit_timeline import Timeline, entry_of
from climate_core.lease.model import Allocation

SECOND, HOUR, DAY = 1, 3600, 24 * 3600
#: Share of leases with a start date -> how much later all others were done than without them (%),
#: their mean wait (1000 seconds), and their mean bounded slowdown.
PUBLISHED = {10: (3.91, 16.91, 60), 20: (8.66, 23.91, 72), 30: (23.93, 68.95, 297)}
NOTICE = DAY
#: Of a lease with a start date, in hours and in a share of the hosts.
MEAN_HOURS, LARGEST = 3, 0.5
#: A lease is not slowed down more than if it lasted so many seconds.
BOUND = 10
MICRO = 1_000_000


class Request(NamedTuple):
    """A lease that is asked for.

    :param asked: when, in seconds
    :param lasts: how long it was asked for, in seconds
    :param runs: after how many seconds its user ends it
    :param start: its start date in seconds; None: as soon as there is enough
    """

    asked: int
    hosts: int
    lasts: int
    runs: int
    start: int | None = None


class Outcome(NamedTuple):
    """What became of the leases of one run; times in seconds.

    :param done: when the last of those that wait was over
    :param refused: how many of those with a start date
    :param looked: how often a lease that waits was looked at
    """

    done: int
    waits: list[int]
    slowdowns: list[float]
    granted: int
    refused: int
    looked: int


class Simulation:
    """Hosts, and leases of them."""

    def __init__(self, hosts: int, seed: int) -> None:
        self._timelines = [
            Timeline(Unit(id=number, kind='host', pool='default')) for number in range(hosts)
        ]
        self._dice = random.Random(seed)
        self._waiting: list[Request] = []
        #: time, order, what happens: a lease is asked for, or (hosts, lease's search) are freed
        self._moments: list[tuple[int, int, object]] = []
        self._count = 0
        self._looked = 0

    def run(self, requests: Iterable[Request]) -> Outcome:
        """Ask for all leases, and wait until all are over."""
        for each in requests:
            self._at(each.asked, each)
        waits, slowdowns, counts, done = [], [], collections.Counter[str](), 0
        while self._moments:
            now, _, what = heapq.heappop(self._moments)
            if isinstance(what, Request):
                if what.start is not None:
                    counts[self._promise(what, what.start)] += 1
                    continue
                self._waiting.append(what)
            elif isinstance(what, list):
                self._free(what)
            if self._moments and self._moments[0][0] == now:
                continue
            for started in self._look(now):
                waits.append(now - started.asked)
                slowdowns.append((waits[-1] + started.runs) / max(BOUND, started.runs))
                done = max(done, now + started.runs)
        return Outcome(done, waits, slowdowns, counts['granted'], counts['refused'], self._looked)

    def _at(self, time: int, what: object) -> None:
        self._count += 1
        heapq.heappush(self._moments, (time, self._count, what))

    @property
    def _by_kind(self) -> Mapping[str, Sequence[Timeline]]:
        return {'host': self._timelines}

    def _promise(self, request: Request, start: int) -> str:
        search = _search(request, start)
        try:
            (found,) = JointSearch([search], self._by_kind, self._dice).choose()
        except InsufficientCapacity:
            return 'refused'
        for pick in found:
            self._change(pick, added=[entry_of(pick)])
        self._at(start + request.runs, found)
        return 'granted'

    def _free(self, promised: list[Allocation]) -> None:
        for pick in promised:
            self._change(pick, without=[entry_of(pick)])

    def _change(self, pick: Allocation, **entries: list) -> None:
        timeline = self._timelines[pick.unit_id]
        self._timelines[pick.unit_id] = timeline.changed(timeline.unit, **entries)

    def _look(self, now: int) -> Iterator[Request]:
        """Start those that there is enough for, as climate-manager does."""
        while self._waiting:
            listed = self._waiting[:]
            candidates = [_queued(each, now) for each in listed]
            chosen = list(
                windows.backfill(candidates, 0, self._by_kind, self._dice, calendar.MAX_CHECKS)
            )
            self._looked += len(chosen)
            fitting = [listed[each.number] for each in chosen if each.delay == 0]
            for one in fitting:
                if self._promise(one, now) == 'granted':
                    self._waiting.remove(one)
                    yield one
            if not fitting:
                soonest = min((each.delay for each in chosen if each.delay), default=None)
                if soonest is not None:
                    # Nothing is freed then, but the gap before a start date may be long enough.
                    self._at(now + math.ceil(soonest / MICRO), None)
                return


def _search(request: Request, start: int) -> Search:
    demand = Demand(kind='host', min_pieces=request.hosts, max_pieces=request.hosts)
    begin, end = start * MICRO, (start + request.lasts) * MICRO
    return Search(demand=demand, start=begin, end=end, now=0)


def _queued(request: Request, start: int) -> QueuedRequest:
    search = _search(request, start)
    return QueuedRequest(
        id='',
        project_id='',
        demands=[search.demand],
        start=from_microseconds(search.start),
        end=from_microseconds(search.end),
        latest=datetime.timedelta(days=365),
    )


def batch(hosts: int, days: float, count: int, load: float, dice: random.Random) -> list[Request]:
    """Return leases that wait: most are small and short, a few large or long."""
    sizes = [2**power for power in range(int(math.log2(hosts)) + 1)]
    raw = []
    for _ in range(count):
        size = dice.choices(sizes, [0.8**power for power in range(len(sizes))])[0]
        raw.append((dice.uniform(0, days * DAY), size, dice.lognormvariate(0, 1.5)))
    scale = load * hosts * days * DAY / sum(size * length for _, size, length in raw)
    requests = []
    for asked, size, length in sorted(raw):
        runs = min(max(30, int(length * scale)), 36 * HOUR)
        # Users ask for more than they use.
        lasts = min(int(runs * dice.uniform(1, 4)), 40 * HOUR)
        requests.append(Request(int(asked), size, max(lasts, runs), runs))
    return requests


def dated(hosts: int, days: float, percent: int, dice: random.Random) -> Iterator[Request]:
    """Yield leases with a start date that have a share of all host hours."""
    left = percent / 100 * hosts * days * DAY
    while left > 0:
        size = dice.randint(1, int(hosts * LARGEST))
        lasts = int(dice.uniform(0.5, 1.5) * MEAN_HOURS * HOUR)
        asked = int(dice.uniform(-NOTICE, (days - 1) * DAY))
        left -= size * lasts
        yield Request(max(0, asked), size, lasts, lasts, asked + NOTICE)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.waiting', description=__doc__)
    parser.add_argument('--hosts', type=int, default=144)
    parser.add_argument('--days', type=float, default=30)
    parser.add_argument('--requests', type=int, default=5545)
    parser.add_argument('--load', type=float, default=0.7, help='of those that wait')
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args(argv)
    print(f'{options.hosts} hosts, {options.days:g} days, {options.requests} leases that wait, ')
    print(f'which need {options.load:.0%} of all host hours; seed {options.seed}')
    print('with a date   done later   wait ks   slowdown   p50 wait s   granted/refused   took s')
    alone = None
    for percent in (0, *PUBLISHED):
        dice = random.Random(options.seed)
        requests = batch(options.hosts, options.days, options.requests, options.load, dice)
        requests += dated(options.hosts, options.days, percent, dice)
        began = time.process_time()
        outcome = Simulation(options.hosts, options.seed).run(requests)
        took = time.process_time() - began
        assert len(outcome.waits) == options.requests, 'every lease that waits gets its hosts'
        alone = alone or outcome.done
        print(
            f'{percent:10}%  {100 * (outcome.done / alone - 1):+10.2f}% '
            f'{statistics.mean(outcome.waits) / 1000:9.2f} '
            f'{statistics.mean(outcome.slowdowns):10.1f} {statistics.median(outcome.waits):12.0f} '
            f'{outcome.granted:11}/{outcome.refused:<5} {took:8.0f}',
            flush=True,
        )
        if percent:
            later, wait, slowdown = PUBLISHED[percent]
            print(f'  published  {later:+10.2f}% {wait:9.2f} {slowdown:10}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
