# SPDX-License-Identifier: Apache-2.0
"""A type of resource that only a test package knows: create, start and end over HTTP."""

import pytest

from climate_core import packages
from climate_core.api import app
from climate_core.db.engine import Database
from climate_core.service import ManagerService
from tests.functional.api import world
from tests.support.fakes import cloud_server, settings, share_plugin
from tests.support.fakes.share_plugin import manila


@pytest.fixture
def cloud(tmp_path):
    with cloud_server.running(tmp_path / 'journal') as server:
        manila.start(server)
        yield server


@pytest.fixture
def application(tmp_path, cloud, monkeypatch):
    share_plugin.install(monkeypatch)
    options = [('cloud', *option) for option in settings.cloud_options(cloud.url).items()]
    options.append(('manager', 'plugins', 'virtual:share'))
    conf = world.configure(tmp_path, *options)
    database = Database(conf)
    manager = ManagerService(conf, database=database, watch=False)
    manager.start()
    try:
        yield app.load_application(conf, database=database)
    finally:
        manager.stop()
        packages.list_packages.cache_clear()


@pytest.fixture
def headers(cloud):
    user = cloud.state.users['alice-id']
    token = cloud.state.token(user, user['project_id'], user['roles'], None)
    return {
        'X-Auth-Token': token,
        'X-User-Id': user['id'],
        'X-Project-Id': user['project_id'],
        'X-Roles': ','.join(user['roles']),
    }


def test_share_is_exported_from_the_start_to_the_end_of_its_lease(application, cloud, headers):
    listed = world.ask(application, 'GET', '/v1/plugins', headers=headers, status=200).json
    assert [plugin['resource_type'] for plugin in listed['plugins']] == ['virtual:share']
    share = manila.add(cloud.state, size=3)
    wanted = {'resource_type': 'virtual:share', 'resource_id': share['id'], 'on_end': 'delete'}
    body = {'name': 'share', 'duration': '1h', 'reservations': [wanted]}
    created = world.ask(application, 'POST', '/v1/leases', body, headers, 201).json['lease']
    world.wait_for_lease(application, created['id'], lambda it: it['status'] == 'ACTIVE', headers)
    assert share['rules'][0]['access_to'] == '0.0.0.0/0'
    path = f'/v1/leases/{created["id"]}'
    world.ask(application, 'PUT', path, {'end_date': 'now'}, headers, 200)
    world.wait_for_lease(
        application, created['id'], lambda it: it['status'] == 'TERMINATED', headers
    )
    assert share['id'] not in cloud.state.shares


def test_share_of_another_project_is_not_found(application, cloud, headers):
    share = manila.add(cloud.state, project_id='other-id')
    wanted = {'resource_type': 'virtual:share', 'resource_id': share['id']}
    body = {'name': 'share', 'duration': '1h', 'reservations': [wanted]}
    answer = world.ask(application, 'POST', '/v1/leases', body, headers, 400).json
    assert answer['field'] == 'reservations[0].resource_id'
