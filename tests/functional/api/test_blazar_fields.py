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
#: What is asked for of each type, and what is answered beside that and the fields of them all.
WANTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    'physical:host': ({'min': 1, 'max': 1}, {'hypervisor_properties', 'before_end'}),
    'flavor:instance': ({'flavor_id': 'm1', 'amount': 1}, {'affinity'}),
    'virtual:instance': (
        {**SIZES, 'amount': 1, 'affinity': None},
        {'flavor_id', 'aggregate_id', 'server_group_id'},
    ),
}


@pytest.fixture
def application(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> Iterator[Any]:
    """Return an API with one host."""
    flavors.add(hosts_cloud.state, id='m1', vcpus=1, ram=512, disk=1)
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
