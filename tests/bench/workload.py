# SPDX-License-Identifier: Apache-2.0
"""What is done to a service: create, list, show, and leases that are due at one moment."""

import dataclasses
import datetime
import functools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.bench import web
from tests.bench.meter import Meter, Probe, Reading
from tests.bench.processes import Failed, wait_until
from tests.bench.side import PROCESSES, Side

#: Days from now at which the leases of create, list and show begin, and hours that they last.
DAYS, HOURS = 400, 2
#: Requests before the first reading: every process has its connections, its token and its caches.
WARM_UP = 4 * PROCESSES
#: Seconds after the last create or start in which what follows, notifications, is still counted.
SETTLE = 1
#: Hosts that can be reserved. Only Blazar knows hosts; Climate's leases are placed by Nova.
HOSTS = 100
MANY_HOSTS_CREATES = 10


@dataclasses.dataclass(frozen=True)
class Result:
    """One row: costs per operation, or per lease that was due.

    :param p50_ms: median milliseconds from the request to the last byte; None for due leases
    :param late: seconds from the start date to the call that starts the resource, sorted
    :param active: seconds from the start date until the last lease is ACTIVE
    :param beaten: claims that another manager had made first, per lease
    :param note: what went differently
    """

    cost: Reading
    p50_ms: float | None = None
    late: Sequence[float] = ()
    active: float | None = None
    beaten: float | None = None
    note: str = ''


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is done.

    :param creates: leases that are created and measured
    :param leases: leases that exist while list and show are measured
    :param lists: number of list requests
    :param shows: number of show requests
    :param due: numbers of leases due at one moment, one round each
    :param listed: numbers of leases of which a page of 100 is asked for
    :param idle: seconds without any request
    :param more_hosts: numbers of hosts with which creates are measured again, at the end
    """

    creates: int
    leases: int
    lists: int
    shows: int
    due: Sequence[int]
    idle: float
    listed: Sequence[int] = ()
    more_hosts: Sequence[int] = ()


class Workload:
    """Runs the operations one after the other and measures each."""

    def __init__(
        self, side: Side, meter: Meter, probe: Probe, size: Size, say: Callable[[str], None]
    ) -> None:
        self._side, self._meter, self._probe = side, meter, probe
        self._size, self._say = size, say
        self._leases: list[str] = []

    def run(self) -> Iterator[tuple[str, Result]]:
        """Yield the name of each operation with its result."""
        size = self._size
        self._side.set_hosts(HOSTS)
        for _ in range(WARM_UP):
            self.create(self._side.reservation())
        yield f'create, {HOSTS} hosts', self.creates(size.creates)
        self._side.fill(max(size.leases - self._count(), 0))
        for _ in range(WARM_UP):
            self._request('GET', '/v1/leases')
        yield f'list of {size.leases}', self.repeat(size.lists, lambda _: '/v1/leases')
        one = self._leases
        yield 'show', self.repeat(size.shows, lambda n: f'/v1/leases/{one[n % len(one)]}')
        if self._side.has_history:
            paths = [f'/v1/leases/{lease_id}/history' for lease_id in one]
            yield 'history', self.repeat(size.shows, lambda n: paths[n % len(paths)])
        for count in size.due:
            self._side.set_hosts(max(HOSTS, count))
            yield f'{count} due', self.due(count)
        yield 'idle minute', self._idle(size.idle)
        for hosts in size.more_hosts:
            self._side.set_hosts(hosts)
            yield f'create, {hosts} hosts', self.creates(MANY_HOSTS_CREATES)
        for count in size.listed:
            if count <= self._side.most_listed:
                yield from self._pages(count)

    def _pages(self, count: int) -> Iterator[tuple[str, Result]]:
        self._say(f'{count} leases')
        self._side.seed(max(count - self._count(), 0))
        for kind, path in self._side.pages().items():
            for _ in range(PROCESSES):
                self._request('GET', path)
            result = self.repeat(self._size.lists, functools.partial(_always, path))
            yield f'page of {count}, {kind}', result

    def _request(self, method: str, path: str, body: Any = None) -> tuple[Any, float]:
        return web.call(method, self._side.api + path, body, self._side.headers)

    def create(self, reservation: Any) -> float:
        """Create a lease that starts in far future; return the milliseconds that it took."""
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=DAYS)
        end = start + datetime.timedelta(hours=HOURS)
        body = {
            'name': f'bench-{len(self._leases)}',
            'start_date': f'{start:%Y-%m-%d %H:%M}',
            'end_date': f'{end:%Y-%m-%d %H:%M}',
            'reservations': [reservation],
            'events': [],
        }
        answer, spent = self._request('POST', '/v1/leases', body)
        self._leases.append(answer['lease']['id'])
        return spent

    def creates(self, count: int) -> Result:
        """Measure so many creates, one after the other."""
        self._say(f'{count} x create')
        ready = [self._side.reservation() for _ in range(count)]
        return self._measure(len(ready), lambda n: self.create(ready[n]), SETTLE)

    def repeat(self, times: int, path: Callable[[int], str]) -> Result:
        """Measure so many GET requests, one after the other.

        :param path: of the request with a number
        """
        self._say(f'{times} x GET {path(0)}')
        return self._measure(times, lambda n: self._request('GET', path(n))[1])

    def _idle(self, seconds: float) -> Result:
        self._say(f'nothing for {seconds:.0f} s')
        before = self._meter.read()
        threading.Event().wait(seconds)
        return Result(self._meter.read().since(before, seconds / 60))

    def _measure(self, times: int, operation: Callable[[int], float], settle: float = 0) -> Result:
        before = self._meter.read()
        spent = [operation(number) for number in range(times)]
        threading.Event().wait(settle)
        cost = self._meter.read().since(before, times)
        return Result(cost, p50_ms=statistics.median(spent))

    def _count(self) -> int:
        ((leases,),) = self._probe.rows(f'SELECT COUNT(*) FROM {self._side.database}.leases')
        return int(leases)

    def due(self, count: int) -> Result:
        """Measure the start of so many leases that are due at one moment."""
        self._say(f'{count} leases due at once')
        active = self._active()
        at = self._side.arrange(count)
        spare = at - 0.5 - time.time()
        if spare < 0:
            raise Failed(f'{count} leases could not be arranged in time')
        threading.Event().wait(spare)
        beaten, before = self._side.beaten(), self._meter.read()
        note = self._finish(count, active)
        took = time.time() - at
        threading.Event().wait(SETTLE)
        late = sorted(moment - at for moment in self._side.started())
        cost = self._meter.read().since(before, count)
        lost = None if beaten is None else ((self._side.beaten() or 0) - beaten) / count
        if again := self._side.cloud.started_again():
            raise Failed(f'started twice: {again}')
        return Result(cost, late=late, active=None if note else took, beaten=lost, note=note)

    def _finish(self, count: int, active: int) -> str:
        """Wait until the cloud has started all of them and the database says so."""
        limit = 60 + 2 * count
        try:
            wait_until('started', lambda: len(self._side.started()) >= count, limit, 0.1)
            wait_until('ACTIVE', lambda: self._active() - active >= count, limit, 0.2)
        except Failed as error:
            done = self._active() - active
            return f'{error}: {len(self._side.started())} started, {done} ACTIVE of {count}'
        return ''

    def _active(self) -> int:
        table = f'{self._side.database}.leases'
        ((found,),) = self._probe.rows(f"SELECT COUNT(*) FROM {table} WHERE status = 'ACTIVE'")
        return int(found)


def _always(path: str, _: int) -> str:
    return path
