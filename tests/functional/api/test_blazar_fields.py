# SPDX-License-Identifier: Apache-2.0
"""All fields that Blazar 18 answers about hosts, and about leases of them, are there.

But ``trust_id``: the trust of a lease is the service's own, and shown to nobody.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db.engine import Database
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.support.fakes import cloud_server, flavors

ADMIN = {'X-Roles': 'admin,member,reader'}
TIMES = {'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
STAMPS = {'created_at', 'updated_at'}
HOST = {
    *('id', 'vcpus', 'cpu_info', 'hypervisor_type', 'hypervisor_version', 'hypervisor_hostname'),
    *('service_name', 'memory_mb', 'local_gb', 'status', 'availability_zone', 'reservable'),
    *('gpu', *STAMPS),
}
LEASE = {
    *('id', 'name', 'user_id', 'project_id', 'start_date', 'end_date', 'status', 'degraded'),
    *('reservations', 'events', *STAMPS),
}
EVENT = {'id', 'lease_id', 'event_type', 'time', 'status', *STAMPS}
RESERVATION = {
    *('id', 'lease_id', 'resource_id', 'resource_type', 'status', 'missing_resources'),
    *('resources_changed', 'resource_properties', *STAMPS),
}
SIZES = {'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}
#: What Blazar creates in Nova.
CREATED = {'flavor_id', 'aggregate_id', 'server_group_id'}
#: What is asked for of each type, and what is answered beside that and the fields of them all.
WANTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    'physical:host': ({'min': 1, 'max': 1}, {'hypervisor_properties', 'before_end'}),
    'flavor:instance': ({'flavor_id': 'm1', 'amount': 1}, {'affinity', *SIZES, *CREATED}),
    'virtual:instance': ({**SIZES, 'amount': 1, 'affinity': None}, CREATED),
}


@pytest.fixture
def application(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> Iterator[Any]:
    """Return an API with one host."""
    for flavor_id in ('m1', '3'):
        flavors.add(hosts_cloud.state, id=flavor_id, vcpus=1, ram=512, disk=1)
    conf: cfg.ConfigOpts = world.configure_hosts(tmp_path, hosts_cloud.url)
    plugins = (HostPlugin, CapacityPlugin, SizesPlugin)
    for plugin in plugins[1:]:
        conf.register_opts(plugin.options, group=plugin.resource_type)
    database = Database(conf)
    with world.running(conf, database, *plugins) as made:
        world.ask(made, 'POST', '/v1/os-hosts', {'name': 'cn1', 'gpu': 'True'}, ADMIN, 201)
        yield made
    database.dispose()


def test_hosts_and_their_properties(application: Any) -> None:
    def get(path: str) -> Any:
        return world.ask(application, 'GET', f'/v1/os-hosts{path}', None, ADMIN, 200).json

    for shown in (get('/1')['host'], *get('')['hosts']):
        assert shown.keys() >= HOST
    assert get('/properties')['resource_properties'] == [{'property': 'gpu'}]
    (one,) = get('/properties?detail=True')['resource_properties']
    assert one == {'property': 'gpu', 'private': False, 'values': ['True']}


@pytest.mark.parametrize('kind', WANTED)
def test_leases_and_what_hosts_are_promised_to(application: Any, kind: str) -> None:
    asked, more = WANTED[kind]
    body = {'name': 'l1', **TIMES, 'reservations': [{'resource_type': kind, **asked}]}
    made = world.ask(application, 'POST', '/v1/leases', {**body, 'events': []}, status=201)
    lease = made.json['lease']
    (reservation,) = lease['reservations']
    assert lease.keys() >= LEASE
    assert all(each.keys() >= EVENT for each in lease['events'])
    assert RESERVATION | asked.keys() | more <= reservation.keys()
    assert reservation['resource_type'] == kind
    found = world.ask(application, 'GET', '/v1/os-hosts/allocations', None, ADMIN, 200).json
    (promised,) = found['allocations'][0]['reservations']
    assert found['allocations'][0]['resource_id'] == '1'
    assert (promised['id'], promised['lease_id']) == (reservation['id'], lease['id'])
    assert {'start_date', 'end_date'} <= promised.keys()


def create(application: Any, status: int = 201, **values: Any) -> Any:
    body = {'name': 'l1', **TIMES, 'reservations': [values], 'events': []}
    return world.ask(application, 'POST', '/v1/leases', body, status=status).json


@pytest.mark.parametrize(
    ('sent', 'shown'),
    [
        ({'resource_type': 'physical:host', 'min': '1', 'max': '01'}, {'min': 1, 'max': 1}),
        ({'resource_type': 'flavor:instance', 'flavor_id': 3, 'amount': '2'}, {'amount': 2}),
        (
            {
                'resource_type': 'virtual:instance',
                'amount': '2',
                'affinity': 'None',
                **{name: str(size) for name, size in SIZES.items()},
            },
            {**SIZES, 'amount': 2},
        ),
    ],
    ids=WANTED,
)
def test_numbers_as_texts_and_texts_as_numbers(
    application: Any, sent: dict[str, Any], shown: dict[str, Any]
) -> None:
    (made,) = create(application, **sent)['lease']['reservations']
    assert shown.items() <= made.items()


@pytest.mark.parametrize('amount', ['', 'x', '1.5', '+1', ' 1', '１', '0', True, '1' * 19])
def test_text_that_is_no_integer_is_rejected(application: Any, amount: Any) -> None:
    asked = {'resource_type': 'flavor:instance', 'flavor_id': 'm1', 'amount': amount}
    assert create(application, 400, **asked)['field'] == 'reservations[0].amount'


def test_sizes_as_warre_sends_them(application: Any) -> None:
    sent = {
        'resource_type': 'virtual:instance',
        **SIZES,
        'ephemeral_gb': 1,
        'amount': 2,
        'affinity': None,
        'extra_specs': {},
        'resource_properties': None,
    }
    (made,) = create(application, **sent)['lease']['reservations']
    assert made['flavor_id'] == made['id']
    assert (made['ephemeral_gb'], made['extra_specs'], made['affinity']) == (1, {}, None)


@pytest.mark.parametrize(
    ('sent', 'stored'),
    [
        *((each, None) for each in ('', 'none', 'None', None)),
        *((each, True) for each in ('true', 'True', True)),
        *((each, False) for each in ('false', 'False', False)),
    ],
)
@pytest.mark.parametrize('kind', ['flavor:instance', 'virtual:instance'])
def test_affinity_as_text(application: Any, kind: str, sent: Any, stored: bool | None) -> None:
    asked = {'resource_type': kind, **WANTED[kind][0], 'affinity': sent}
    (made,) = create(application, **asked)['lease']['reservations']
    assert made['affinity'] is stored


@pytest.mark.parametrize('on_start', ['', 'default', None])
def test_start_action_of_chameleon_is_accepted_if_it_is_none(
    application: Any, on_start: Any
) -> None:
    asked = {'resource_type': 'physical:host', 'min': 1, 'on_start': on_start}
    (made,) = create(application, **asked)['lease']['reservations']
    assert 'on_start' not in made


def test_start_action_of_chameleon_is_rejected(application: Any) -> None:
    asked = {'resource_type': 'physical:host', 'min': 1, 'on_start': 'orchestration:x'}
    assert create(application, 400, **asked)['field'] == 'reservations[0].on_start'


@pytest.mark.parametrize('kind', WANTED)
def test_lease_that_was_read_can_be_sent_back(application: Any, kind: str) -> None:
    lease = create(application, resource_type=kind, **WANTED[kind][0])['lease']
    path = f'/v1/leases/{lease["id"]}'
    changed = {**lease, 'name': 'l2', 'end_date': '2099-01-01 13:00'}
    shown = world.ask(application, 'PUT', path, changed, status=200).json['lease']
    assert (shown['name'], shown['end_date']) == ('l2', '2099-01-01T13:00:00.000000')
    again = world.ask(application, 'PUT', path, shown, status=200).json['lease']
    assert again == shown
    (reservation,) = shown['reservations']
    one = f'{path}/reservations/{reservation["id"]}'
    sent = world.ask(application, 'PUT', one, reservation, status=200).json['reservation']
    assert sent == reservation


@pytest.mark.parametrize(
    ('change', 'field'),
    [
        ({'project_id': 'other'}, 'project_id'),
        ({'status': 'ACTIVE'}, 'status'),
        ({'created_at': '2001-01-01 00:00:00'}, 'created_at'),
        ({'trust_id': 'x'}, 'trust_id'),
    ],
)
def test_what_the_service_sets_cannot_be_changed(
    application: Any, change: dict[str, str], field: str
) -> None:
    lease = create(application, resource_type='physical:host', min=1, max=1)['lease']
    path, (reservation,) = f'/v1/leases/{lease["id"]}', lease['reservations']
    rejected = world.ask(application, 'PUT', path, {**lease, **change}, status=400).json
    assert rejected['field'] == field
    listed = {'reservations': [{**reservation, 'status': 'active'}]}
    rejected = world.ask(application, 'PUT', path, listed, status=400).json
    assert rejected['field'] == 'reservations[0].status'
    listed = {'events': [{**lease['events'][0], 'time': '2099-01-01 10:30'}]}
    rejected = world.ask(application, 'PUT', path, listed, status=400).json
    assert rejected['field'].startswith('events[0].')


@pytest.mark.parametrize('nested', [False, True])
def test_host_that_was_read_can_be_sent_back(application: Any, nested: bool) -> None:
    host = world.ask(application, 'GET', '/v1/os-hosts/1', None, ADMIN, 200).json['host']
    changed = {**host, 'gpu': 'False'}
    body = {'values': changed} if nested else changed
    shown = world.ask(application, 'PUT', '/v1/os-hosts/1', body, ADMIN, 200).json['host']
    assert shown == {**changed, 'updated_at': shown['updated_at']}
    body['vcpus'] = 99
    rejected = world.ask(application, 'PUT', '/v1/os-hosts/1', body, ADMIN, 400).json
    assert rejected['field'] == 'vcpus'
