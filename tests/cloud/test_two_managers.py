# SPDX-License-Identifier: Apache-2.0
"""Two climate-managers share the work; what one has done the other does not do again."""

import pathlib
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import CONF, STATE, at, wait_for
from tests.cloud.pooling import hosts_of, make_lease

#: Other tests are not to be served by the second one.
pytestmark = pytest.mark.alone

FIRST = STATE / 'logs' / 'climate-manager.log'
#: Servers that start at the same time.
SERVERS = 6


@pytest.fixture
def second(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Another climate-manager beside that of the cloud; the file of its log."""
    # The first one has the address of the metrics.
    text = re.sub(r'(?m)^listen = .*$', '', CONF.read_text())
    file, log = tmp_path / 'climate.conf', tmp_path / 'log'
    file.write_text(text)
    command = [STATE / 'venv' / 'bin' / 'climate-manager', '--config-file', file]
    with log.open('w') as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_for(lambda: 'is running' in log.read_text(), 'another climate-manager')
            yield log
        finally:
            process.terminate()
            process.wait()


def test_each_server_is_woken_once_by_one_of_the_managers(
    booking: Booking, second: pathlib.Path
) -> None:
    seen: set[pathlib.Path] = set()

    def both() -> bool:
        start = at(seconds=20)
        servers = [booking.reserve(start=start) for _ in range(SERVERS)]
        leases = [booking.lease_of(each.id).id for each in servers]
        for server, lease_id in zip(servers, leases, strict=True):
            booking.wait_lease(lease_id, 'ACTIVE')
            assert booking.wake_ups(server.id) == 1
        for log in (FIRST, second):
            started = {f'start_lease of lease {each}: DONE' for each in leases}
            if any(each in log.read_text() for each in started):
                seen.add(log)
        booking.clean()
        return len(seen) == 2

    wait_for(both, 'servers that the one manager and the other have woken')


def test_what_is_freed_is_granted_once(
    booking: Booking, pool: tuple[str, ...], second: pathlib.Path
) -> None:
    wanted = {'resource_type': 'physical:host', 'min': len(pool)}
    first = booking.wait_lease(make_lease(booking, wanted).id, 'ACTIVE')
    waiting = [
        make_lease(booking, {**wanted, 'min': 1}, kind='retry').id for _ in range(len(pool) + 1)
    ]
    booking.person.leases.end(first.id)
    granted = [booking.wait_lease(each, 'ACTIVE') for each in waiting[: len(pool)]]
    assert sorted(host for each in granted for host in hosts_of(each)) == sorted(pool)
    assert booking.person.leases.get(waiting[-1]).status == 'WAITING'
    assert 'Traceback' not in second.read_text()
