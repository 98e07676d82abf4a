# SPDX-License-Identifier: Apache-2.0
"""The local cloud, as its users see it.

It must be up: ``CLIMATE_CLOUD_CEPH=1 devstack/local/cloud up``.

Several processes of pytest work on it at once, each with projects of its own: what is counted in
a project is counted for one test at a time. A test that needs the whole cloud is marked
``alone``; those that fill the same zone or want the same hosts of the pool are in
:data:`TOGETHER`.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.cloud.booking import Booking
from tests.cloud.ceph import IMAGE_BYTES
from tests.cloud.hearing import Hearing, hearing
from tests.cloud.people import (
    Person,
    environment,
    give_roles,
    member_of,
    wait_for,
)
from tests.cloud.pooling import POOL, enrolled, servers_on
from tests.cloud.reserving import Reserving
from tests.cloud.stacking import Stacking

#: Modules and tests that run in one process, for what they share.
TOGETHER = {
    'tests/cloud/test_made_servers.py': 'zone',
    'tests/cloud/test_stack_room.py': 'zone',
    'tests/cloud/test_floatingips.py': 'addresses',
    'tests/cloud/test_networks.py': 'segments',
    'tests/cloud/test_calendar.py': 'pool',
    'tests/cloud/test_hosts.py': 'pool',
    'tests/cloud/test_hosts_choices.py': 'pool',
    'tests/cloud/test_hosts_moves.py': 'pool',
    'tests/cloud/test_hosts_reserved.py': 'pool',
    'tests/cloud/test_preemption.py': 'pool',
} | {
    f'tests/cloud/test_documents.py::test_page[{page}]': group
    for page, group in {
        'README': 'pool',
        'install/laptop': 'port 1234',
        'install/lease-service': 'port 1234',
        'user/calendar': 'pool',
        'user/clients/blazarclient': 'pool',
        'user/clients/climateclient': 'pool',
        'user/floatingips': 'addresses',
        'user/hosts': 'pool',
        'user/kinds': 'pool',
        'user/networks': 'segments',
        'user/quickstart': 'pool',
        'user/stacks-reference': 'addresses',
        'user/tutorials/course': 'pool',
        'user/tutorials/gpu-host': 'pool',
        'user/tutorials/maintenance': 'pool',
    }.items()
}


class Scheduling(LoadScopeScheduling):
    """Deals out test by test, but for those that stay together.

    The marks of xdist's own ``loadgroup`` (3.8.0) are lost with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition('::')[0]
        return TOGETHER.get(file) or TOGETHER.get(nodeid, nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope='session')
def admin() -> Person:
    """Return the cloud's administrator."""
    return Person(environment('admin'))


@pytest.fixture(scope='session')
def project() -> str:
    """Return the name of the project in which the tests of this process work."""
    return f'tests-{os.environ.get("PYTEST_XDIST_WORKER", "main")}'


@pytest.fixture(scope='session')
def member(admin: Person, project: str) -> Person:
    """Return an ordinary member of a project."""
    return member_of(admin, project)


@pytest.fixture(scope='session')
def stranger(admin: Person, project: str) -> Person:
    """Return an ordinary member of another project."""
    return member_of(admin, f'{project}-other')


@pytest.fixture
def colleague(member: Person, admin: Person) -> Iterator[Person]:
    """Another user of the member's project, for one test."""
    identity, name, password = admin.sdk.identity, f'user-{uuid.uuid4().hex[:8]}', uuid.uuid4().hex
    user = identity.create_user(name=name, password=password, domain_id='default')
    try:
        give_roles(admin, identity.find_project(member.sdk.current_project_id), user)
        yield Person({**member.environment, 'OS_USERNAME': name, 'OS_PASSWORD': password})
    finally:
        identity.delete_user(user)


@pytest.fixture
def image(member: Person) -> Iterator[str]:
    """Return an image of the member's that is full of bytes; its id."""
    made = member.sdk.image.create_image(
        f'image-{uuid.uuid4().hex[:8]}',
        data=os.urandom(IMAGE_BYTES),
        container_format='bare',
        disk_format='raw',
    )
    yield made.id
    member.sdk.image.delete_image(made.id)


@pytest.fixture
def bus() -> Iterator[Hearing]:
    """Return what Climate tells while the test runs."""
    # Climate's own user may declare no other queue.
    with hearing(environment('admin')['CLIMATE_CLOUD_TRANSPORT_URL']) as heard:
        yield heard


@pytest.fixture
def pool(admin: Person) -> tuple[str, ...]:
    """Return the names of the hosts of the pool, which are in use and empty."""
    for host in POOL:
        wait_for(
            lambda host=host: enrolled(admin)[host].reservable and not servers_on(admin, host),
            f'{host} empty',
        )
    return POOL


@pytest.fixture
def booking(member: Person) -> Iterator[Booking]:
    """Servers of the member; what is left of them afterwards is deleted."""
    booking = Booking(member)
    yield booking
    booking.clean()


@pytest.fixture
def volumes(member: Person, booking: Booking) -> Iterator[Reserving]:
    """Volumes of the member; servers of the same test go before what is left of them."""
    volumes = Reserving(member)
    yield volumes
    volumes.clean(booking.clean)


@pytest.fixture
def real(member: Person) -> Iterator[Reserving]:
    """Volumes on storage that keeps bytes; their backups go after them."""
    real = Reserving(member, 'ceph')
    yield real
    real.clean()


@pytest.fixture
def stacks(member: Person) -> Iterator[Stacking]:
    """Stacks of the member; what is left of them afterwards is deleted."""
    stacks = Stacking(member)
    yield stacks
    stacks.clean()


@pytest.fixture
def allocations(admin: Person) -> Callable[[str], dict[str, Any]]:
    """Return what Placement holds for a server: resource provider -> resources."""

    def look(server_id: str) -> dict[str, Any]:
        response = admin.sdk.placement.get(f'/allocations/{server_id}', microversion='1.28')
        return response.json()['allocations']

    return look
