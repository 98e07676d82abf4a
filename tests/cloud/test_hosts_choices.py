# SPDX-License-Identifier: Apache-2.0
"""Which servers enter a lease of hosts, and which hosts leases get: users and operators choose."""

import uuid
from collections.abc import Iterator

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for
from tests.cloud.pooling import (
    POOL,
    boot,
    enrolled,
    host_of,
    hosts_of,
    make_lease,
    order_lease,
)

pytestmark = pytest.mark.usefixtures('pool')

#: Names of pools of these tests begin with it.
PREFIX = 'pool-'
WHOLE = {'resource_type': 'physical:host', 'min': 1}


@pytest.fixture
def others(stranger: Person) -> Iterator[Booking]:
    """Servers and leases of another project."""
    others = Booking(stranger)
    yield others
    others.clean()


def test_open_lease_takes_servers_that_name_none_and_those_of_projects_that_share_it(
    booking: Booking, others: Booking, admin: Person
) -> None:
    sharing = others.person.sdk.current_project_id
    wanted = f'flavor=m1.tiny,amount=2,matching=open,share_with={sharing}'
    lease = booking.wait_lease(order_lease(booking, '--capacity', wanted).id, 'ACTIVE')
    hint = {'reservation': lease.reservations[0].id}

    # It is known to each nova-scheduler some seconds later; until then servers are ordinary.
    def enters() -> bool:
        return host_of(admin, boot(booking).id) in POOL

    wait_for(enters, 'a server that names no reservation in the open lease')
    assert host_of(admin, boot(others).id) not in POOL
    assert host_of(admin, boot(others, **hint).id) in POOL
    assert host_of(admin, boot(booking).id) not in POOL
    assert boot(booking, **hint).status == 'ERROR'


@pytest.fixture
def restored(admin: Person) -> Iterator[None]:
    """Return all hosts are in use, and in the pool for everybody, afterwards."""
    yield
    for host in POOL:
        present = enrolled(admin)[host]
        admin.client.hosts.update(present.id, disabled=False, pool='default')
    for pool in admin.client.hosts.pools():
        if pool.name.startswith(PREFIX):
            admin.client.hosts.delete_pool(pool.name)


@pytest.mark.usefixtures('restored')
def test_pool_for_some_projects_and_domains(
    booking: Booking, others: Booking, admin: Person
) -> None:
    host, pool = POOL[0], f'{PREFIX}{uuid.uuid4().hex[:8]}'
    for command in (
        ('set', host, '--pool', pool),
        ('pool', 'set', pool, '--project', booking.person.sdk.current_project_id),
    ):
        done = admin.cli('openstack', 'lease', 'host', *command)
        assert done.returncode == 0, done.stderr
    later = ('--start', at(hours=1))
    refused = order(others, *later, '--hosts', f'min=1,pool={pool}')
    assert '404' in refused
    assert pool in refused
    refused = order(others, *later, '--hosts', f'min={len(POOL)}')
    assert '409' in refused
    assert hosts_of(order_lease(booking, *later, '--hosts', f'min=1,pool={pool}')) == [host]

    # Nobody of this domain is in a project; it is Heat's.
    domain = admin.sdk.identity.find_domain('heat', ignore_missing=False)
    admin.client.hosts.set_pool(pool, domain_ids=[domain.id])
    assert '404' in order(booking, '--start', at(hours=3), '--hosts', f'min=1,pool={pool}')
    admin.client.hosts.set_pool(pool, domain_ids=[domain.id, 'default'])
    theirs = {**WHOLE, 'pool': pool}
    assert hosts_of(make_lease(others, theirs, start=at(hours=3), end=at(hours=4))) == [host]


def order(booking: Booking, *options: str) -> str:
    """Ask for a lease that is refused; return what the command says."""
    command = ('openstack', 'lease', 'create', 'refused', '--for', '1h', *options)
    refused = booking.person.cli(*command)
    assert refused.returncode == 1, refused.stdout
    return refused.stderr
