# SPDX-License-Identifier: Apache-2.0
"""What an operator changes in policy.yaml holds on every way to the same thing."""

import contextlib
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import webob

from climate_core.db.engine import Database
from tests.functional.api import world


@contextlib.contextmanager
def ruled(directory: pathlib.Path, *rules: str) -> Iterator[Any]:
    (directory / 'policy.yaml').write_text('\n'.join(rules))
    option = ('oslo_policy', 'policy_file', f'{directory}/policy.yaml')
    conf = world.configure(directory, option)
    with world.running(conf, Database(conf)) as application:
        yield application


def ask(
    application: Any,
    method: str,
    path: str,
    body: Any = None,
    roles: str = 'member,reader',
    **more: str,
) -> webob.Response:
    headers = {'X-User-Id': 'user', 'X-Project-Id': 'ours', 'X-Roles': roles, **more}
    return world.ask(application, method, path, body, headers)


def made(application: Any) -> dict[str, Any]:
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    values = {'name': 'n', 'start_date': '2060-01-01 00:00', 'duration': 60}
    response = ask(application, 'POST', '/v1/leases', {**values, 'reservations': [thing]})
    assert response.status_code == 201, response.text
    return dict(response.json['lease'])


def test_reservations_of_a_lease_are_changed_by_their_own_policy(tmp_path: pathlib.Path) -> None:
    with ruled(tmp_path, '"climate:reservations:update": "role:admin"') as application:
        lease = made(application)
        changes = [{'id': lease['reservations'][0]['id'], 'colour': 'red'}]
        path = f'/v1/leases/{lease["id"]}'
        refused = ask(application, 'PUT', path, {'name': 'm', 'reservations': changes})
        assert refused.status_code == 403
        assert 'climate:reservations:update' in refused.json['error_message']
        assert ask(application, 'GET', path).json['lease'] == lease
        assert ask(application, 'PUT', path, {'name': 'm'}).status_code == 200


def test_who_has_no_project_does_not_see_all(tmp_path: pathlib.Path) -> None:
    with ruled(tmp_path) as application:
        made(application)
        for noun in ('leases', 'usage'):
            response = ask(application, 'GET', f'/v1/{noun}', **{'X-Project-Id': ''})
            assert (response.status_code, response.json['error_name']) == (403, 'forbidden')


def test_who_sees_the_usage_of_all_sees_that_of_one(tmp_path: pathlib.Path) -> None:
    with ruled(tmp_path, '"climate:usage:get_all": "role:auditor"') as application:
        made(application)
        for path in ('/v1/usage', '/v1/usage?project_id=ours'):
            response = ask(
                application, 'GET', path, roles='auditor', **{'X-Project-Id': 'auditors'}
            )
            assert response.status_code == 200, response.text
            assert [each['project_id'] for each in response.json['usage']] == ['ours']
