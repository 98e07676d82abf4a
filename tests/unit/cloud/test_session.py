# SPDX-License-Identifier: Apache-2.0
"""What a session remembers, and what it takes of the environment."""

import pytest
import requests
from keystoneauth1.access import service_catalog

from climate_core import exceptions
from climate_core.cloud import Cloud, connections, errors, servers
from climate_core.cloud import volumes as cloud_volumes
from tests.support.fakes import cinder, keystone, nova

_VARIABLES = (
    'HTTP_PROXY',
    'HTTPS_PROXY',
    'ALL_PROXY',
    'NO_PROXY',
    'REQUESTS_CA_BUNDLE',
    'CURL_CA_BUNDLE',
    'NETRC',
)


@pytest.fixture
def looked_up(monkeypatch):
    """Return the types of the services that were looked up in a catalogue."""
    found = []
    real = service_catalog.ServiceCatalog.endpoint_data_for

    def noted(self, service_type=None, **kwargs):
        found.append(service_type)
        return real(self, service_type=service_type, **kwargs)

    monkeypatch.setattr(service_catalog.ServiceCatalog, 'endpoint_data_for', noted)
    return found


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Return an environment without settings for requests, with its home in tmp_path."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    return monkeypatch


def test_endpoint_is_looked_up_once_for_a_token(world, looked_up):
    server = nova.add(world.state)
    owner = world.cloud.owner(world.trust())
    servers.get(owner, server['id'])
    assert looked_up
    looked_up.clear()
    for _ in range(3):
        servers.get(owner, server['id'])
    assert looked_up == []


def test_services_of_one_session_have_an_endpoint_each(volumes):
    volume, server = cinder.add(volumes.state), nova.add(volumes.state)
    owner = volumes.cloud.owner(volumes.trust())
    for _ in range(2):
        assert cloud_volumes.get(owner, volume['id'])['id'] == volume['id']
        assert servers.get(owner, server['id'])['id'] == server['id']


def test_endpoint_of_a_new_token_is_that_of_its_catalogue(world, looked_up, monkeypatch):
    server = nova.add(world.state)
    conn = world.cloud.service()
    servers.get(conn, server['id'])
    real = keystone._catalogue

    def moved(base, project, state):
        entries = real(base, project, state)
        for each in entries:
            (endpoint,) = each['endpoints']
            endpoint['url'] = endpoint['url'].replace('/compute/v2.1', '/moved/v2.1')
        return entries

    monkeypatch.setattr(keystone, '_catalogue', moved)
    world.state.tokens.clear()
    # Its token is refused, and it is sent again with the new one.
    servers.get(conn, server['id'])
    with pytest.raises(errors.Gone):
        servers.get(conn, server['id'])
    assert world.state.requests[-1][1].startswith('/moved/v2.1/')


def test_service_that_is_not_in_the_catalogue_is_looked_up_again(volumes):
    volume = cinder.add(volumes.state)
    volumes.state.no_cinder = True
    service = Cloud(volumes.conf).service()
    for _ in range(2):
        assert not cloud_volumes.CINDER.is_offered(service)
    volumes.state.no_cinder = False
    service.session.invalidate()
    assert cloud_volumes.get(service, volume['id'])['id'] == volume['id']


def test_environment_without_settings_is_not_read_at_each_call(environment, world):
    read = []
    environment.setattr(requests.sessions, 'get_environ_proxies', lambda *a, **k: read.append(a))
    server = nova.add(world.state)
    conn = Cloud(world.conf).service()
    assert servers.get(conn, server['id'])['id'] == server['id']
    assert conn.session.session.trust_env is False
    assert read == []


@pytest.mark.parametrize(
    ('name', 'value'), [('https_proxy', 'http://proxy:3128'), ('NO_PROXY', 'keystone')]
)
def test_proxies_of_the_environment_are_used(environment, world, name, value):
    environment.setenv(name, value)
    assert connections.load_session(world.conf).session.trust_env is True


@pytest.mark.parametrize('variable', [None, 'NETRC'])
def test_passwords_in_the_home_are_used(environment, world, tmp_path, variable):
    file = tmp_path / ('.netrc' if variable is None else 'passwords')
    file.touch()
    if variable is not None:
        assert connections.load_session(world.conf).session.trust_env is False
        environment.setenv(variable, str(file))
    assert connections.load_session(world.conf).session.trust_env is True


@pytest.mark.parametrize('variable', ['REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'])
def test_certificates_of_the_environment_are_used(environment, world, tmp_path, variable):
    environment.setenv(variable, '/etc/bundle.pem')
    assert connections.load_session(world.conf).verify == '/etc/bundle.pem'
    assert Cloud(world.conf).service().session.verify == '/etc/bundle.pem'
    world.conf.set_override('cafile', '/etc/mine.pem', group='cloud')
    assert connections.load_session(world.conf).verify == '/etc/mine.pem'


def test_certificates_are_checked_without_a_setting(environment, world):
    assert connections.load_session(world.conf).verify is True


def test_setting_that_certificates_are_not_checked_is_kept(environment, world):
    environment.setenv('REQUESTS_CA_BUNDLE', '/etc/bundle.pem')
    world.conf.set_override('insecure', True, group='cloud')
    assert connections.load_session(world.conf).verify is False


def test_endpoint_without_a_version_waits_for_its_service(volumes, monkeypatch):
    """A service that starts after Climate; its URL in the catalogue has no version."""
    volume, real = cinder.add(volumes.state), keystone._catalogue

    def unversioned(base, project, state):
        entries = real(base, project, state)
        for entry in entries:
            for endpoint in entry['endpoints']:
                if entry['type'] in ('block-storage', 'volumev3'):
                    endpoint['url'] = 'http://127.0.0.1:1'
        return entries

    monkeypatch.setattr(keystone, '_catalogue', unversioned)
    conn = Cloud(volumes.conf).service()
    with pytest.raises(exceptions.Transient, match='Cinder cannot be reached'):
        cloud_volumes.get(conn, volume['id'])
    # What the catalogue has is not remembered as if it had been found.
    assert not conn.session._endpoints
