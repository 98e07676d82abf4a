# SPDX-License-Identifier: Apache-2.0

import jsonschema
import pytest

from climate_core import policies
from climate_core.api import routes
from climate_core.api.app import find_route, is_public
from climate_core.api.request import Route

ROUTES = [
    pytest.param(path, method, route, id=f'{method} {path}')
    for path, methods in routes.ROUTES.items()
    for method, route in methods.items()
]
RULES = {rule.name: rule for rule in policies.list_rules()}


@pytest.mark.parametrize(('path', 'method', 'route'), ROUTES)
def test_policy_documents_the_route(path: str, method: str, route: Route) -> None:
    if route.policy is not None:
        assert {'path': path, 'method': method} in RULES[route.policy].operations


@pytest.mark.parametrize(('path', 'method', 'route'), ROUTES)
def test_schemas_of_a_route_are_valid(path: str, method: str, route: Route) -> None:
    for schema in (route.request_schema, route.response_schema):
        if schema is not None:
            jsonschema.Draft202012Validator.check_schema(schema)
    # What is done with 202 is said by the path alone.
    assert (route.request_schema is not None) == (
        method in ('POST', 'PUT', 'PATCH') and route.status != 202
    )
    assert (route.response_schema is None) == (route.status == 204)


def test_every_documented_operation_has_a_route() -> None:
    for rule in RULES.values():
        for operation in rule.operations:
            assert operation['method'] in routes.ROUTES[operation['path']]


@pytest.mark.parametrize(
    ('path', 'found'),
    [
        ('', {}),
        ('/', {}),
        ('/v1', {}),
        ('/v1/', {}),
        ('/v1/leases', {}),
        ('/v1/leases/', {}),
        ('/v1/leases.json', {}),
        ('/v1/leases/abc-1', {'lease_id': 'abc-1'}),
        ('/v1/leases/abc-1.json', {'lease_id': 'abc-1'}),
        ('/v1/leases/abc/reservations', {'lease_id': 'abc'}),
        ('/v1/leases/abc/nope', None),
        ('/v1/leases/a\0b', None),
        ('/v1/leases/ä', None),
        ('/v2', None),
        ('//', None),
    ],
)
def test_path_finds_its_route_and_the_ids_in_it(path: str, found: dict[str, str] | None) -> None:
    route = find_route(path)
    assert (route and route[1]) == found


@pytest.mark.parametrize(
    ('path', 'public'),
    [('/', True), ('/v1', True), ('/v1/leases', False), ('/v1/plugins', False), ('/x', False)],
)
def test_path_is_public_or_not(path: str, public: bool) -> None:
    assert is_public(find_route(path)) is public
