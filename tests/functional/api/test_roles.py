# SPDX-License-Identifier: Apache-2.0
"""Who may do what: every call of the route table, for every role, with a lease of a project."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import webob

from climate_core.api import routes
from climate_core.db.engine import Database
from tests.functional.api import world

#: Project and roles of who asks. The lease is of the project ``ours``.
WHO = {
    'reader': ('ours', 'reader'),
    'member': ('ours', 'member,reader'),
    'manager': ('ours', 'manager,member,reader'),
    'admin': ('operators', 'admin,manager,member,reader'),
    # Services of the cloud send the token of a user besides.
    'service': ('services', 'service'),
    'nobody': ('ours', 'other'),
    'stranger': ('theirs', 'manager,member,reader'),
}
NAME = 'what only we know'

Row = tuple[Mapping[str, Any] | None, Mapping[str, int]]


def row(body: Mapping[str, Any] | None, *statuses: int) -> Row:
    """Hold what is sent, and what each of :data:`WHO` is answered."""
    return body, dict(zip(WHO, statuses, strict=True))


LEASE = '/v1/leases/{lease_id}'
RESERVATION = f'{LEASE}/reservations/{{reservation_id}}'
#: There is none.
HOST = '/v1/os-hosts/{host_id}'
POOL = '/v1/os-hosts/pools/{pool_name}'
PROPERTY = '/v1/os-hosts/properties/{property_name}'
FLOATING_IP = '/v1/floatingips/{floatingip_id}'
FEED = '/v1/feeds/{feed_id}'
NETWORK = '/v1/networks/{network_id}'
NETWORK_PROPERTY = '/v1/networks/properties/{property_name}'
THING = {'resource_type': 'test:thing', 'resource_id': 'aaaaaaaa-0000-4000-8000-00000000000a'}
#:                          reader member manager admin service nobody stranger
MATRIX: dict[tuple[str, str], Row] = {
    ('GET', '/'): row(None, 300, 300, 300, 300, 300, 300, 300),
    ('GET', '/v1'): row(None, 200, 200, 200, 200, 200, 200, 200),
    ('GET', '/v1/openapi.json'): row(None, 200, 200, 200, 200, 200, 200, 200),
    ('GET', '/v1/plugins'): row(None, 200, 200, 200, 200, 200, 200, 200),
    ('GET', '/v1/os-hosts'): row(None, 200, 200, 200, 200, 200, 200, 200),
    # No property of a host may be called so.
    ('POST', '/v1/os-hosts'): row({'name': 'n', 'vcpus': 1}, 403, 403, 403, 400, 403, 403, 403),
    ('GET', '/v1/os-hosts/allocations'): row(None, 403, 403, 403, 200, 403, 403, 403),
    ('GET', '/v1/os-hosts/usage'): row(None, 403, 403, 403, 200, 403, 403, 403),
    ('GET', '/v1/os-hosts/properties'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('PATCH', PROPERTY): row({'private': True}, 403, 403, 403, 404, 403, 403, 403),
    ('GET', '/v1/os-hosts/pools'): row(None, 403, 403, 403, 200, 403, 403, 403),
    ('GET', POOL): row(None, 403, 403, 403, 404, 403, 403, 403),
    ('PUT', POOL): row({'project_ids': 'p'}, 403, 403, 403, 400, 403, 403, 403),
    ('DELETE', POOL): row(None, 403, 403, 403, 404, 403, 403, 403),
    ('GET', HOST): row(None, 403, 403, 403, 404, 403, 403, 403),
    ('PUT', HOST): row({'rack': '7'}, 403, 403, 403, 404, 403, 403, 403),
    ('DELETE', HOST): row(None, 403, 403, 403, 404, 403, 403, 403),
    ('GET', f'{HOST}/allocation'): row(None, 403, 403, 403, 404, 403, 403, 403),
    # They cannot be reserved here.
    ('GET', '/v1/floatingips'): row(None, 404, 404, 404, 404, 403, 403, 404),
    ('POST', '/v1/floatingips'): row({}, 403, 403, 403, 404, 403, 403, 403),
    ('GET', FLOATING_IP): row(None, 404, 404, 404, 404, 403, 403, 404),
    ('DELETE', FLOATING_IP): row(None, 403, 403, 403, 404, 403, 403, 403),
    ('GET', '/v1/networks'): row(None, 404, 404, 404, 404, 403, 403, 404),
    ('POST', '/v1/networks'): row({}, 403, 403, 403, 404, 403, 403, 403),
    ('GET', '/v1/networks/properties'): row(None, 404, 404, 404, 404, 403, 403, 404),
    ('PATCH', NETWORK_PROPERTY): row({}, 403, 403, 403, 404, 403, 403, 403),
    ('GET', NETWORK): row(None, 404, 404, 404, 404, 403, 403, 404),
    ('PUT', NETWORK): row({}, 403, 403, 403, 404, 403, 403, 403),
    ('DELETE', NETWORK): row(None, 403, 403, 403, 404, 403, 403, 403),
    # It is not said what shall be available.
    ('GET', '/v1/availability'): row(None, 400, 400, 400, 400, 403, 403, 400),
    # They are the own ones of a user, who must be able to see leases.
    ('GET', '/v1/feeds'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('POST', '/v1/feeds'): row({'name': 'n'}, 201, 201, 201, 201, 403, 403, 201),
    ('DELETE', FEED): row(None, 404, 404, 404, 404, 404, 404, 404),
    # The token of no feed is sent.
    ('GET', '/v1/leases.ics'): row(None, 404, 404, 404, 404, 404, 404, 404),
    ('GET', '/v1/calendar'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('GET', '/v1/limits'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('GET', '/v1/usage'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('GET', '/v1/leases'): row(None, 200, 200, 200, 200, 403, 403, 200),
    ('POST', '/v1/leases'): row({'name': 'n', 'duration': 60}, 403, 201, 201, 201, 403, 403, 201),
    ('GET', LEASE): row(None, 200, 200, 200, 200, 404, 404, 404),
    ('GET', f'{LEASE}/history'): row(None, 200, 200, 200, 200, 404, 404, 404),
    ('PUT', LEASE): row({'name': 'n'}, 403, 200, 200, 200, 404, 404, 404),
    ('DELETE', LEASE): row(None, 403, 204, 204, 204, 404, 404, 404),
    ('POST', f'{LEASE}/start'): row(None, 403, 202, 202, 202, 404, 404, 404),
    ('POST', f'{LEASE}/end'): row(None, 403, 202, 202, 202, 404, 404, 404),
    # An admin of another project has no resources to add.
    ('POST', f'{LEASE}/reservations'): row(THING, 403, 201, 201, 404, 404, 404, 404),
    ('PUT', RESERVATION): row({'colour': 'red'}, 403, 200, 200, 200, 404, 404, 404),
    ('DELETE', RESERVATION): row(None, 403, 204, 204, 204, 404, 404, 404),
}


@pytest.fixture(scope='module')
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    conf = world.configure(tmp_path_factory.mktemp('roles'))
    with world.running(conf, Database(conf)) as made:
        yield made


def ask(application: Any, who: str, method: str, path: str, body: Any) -> webob.Response:
    project, roles = WHO[who]
    headers = {'X-User-Id': who, 'X-Project-Id': project, 'X-Roles': roles}
    return world.ask(application, method, path, body, headers)


@pytest.fixture
def lease(application: Any) -> dict[str, Any]:
    """Make a lease that its user may start now."""
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    values = {'name': NAME, 'duration': '1h', 'start_policy': 'manual', 'reservations': [thing]}
    made = ask(application, 'member', 'POST', '/v1/leases', values)
    assert made.status_code == 201, made.text
    return dict(made.json['lease'])


@pytest.mark.parametrize(
    ('method', 'path'),
    [(method, path) for path, methods in routes.ROUTES.items() for method in methods],
)
@pytest.mark.parametrize('who', WHO)
def test_role_may_call_what_the_matrix_says(
    application: Any, lease: dict[str, Any], who: str, method: str, path: str
) -> None:
    assert (method, path) in MATRIX, 'A new call needs a row.'
    body, statuses = MATRIX[method, path]
    if body is THING:
        body = {**THING, 'resource_id': str(uuid.uuid4())}
    place = path.format(
        lease_id=lease['id'],
        reservation_id=lease['reservations'][0]['id'],
        host_id=1,
        property_name='rack',
        pool_name='fast',
        floatingip_id=1,
        network_id=1,
        feed_id=1,
    )
    response = ask(application, who, method, place, body)
    assert response.status_code == statuses[who], response.text
    if response.status_code == 403:
        assert response.json['error_name'] == 'forbidden'
    if response.status_code == 404:
        nouns = {
            'os-hosts': 'host',
            'feeds': 'feed',
            'leases.ics': 'feed',
            'floatingips': 'path',
            'networks': 'path',
        }
        noun = nouns.get(path.split('/')[2], 'lease')
        assert response.json['error_name'].startswith(f'{noun}.')
        assert response.json['error_name'].endswith('not_found')
    if who in ('service', 'nobody', 'stranger'):
        assert NAME not in response.text
        assert lease['id'] not in response.text.replace(f'Lease {lease["id"]} was not', '')
    if response.status_code in (403, 404):
        now = ask(application, 'admin', 'GET', f'/v1/leases/{lease["id"]}', None).json['lease']
        assert now['name'] == NAME
        assert [each['resource_id'] for each in now['reservations']] == [
            each['resource_id'] for each in lease['reservations']
        ]


def test_every_row_is_of_a_call() -> None:
    for method, path in MATRIX:
        assert method in routes.ROUTES[path]


@pytest.mark.parametrize('who', ['reader', 'member', 'manager', 'service', 'nobody', 'stranger'])
@pytest.mark.parametrize('noun', ['leases', 'usage', 'limits'])
def test_list_of_another_project_is_for_administrators_only(
    application: Any, who: str, noun: str
) -> None:
    response = ask(application, who, 'GET', f'/v1/{noun}?project_id=others', None)
    assert response.status_code == 403


def test_what_an_admin_sees(application: Any, lease: dict[str, Any]) -> None:
    response = ask(application, 'admin', 'GET', '/v1/leases?project_id=ours&fields=id', None)
    assert {'id': lease['id']} in response.json['leases']
    assert ask(application, 'admin', 'GET', '/v1/usage?project_id=ours', None).status_code == 200
