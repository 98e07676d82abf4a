# SPDX-License-Identifier: Apache-2.0
"""What an operator does with hosts of the pool in the wrong order harms nobody."""

import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import STATE, Person, cloud, upgrade_check, wait_for
from tests.cloud.pooling import POOL, boot, enrolled, host_of, hosts_of, lease_hosts

#: Another nova-scheduler would be seen by other tests.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]

FILE = STATE / 'etc' / 'nova' / 'nova.conf'
FILTER = ',PoolFilter'
#: Of another nova-scheduler.
HOST = 'ctl2'
NOT_ISOLATED = 'In no host aggregate with trait:CUSTOM_CLIMATE_POOL=required'


@pytest.fixture
def not_isolated(admin: Person) -> Iterator[str]:
    """A host of the pool that is not in Nova's aggregate."""
    compute, host = admin.sdk.compute, POOL[0]
    aggregate = compute.find_aggregate('climate-pool', ignore_missing=False)
    compute.remove_host_from_aggregate(aggregate, host)
    yield host
    compute.add_host_to_aggregate(aggregate, host)


@pytest.fixture
def without_filter(admin: Person, tmp_path: pathlib.Path) -> Iterator[None]:
    """A nova-scheduler that knows nothing of the pool, beside those of the cloud."""
    text = FILE.read_text()
    for old, new in {FILTER: '', 'host = ctl\n': f'host = {HOST}\n', 'workers = 2': ''}.items():
        assert old in text
        text = text.replace(old, new)
    # A filter that is available is loaded, and its row with it.
    lines = [line for line in text.splitlines() if not line.endswith('scheduler.PoolFilter')]
    file = tmp_path / 'nova.conf'
    file.write_text('\n'.join(lines))
    command = [STATE / 'venv' / 'bin' / 'nova-scheduler', '--config-file', file]
    compute = admin.sdk.compute

    def service() -> Any:
        found = compute.services(binary='nova-scheduler', host=HOST)
        return next((each for each in found if each.state == 'up'), None)

    with (tmp_path / 'log').open('w') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(service, 'another nova-scheduler')
            yield
        finally:
            process.terminate()
            process.wait()
            compute.delete_service(service())


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


def test_host_is_neither_enrolled_with_servers_nor_taken_out_of_a_lease(
    booking: Booking, admin: Person
) -> None:
    ordinary = boot(booking)
    command = ('openstack', 'lease', 'host')
    refused = admin.cli(*command, 'create', host_of(admin, ordinary.id))
    assert refused.returncode == 1
    assert 'has servers' in refused.stderr

    (host,) = hosts_of(lease_hosts(booking))
    kept = admin.cli(*command, 'delete', host)
    assert kept.returncode == 1
    assert 'promised' in kept.stderr
    assert enrolled(admin)[host].reservable


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
