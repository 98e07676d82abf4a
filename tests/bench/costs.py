# SPDX-License-Identifier: Apache-2.0
"""What an operation costs, in a line, and the request for a lease that is promised something."""

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tests.bench import web
from tests.bench.meter import Meter, Probe
from tests.bench.processes import Failed
from tests.bench.servers import MariaDB
from tests.bench.side import Side
from tests.bench.workload import SETTLE


class Refused(Exception):
    """A lease was not granted: 409, or what Blazar answers in its place."""


class Costs:
    """Say what operations cost.

    :param calls: counts the calls that the cloud got by what they are, if that is to be told
    """

    def __init__(
        self, meter: Meter, probe: Probe, calls: Callable[[], Mapping[str, int]] | None = None
    ) -> None:
        self._meter, self._probe, self._calls = meter, probe, calls

    def of(self, name: str, times: int, operation: Callable[[], Sequence[float]]) -> str:
        """Run an operation; say what it cost each of so many times.

        :param operation: returns the milliseconds that each took, or nothing
        """
        before, had = self._meter.read(), self._counted()
        spent = sorted(operation())
        threading.Event().wait(SETTLE)
        has, cost = self._counted(), self._meter.read().since(before, times)
        statements, calls = (_each(have, were, times) for have, were in zip(has, had, strict=True))
        walls = ''
        if spent:
            p99 = spent[min(len(spent) - 1, math.ceil(len(spent) * 0.99) - 1)]
            walls = f', p50 {statistics.median(spent):.1f}, p99 {p99:.1f} ms'
        return (
            f'{name}: {cost.statements:.1f} SQL{statements}, {cost.calls:.1f} HTTP{calls}, CPU '
            f'{cost.cpu_ms:.1f} and database {cost.database_cpu_ms:.1f} ms{walls}'
        )

    def _counted(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return self._probe.kinds(), self._calls() if self._calls else {}


def _each(has: Mapping[str, int], had: Mapping[str, int], times: int) -> str:
    """Say how often each kind was counted more; what not every tenth did is left out."""
    more = {kind: count - had.get(kind, 0) for kind, count in has.items()}
    told = [f'{n / times:.1f} {kind}' for kind, n in more.items() if n >= max(1, times / 10)]
    return f' ({", ".join(told)})' if told else ''


class Work(Protocol):
    """What is done to a service, one thing after the other."""

    def run(self) -> Iterator[str]:
        """Yield a line for each operation."""
        ...


def print_costs(side: Side, mariadb: MariaDB, work: Callable[[Meter, Probe], Work]) -> None:
    """Print the lines of what is done to a service, and the load before and after it."""
    probe = Probe(mariadb.connect())
    meter = Meter(probe, mariadb.process, side.processes, side.cloud.calls)
    print(f'{side.name}, load {os.getloadavg()[0]:.1f}', flush=True)
    for line in work(meter, probe).run():
        print(f'  {line}', flush=True)
    print(f'  load {os.getloadavg()[0]:.1f}', flush=True)


def ask(side: Side, reservation: Mapping[str, Any], at: float, hours: float) -> tuple[Any, float]:
    """Create a lease of one reservation; return it, and the milliseconds that it took.

    :param at: when it starts, unix time; its seconds are left out
    :raises Refused: it is not granted
    """
    body = {
        'name': f'bench-{threading.get_ident()}-{time.monotonic_ns()}',
        'start_date': _time(at),
        'end_date': _time(at + hours * 3600),
        'reservations': [reservation],
        'events': [],
    }
    try:
        answer, spent = web.call('POST', side.api + '/v1/leases', body, side.headers)
    except Failed as error:
        if ': 409 ' in str(error) or 'Not enough' in str(error):
            raise Refused from error
        raise
    return answer['lease'], spent


def _time(at: float) -> str:
    return time.strftime('%Y-%m-%d %H:%M', time.gmtime(at))
