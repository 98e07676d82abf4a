# SPDX-License-Identifier: Apache-2.0
"""The local cloud, as its users see it.

It must be up: ``CLIMATE_CLOUD_CEPH=1 devstack/local/cloud up``.
"""

import configparser
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import openstack
import pytest
from openstack import utils

from climateclient.client import Client
from tests.cloud.hearing import Hearing, hearing

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLOUD = ROOT / 'devstack' / 'local' / 'cloud'
#: Size of the image that is full of bytes.
IMAGE_BYTES = 4 * 2**20
STATE = pathlib.Path(os.environ.get('CLIMATE_CLOUD_DIR', ROOT / '.cloud'))


def cloud(*arguments: str, check: bool = True) -> str:
    """Run the local cloud's command and return what it printed."""
    done = subprocess.run([CLOUD, *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for(look: Callable[[], Any], what: str, seconds: int = 300) -> Any:
    """Look until there is something, and return it; fail with ``what`` when it never comes."""
    for _ in utils.iterate_timeout(seconds, f'never seen: {what}', wait=0.5):
        found = look()
        if found:
            return found
    raise AssertionError('unreachable')


def environment(user: str) -> dict[str, str]:
    """The variables that ``cloud env`` prints for a user."""
    variables = {}
    for line in cloud('env', user).splitlines():
        words = shlex.split(line)
        if words and words[0] == 'export':
            name, _, value = words[1].partition('=')
            variables[name] = value
    return variables


class Person:
    """Somebody with credentials on the cloud: ``sdk``, ``client`` and its ``leases``.

    :param user: one of the cloud's
    :param others: variables of somebody else in the same project
    """

    def __init__(self, user: str, **others: str) -> None:
        self.environment = {**environment(user), **others}
        auth = {
            key.removeprefix('OS_').lower(): value
            for key, value in self.environment.items()
            if key
            in (
                'OS_AUTH_URL',
                'OS_USERNAME',
                'OS_PASSWORD',
                'OS_PROJECT_NAME',
                'OS_USER_DOMAIN_NAME',
                'OS_PROJECT_DOMAIN_NAME',
            )
        }
        region = self.environment.get('OS_REGION_NAME')
        self.sdk = openstack.connect(
            load_envvars=False,
            load_yaml_config=False,
            auth=auth,
            region_name=region,
            compute_default_microversion='2.96',
        )
        self.client = Client(self.sdk.session, region_name=region)
        self.leases = self.client.leases

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command line client as this person."""
        return subprocess.run(
            arguments,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope='session')
def member() -> Person:
    """An ordinary member of the project ``demo``."""
    return Person('demo')


@pytest.fixture(scope='session')
def stranger() -> Person:
    """An ordinary member of another project."""
    return Person('alt')


@pytest.fixture
def colleague(member: Person, admin: Person) -> Iterator[Person]:
    """Another member of the project ``demo``, for one test."""
    identity, name, password = admin.sdk.identity, f'user-{uuid.uuid4().hex[:8]}', uuid.uuid4().hex
    project = identity.find_project(member.sdk.current_project_id)
    user = identity.create_user(name=name, password=password, domain_id='default')
    try:
        for role in ('member', 'heat_stack_owner'):
            identity.assign_project_role_to_user(project, user, identity.find_role(role))
        yield Person('demo', OS_USERNAME=name, OS_PASSWORD=password)
    finally:
        identity.delete_user(user)


@pytest.fixture(scope='session')
def admin() -> Person:
    """The cloud's administrator."""
    return Person('admin')


@pytest.fixture
def image(member: Person) -> Iterator[str]:
    """An image of the member's that is full of bytes; its id."""
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
    """What Climate tells while the test runs."""
    conf = configparser.ConfigParser(interpolation=None)
    conf.read(STATE / 'etc' / 'climate' / 'climate.conf')
    with hearing(conf['DEFAULT']['transport_url']) as heard:
        yield heard


def at(**delta: float) -> str:
    """A time from now as a hint says it, in UTC with an offset."""
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**delta)
    return when.isoformat(timespec='seconds')


class Booking:
    """Boots reserved servers as one person, and cleans up after a test."""

    def __init__(self, person: Person) -> None:
        self.person = person
        compute = person.sdk.compute
        self.flavor = compute.find_flavor('m1.tiny', ignore_missing=False)
        self.image = person.sdk.image.find_image('cirros', ignore_missing=False)
        self.network = person.sdk.network.find_network('shared', ignore_missing=False)
        self.names: list[str] = []

    def post(self, hints: dict[str, Any], **server: Any) -> Any:
        """POST /servers with hints, just as a client sends it; return the response."""
        name = f'test-{uuid.uuid4().hex[:8]}'
        self.names.append(name)
        body = {
            'server': {
                'name': name,
                'flavorRef': self.flavor.id,
                'imageRef': self.image.id,
                'networks': [{'uuid': self.network.id}],
                **server,
            },
            'os:scheduler_hints': hints,
        }
        return self.person.sdk.compute.post('/servers', json=body, microversion='2.96')

    def reserve(self, hints: dict[str, Any] | None = None, **params: Any) -> Any:
        """Boot a reserved server and wait until it is RESERVED (or awake already)."""
        params = {'name': f'lease-{uuid.uuid4().hex[:8]}', 'end': at(hours=3), **params}
        hints = hints or {'reserved': 'True', 'lease_params': json.dumps(params)}
        response = self.post(hints)
        assert response.status_code == 202, response.text
        server_id = response.json()['server']['id']
        return self.wait(server_id, 'RESERVED', 'ACTIVE')

    def wait(self, server_id: str, *statuses: str) -> Any:
        """Wait until a server has one of these states; an ERROR nobody waits for fails."""

        def look() -> Any:
            server = self.person.sdk.compute.get_server(server_id)
            if server.status == 'ERROR' and 'ERROR' not in statuses:
                raise AssertionError(f'{server.name} is in ERROR: {server.fault}')
            return server if server.status in statuses else None

        return wait_for(look, f'server {server_id} in {statuses}')

    def wait_gone(self, server_id: str) -> None:
        """Wait until a server is gone."""
        compute = self.person.sdk.compute
        wait_for(
            lambda: compute.find_server(server_id, ignore_missing=True) is None,
            f'server {server_id} gone',
        )

    def lease_of(self, server_id: str) -> Any:
        """The lease that reserves a server, or None."""
        for lease in self.person.leases.list():
            if any(r.resource_id == server_id for r in lease.reservations):
                return lease
        return None

    def wait_lease(self, lease_id: str, *statuses: str) -> Any:
        """Wait until a lease has one of these states."""

        def look() -> Any:
            lease = self.person.leases.get(lease_id)
            return lease if lease.status in statuses else None

        return wait_for(look, f'lease {lease_id} in {statuses}')

    def clean(self) -> None:
        """Delete what the test booted, with its leases."""
        compute = self.person.sdk.compute
        servers = [
            s for s in compute.servers(details=False) if s.name.startswith(tuple(self.names))
        ]
        for server in servers if self.names else ():
            lease = self.lease_of(server.id)
            if lease:
                self.person.leases.delete(lease.id, ignore_missing=True)
            compute.delete_server(server.id, ignore_missing=True)
        for server in servers if self.names else ():
            self.wait_gone(server.id)


@pytest.fixture
def booking(member: Person) -> Iterator[Booking]:
    """Boots as the member; what is left of it afterwards is deleted."""
    booking = Booking(member)
    yield booking
    booking.clean()


@pytest.fixture
def allocations(admin: Person) -> Callable[[str], dict[str, Any]]:
    """What Placement holds for a server."""

    def look(server_id: str) -> dict[str, Any]:
        response = admin.sdk.placement.get(f'/allocations/{server_id}', microversion='1.28')
        return response.json()['allocations']

    return look
