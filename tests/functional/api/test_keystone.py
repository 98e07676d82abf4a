# SPDX-License-Identifier: Apache-2.0
"""With ``auth_strategy = keystone``: real keystonemiddleware, Keystone's answers replayed."""

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import requests_mock
import webob
from keystoneauth1 import fixture as tokens
from oslo_config import cfg

from climate_core.db import leases
from climate_core.db.engine import Database
from tests.functional.api import world

URL = 'http://keystone.example.org/v3'
OPTIONS = {
    'auth_type': 'password',
    'auth_url': URL,
    'username': 'climate',
    'password': 'secret',
    'user_domain_id': 'default',
    'project_name': 'service',
    'project_domain_id': 'default',
    'www_authenticate_uri': 'http://keystone.example.org',
    'memcached_servers': '',
    'http_request_max_retries': 0,
}


@pytest.fixture
def keystone() -> Iterator[requests_mock.Mocker]:
    with requests_mock.Mocker() as mock:
        mock.get(URL, json={'version': tokens.V3Discovery(URL)})
        service = tokens.V3Token(project_id='service')
        service.add_service('identity').add_standard_endpoints(public=URL, admin=URL, internal=URL)
        mock.post(f'{URL}/auth/tokens', json=service, headers={'X-Subject-Token': 'own'})
        mock.get(f'{URL}/auth/tokens', status_code=404)
        yield mock


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    options = [('keystone_authtoken', name, str(value)) for name, value in OPTIONS.items()]
    return world.configure(tmp_path, ('api', 'auth_strategy', 'keystone'), *options)


@pytest.fixture
def database(conf: cfg.ConfigOpts) -> Database:
    return Database(conf)


@pytest.fixture
def application(
    keystone: requests_mock.Mocker, conf: cfg.ConfigOpts, database: Database
) -> Iterator[Any]:
    with world.running(conf, database) as made:
        yield made


def accept(keystone: requests_mock.Mocker, **more: Any) -> None:
    """Let Keystone answer for any token.

    :param more: what it says of the token beside the usual
    """
    token = tokens.V3Token(user_id='alice', project_id='ours')
    token['token'].update(more)
    for role in ('member', 'reader'):
        token.add_role(name=role)
    keystone.get(f'{URL}/auth/tokens', json=token)


def ask(application: Any, path: str, token: str | None = 'token') -> webob.Response:
    return world.ask(application, 'GET', path, headers={'X-Auth-Token': token} if token else {})


def test_request_without_a_token_is_unauthorized(application: Any) -> None:
    response = ask(application, '/v1/leases', None)
    assert response.status_code == 401
    assert response.json['error_code'] == 401
    assert response.json['error_name'] == 'unauthorized'
    assert 'keystone.example.org' in response.headers['WWW-Authenticate']
    assert response.headers['x-openstack-request-id'].startswith('req-')


def test_with_a_bad_token(application: Any) -> None:
    assert ask(application, '/v1/leases').json['error_name'] == 'unauthorized'


@pytest.mark.parametrize(('path', 'status'), [('/', 300), ('/v1', 200), ('/healthcheck', 200)])
def test_public_paths_are_answered_without_asking_keystone(
    application: Any, keystone: requests_mock.Mocker, path: str, status: int
) -> None:
    before = keystone.call_count
    assert ask(application, path, None).status_code == status
    assert ask(application, path).status_code == status
    assert keystone.call_count == before


def test_request_with_a_token_is_answered(
    application: Any, keystone: requests_mock.Mocker
) -> None:
    accept(keystone)
    response = ask(application, '/v1/leases')
    assert response.status_code == 200
    assert response.json == {'leases': []}


def test_headers_of_the_user_are_not_believed(
    application: Any, keystone: requests_mock.Mocker
) -> None:
    accept(keystone)
    lied = {'X-Project-Id': 'theirs', 'X-Roles': 'admin', 'X-User-Id': 'bob'}
    body = {'name': 'mine', 'end_date': '2099-01-01 10:00'}
    headers = {'X-Auth-Token': 'token', **lied}
    lease = world.ask(application, 'POST', '/v1/leases', body, headers).json['lease']
    assert (lease['project_id'], lease['user_id']) == ('ours', 'alice')


def create(application: Any, token: str) -> str:
    """Create a lease; return its id."""
    body = {'name': 'mine', 'end_date': '2099-01-01 10:00'}
    headers = {'X-Auth-Token': token}
    made = world.ask(application, 'POST', '/v1/leases', body, headers, status=201)
    return str(made.json['lease']['id'])


def trusts(database: Database, ids: Iterable[str]) -> set[str | None]:
    """Return the trusts that leases have."""
    return {database.read(leases.get, each).trust_id for each in ids}


def test_leases_of_a_users_own_token_share_a_trust(
    application: Any, keystone: requests_mock.Mocker, database: Database
) -> None:
    accept(keystone, methods=['password'])
    own = [create(application, token) for token in ('one', 'two')]
    assert len(trusts(database, own)) == 1


@pytest.mark.parametrize(
    'delegated',
    [
        {'methods': ['application_credential'], 'application_credential': {'id': 'a'}},
        {'methods': ['password'], 'OS-TRUST:trust': {'id': 't'}},
        {'methods': ['oauth1'], 'OS-OAUTH1': {'access_token_id': 'a'}},
    ],
)
def test_lease_of_a_delegated_token_has_a_trust_of_its_own(
    application: Any,
    keystone: requests_mock.Mocker,
    database: Database,
    delegated: dict[str, Any],
) -> None:
    accept(keystone, methods=['password'])
    own = create(application, 'own')
    accept(keystone, **delegated)
    others = [create(application, token) for token in ('one', 'two')]
    assert len(trusts(database, [own, *others])) == 3


def test_request_while_keystone_is_away_is_unavailable(
    application: Any, keystone: requests_mock.Mocker
) -> None:
    keystone.get(f'{URL}/auth/tokens', status_code=503)
    response = ask(application, '/v1/leases')
    assert response.status_code == 503
    assert response.json['error_name'] == 'service_unavailable'
