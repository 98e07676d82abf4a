# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes whose own service says what they hold. There is no cloud to be asked."""

import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import webob

from climate_core.db import leases
from climate_core.db.engine import Database
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.functional.api import world

ID = '77777777-7777-4777-8777-777777777777'
USER = {'X-User-Id': 'owner', 'X-Project-Id': 'ours', 'X-Roles': 'member,reader'}
#: What keystonemiddleware finds in a good service token; it takes out what clients write.
NOVA = USER | {'X-Service-Roles': 'admin,service'}
SERVER = {
    'resource_type': 'virtual:instance',
    'resource_id': str(uuid.uuid4()),
    'amounts': {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0},
}
VOLUME = {
    'resource_type': 'virtual:volume',
    'resource_id': str(uuid.uuid4()),
    'amounts': {'volumes': 1, 'gigabytes': 7},
}
LEASE = {
    'id': ID,
    'name': 'ours',
    'start_date': '2099-01-01 10:00',
    'end_date': '2099-01-01 12:00',
}

Post = Callable[..., webob.Response]


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Database:
    return Database(world.configure(tmp_path))


@pytest.fixture
def post(tmp_path: pathlib.Path, database: Database) -> Iterator[Post]:
    conf = world.configure(tmp_path)
    for plugin in (ServerPlugin, VolumePlugin):
        conf.register_opts(plugin.options, group=plugin.resource_type)
    with world.running(conf, database, ServerPlugin, VolumePlugin) as application:

        def send(body: dict[str, Any], headers: dict[str, str], path: str = '') -> webob.Response:
            return world.ask(application, 'POST', f'/v1/leases{path}', body, headers)

        yield send


def test_a_service_is_believed(post: Post, database: Database) -> None:
    made = post(LEASE | {'reservations': [SERVER]}, NOVA)
    assert made.status_code == 201
    assert 'amounts' not in made.json['lease']['reservations'][0]
    joined = post(VOLUME, NOVA, f'/{ID}/reservations')
    assert joined.status_code == 201
    lease = database.read(leases.get, ID)
    held = {each.resource_id: each.amounts for each in lease.reservations}
    assert held == {each['resource_id']: each['amounts'] for each in (SERVER, VOLUME)}


def test_repeated_request_with_amounts_adds_nothing(post: Post, database: Database) -> None:
    """Its request is sent again when the answer was lost."""
    for _ in range(2):
        assert post(LEASE | {'reservations': [SERVER]}, NOVA).status_code == 201
    assert len(database.read(leases.get, ID).reservations) == 1


@pytest.mark.parametrize('headers', [USER, USER | {'X-Roles': 'member,service'}])
@pytest.mark.parametrize('item', [SERVER, VOLUME])
def test_amounts_of_a_user_who_is_no_service_are_refused(
    post: Post, database: Database, item: dict[str, Any], headers: dict[str, str]
) -> None:
    refused = post(LEASE | {'reservations': [item]}, headers)
    assert refused.status_code == 400
    assert database.read(leases.find, ID) is None
    assert post(LEASE, USER).status_code == 201
    joining = post(item, headers, f'/{ID}/reservations')
    assert joining.status_code == 400
    assert database.read(leases.get, ID).reservations == ()


def test_who_may_not_is_told_the_field(post: Post) -> None:
    refused = post(LEASE | {'reservations': [SERVER]}, USER)
    assert refused.status_code == 400
    assert refused.json['field'] == 'reservations[0].amounts'
    assert 'only a service that builds the resource' in refused.json['error_message']
    assert post(LEASE, USER).status_code == 201
    joining = post(SERVER, USER, f'/{ID}/reservations')
    assert (joining.status_code, joining.json['field']) == (400, 'amounts')


@pytest.mark.parametrize(
    ('amounts', 'field'),
    [
        ({'servers': -1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0}, 'servers'),
        ({'servers': 1, 'vcpus': '2', 'memory_mb': 512, 'disk_gb': 0}, 'vcpus'),
        ({'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 0, 'gpus': 1}, 'gpus'),
        ({'servers': 1, 'vcpus': 2, 'memory_mb': 512}, 'disk_gb'),
    ],
)
def test_wrong_amounts_are_refused_and_name_the_field(
    post: Post, database: Database, amounts: dict[str, Any], field: str
) -> None:
    refused = post(LEASE | {'reservations': [SERVER | {'amounts': amounts}]}, NOVA)
    assert refused.status_code == 400
    assert refused.json['field'] == f'reservations[0].amounts.{field}'
    assert database.read(leases.find, ID) is None
