# SPDX-License-Identifier: Apache-2.0
"""What an operator does with hosts of the pool in the wrong order harms nobody."""

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import STATE, Person, cloud, upgrade_check, wait_for
from tests.cloud.pooling import POOL, boot, host_of, hosts_of, lease_hosts

#: Another nova-scheduler would be seen by other tests.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]

FILE = STATE / 'etc' / 'nova' / 'nova.conf'
FILTER = ',PoolFilter'
#: Of another nova-scheduler.
HOST = 'ctl2'
NOT_ISOLATED = 'In no host aggregate with trait:CUSTOM_CLIMATE_POOL=required'


@pytest.fixture
def not_isolated(admin: Person) -> Iterator[str]:
    """Return a host of the pool that is not in Nova's aggregate."""
    compute, host = admin.sdk.compute, POOL[0]
    aggregate = compute.find_aggregate('climate-pool', ignore_missing=False)
    compute.remove_host_from_aggregate(aggregate, host)
    yield host
    compute.add_host_to_aggregate(aggregate, host)


@contextlib.contextmanager
def another_scheduler(
    admin: Person, directory: pathlib.Path, changes: dict[str, str]
) -> Iterator[pathlib.Path]:
    """Run a nova-scheduler beside those of the cloud; give the file of its log.

    :param changes: of what stands in nova.conf
    """
    text = FILE.read_text()
    for old, new in {'host = ctl\n': f'host = {HOST}\ndebug = true\n', **changes}.items():
        assert old in text
        text = text.replace(old, new)
    file, log = directory / 'nova.conf', directory / 'log'
    file.write_text(text)
    command = [STATE / 'venv' / 'bin' / 'nova-scheduler', '--config-file', file]
    compute = admin.sdk.compute

    def service() -> Any:
        found = compute.services(binary='nova-scheduler', host=HOST)
        return next((each for each in found if each.state == 'up'), None)

    with log.open('w') as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_for(service, 'another nova-scheduler')
            yield log
        finally:
            process.terminate()
            process.wait()
            compute.delete_service(service())


@pytest.fixture
def scheduler(admin: Person, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Another nova-scheduler that has all that those of the cloud have; the file of its log."""
    with another_scheduler(admin, tmp_path, {}) as log:
        yield log


@pytest.fixture
def without_filter(admin: Person, tmp_path: pathlib.Path) -> Iterator[None]:
    """Return a nova-scheduler that knows nothing of the pool, beside those of the cloud."""
    # A filter that is available is loaded, and its row with it.
    available = 'available_filters = nova_ext.scheduler.PoolFilter\n'
    with another_scheduler(admin, tmp_path, {FILTER: '', available: '', 'workers = 2': ''}):
        yield


def test_two_schedulers_keep_the_pool_shut_and_let_servers_of_the_lease_in(
    booking: Booking, admin: Person, scheduler: pathlib.Path
) -> None:
    (promised,) = hosts_of(lease := lease_hosts(booking))
    inside, outside = {'reservation': lease.reservations[0].id}, {}
    by_both: set[tuple[bool, bool]] = set()

    def both() -> bool:
        for hints in (inside, outside):
            server = boot(booking, **hints)
            assert server.status == 'ACTIVE', server.fault
            host = host_of(admin, server.id)
            assert host == promised if hints else host not in POOL
            by_both.add((bool(hints), server.id in scheduler.read_text()))
        return len(by_both) == 4

    wait_for(both, 'servers inside and outside of the lease, by the one scheduler and the other')


@pytest.mark.usefixtures('without_filter')
def test_scheduler_without_the_filter_beside_others_keeps_the_pool_shut_by_the_aggregate(
    booking: Booking, admin: Person
) -> None:
    """Which of them a server gets, RabbitMQ says; it lands as the one says that it got."""
    lease = lease_hosts(booking)
    promised = {*hosts_of(lease)}
    ordinary, named = set(), set()

    def land(**hints: str) -> str:
        server = boot(booking, **hints)
        assert server.status == 'ACTIVE', server.fault
        return host_of(admin, server.id)

    def both() -> bool:
        ordinary.add(land())
        named.add(land(reservation=lease.reservations[0].id))
        return promised < named

    wait_for(both, 'servers that name the reservation inside and outside of the lease')
    assert not ordinary & {*POOL}
    assert named & {*POOL} == promised


def test_upgrade_check_finds_all_hosts_of_the_pool_isolated() -> None:
    assert NOT_ISOLATED not in upgrade_check()


def test_upgrade_check_names_a_host_that_is_not_isolated(not_isolated: str) -> None:
    assert f'{NOT_ISOLATED}: {not_isolated}.' in upgrade_check()


def test_host_whose_compute_is_restarted_in_a_lease_stays_in_it(
    booking: Booking, admin: Person
) -> None:
    lease = lease_hosts(booking)
    (host,) = hosts_of(lease)
    inside = boot(booking, reservation=lease.reservations[0].id)
    cloud('restart', f'nova-{host}')
    again = boot(booking, reservation=lease.reservations[0].id)
    assert {host_of(admin, each.id) for each in (inside, again)} == {host}
    assert host_of(admin, boot(booking).id) not in POOL
