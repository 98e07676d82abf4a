# SPDX-License-Identifier: Apache-2.0
"""The external service is called as coral-credits reads requests, and its denial is shown."""

import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core.db.engine import Database
from climate_core.plugins.server import ServerPlugin
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.support.coral_credits import TOKEN, CoralCredits
from tests.support.fakes import cloud_server, flavors, serving, settings

LEASE = {'name': 'l1', 'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
USER = {'X-User-Id': uuid.uuid4().hex, 'X-Project-Id': uuid.uuid4().hex}
#: What keystonemiddleware finds in a valid token of Nova.
NOVA = {**USER, 'X-Service-Roles': 'admin,service'}
ADMIN = {'X-Roles': 'admin,member,reader'}
HOST = {'resource_type': 'physical:host', 'min': 1, 'max': 2}
FLAVOR = {'resource_type': 'flavor:instance', 'flavor_id': 'm1', 'amount': 2, 'affinity': True}
SIZES = {'resource_type': 'virtual:instance', 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}
SERVER = {
    'resource_type': 'virtual:instance',
    'resource_id': str(uuid.uuid4()),
    'amounts': {'servers': 1, 'vcpus': 2, 'memory_mb': 1024, 'disk_gb': 0},
}
#: Each type -> the request, its resource classes, and the number of its allocations.
WANTED: dict[str, tuple[Any, dict[str, int], int]] = {
    'hosts': (HOST, {'VCPU': 128, 'MEMORY_MB': 524_288, 'DISK_GB': 4000}, 2),
    'flavor': (FLAVOR, {'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 2}, 2),
    'sizes': ({**SIZES, 'amount': 1}, {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}, 1),
    'server': (SERVER, {'VCPU': 2, 'MEMORY_MB': 1024}, 0),
}

Ask = Callable[..., Any]


@pytest.fixture
def coral() -> Iterator[CoralCredits]:
    with serving.running(CoralCredits()) as server:
        yield server
        assert server.invalid == []


@pytest.fixture
def ask(
    tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server, coral: CoralCredits
) -> Iterator[Ask]:
    """Return what sends requests to an API with two hosts, whose manager asks the service."""
    flavors.add(hosts_cloud.state, id='m1', vcpus=1, ram=512, disk=1)
    options = [('cloud', *each) for each in settings.cloud_options(hosts_cloud.url).items()]
    external = {'endpoint': f'{coral.base}/consumer', 'bearer_token': TOKEN}
    external |= {name: f'{coral.base}/consumer/{name}' for name in ('create', 'update')}
    options += [('limits', f'external_{name}', value) for name, value in external.items()]
    conf = world.configure(tmp_path, *options)
    plugins = (HostPlugin, CapacityPlugin, SizesPlugin, ServerPlugin)
    for plugin in plugins:
        conf.register_opts(plugin.options, group=plugin.resource_type)
    database = Database(conf)
    with world.running(conf, database, *plugins) as application:

        def send(
            method: str, path: str, body: Any = None, status: int = 200, **headers: str
        ) -> Any:
            return world.ask(application, method, f'/v1{path}', body, {**USER, **headers}, status)

        for name in ('cn1', 'cn2'):
            send('POST', '/os-hosts', {'name': name}, 201, **ADMIN)
        yield send
    database.dispose()


@pytest.mark.parametrize('kind', WANTED)
def test_service_reads_a_lease_of_each_type(ask: Ask, coral: CoralCredits, kind: str) -> None:
    wanted, classes, count = WANTED[kind]
    body = {**LEASE, 'reservations': [wanted]}
    lease = ask('POST', '/leases', body, 201, **NOVA).json['lease']
    ask('PUT', f'/leases/{lease["id"]}', {'end_date': '2099-01-01 13:00'})
    ask('POST', f'/leases/{lease["id"]}/end', None, 202)
    paths, bodies = zip(*coral.wait(5), strict=True)
    assert paths == ('check-create', 'create', 'check-update', 'update', 'on-end')
    *sent, last = (each['lease'] for each in bodies)
    assert {each['id'] for each in (*sent, last, bodies[2]['current_lease'])} == {lease['id']}
    assert [each['end_date'][11:] for each in sent] == ['12:00:00'] * 2 + ['13:00:00'] * 2
    assert [each['resource_requests'] for each in sent] == [classes] * 4
    assert bodies[0]['context']['project_id'] == USER['X-Project-Id']
    for each in sent:
        (reservation,) = each['reservations']
        names = [allocation['hypervisor_hostname'] for allocation in reservation['allocations']]
        assert len(names) == count
        assert {'cn1', 'cn2'}.issuperset(names)
    # What the service has recorded of the lease must have its classes at the end, too.
    assert last['resource_requests'].keys() == classes.keys()
    assert last['reservations'][0]['allocations'] == []


def test_denial_is_shown_and_leaves_nothing(ask: Ask, coral: CoralCredits) -> None:
    coral.denial = {'error': 'Insufficient VCPU credits available.'}
    body = {**LEASE, 'reservations': [HOST]}
    rejected = ask('POST', '/leases', body, 403).json
    assert rejected['error_message'] == 'Insufficient VCPU credits available.'
    assert rejected['error_name'] == 'lease.not_permitted'
    tried = ask('POST', '/leases?dry_run=true', body, 200).json['dry_run']
    assert (tried['granted'], tried['refusals']) == (False, [rejected])
    assert ask('GET', '/leases').json['leases'] == []
    for allocation in ask('GET', '/os-hosts/allocations', **ADMIN).json['allocations']:
        assert allocation['reservations'] == []


def test_lease_without_capacity_is_not_sent(ask: Ask, coral: CoralCredits) -> None:
    body = {**LEASE, 'reservations': [{**HOST, 'min': 3, 'max': 3}]}
    rejected = ask('POST', '/leases', body, 409).json
    tried = ask('POST', '/leases?dry_run=true', body, 200).json['dry_run']
    assert [each['error_name'] for each in (rejected, *tried['refusals'])] == [
        'calendar.not_enough'
    ] * 2
    assert coral.requests == []


def test_denial_of_a_change_is_shown_and_changes_nothing(ask: Ask, coral: CoralCredits) -> None:
    lease = ask('POST', '/leases', {**LEASE, 'reservations': [HOST]}, 201).json['lease']
    coral.denial = {'message': 'No credits.'}
    path = f'/leases/{lease["id"]}'
    rejected = ask('PUT', path, {'end_date': '2099-01-01 13:00'}, 403).json
    assert rejected['error_message'] == 'No credits.'
    assert ask('GET', path).json['lease'] == lease


def test_commit_that_fails_leaves_the_lease(ask: Ask, coral: CoralCredits) -> None:
    coral.fail_commits = True
    lease = ask('POST', '/leases', {**LEASE, 'reservations': [HOST]}, 201).json['lease']
    path = f'/leases/{lease["id"]}'
    changed = ask('PUT', path, {'end_date': '2099-01-01 13:00'}).json['lease']
    assert ask('GET', path).json['lease'] == changed
    ask('PUT', path, {'name': 'l2'})
    paths = [name for name, _ in coral.requests]
    assert paths == ['check-create', 'create', 'check-update', 'update']


def test_invalid_answer_is_not_shown(ask: Ask, coral: CoralCredits) -> None:
    coral.denial = ['<script>']
    assert '<' not in ask('POST', '/leases', LEASE, 503).json['error_message']
    assert ask('GET', '/leases').json['leases'] == []
