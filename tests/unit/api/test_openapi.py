# SPDX-License-Identifier: Apache-2.0

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from climate_core.api import reservations, routes
from climate_core.api.handlers import service
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_networks.plugins.floatingips import FloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin

PLUGINS = (
    *(ServerPlugin, VolumePlugin, StackPlugin, HostPlugin, CapacityPlugin, SizesPlugin),
    *(FloatingIpPlugin, NetworkPlugin),
)
HERE = 'http://here/v1'


@pytest.fixture(scope='module')
def document() -> dict[str, Any]:
    made = service.document(routes.ROUTES, HERE, {ServerPlugin.resource_type: ServerPlugin})
    return dict(json.loads(json.dumps(made)))


def test_document_has_every_route(document: dict[str, Any]) -> None:
    assert {path: {*methods} for path, methods in document['paths'].items()} == {
        path: {method.lower() for method in methods} for path, methods in routes.ROUTES.items()
    }


def test_every_operation_has_its_own_id(document: dict[str, Any]) -> None:
    ids = [
        operation['operationId']
        for methods in document['paths'].values()
        for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids)


def patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get('pattern'), str):
            yield value['pattern']
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from patterns(each)


def test_no_pattern_lets_a_line_end_through() -> None:
    """In Python, "$" alone does."""
    kinds = {each.resource_type: each for each in (ServerPlugin, StackPlugin, VolumePlugin)}
    found = {*patterns(service.document(routes.ROUTES, HERE, kinds))}
    assert len(found) > 5
    assert [each for each in found if not each.endswith(r'(?!\n)$')] == []


RULES = {
    **dict.fromkeys(('items', 'minItems', 'maxItems', 'uniqueItems'), frozenset(['array'])),
    **dict.fromkeys(
        ('properties', 'required', 'propertyNames', 'maxProperties'), frozenset(['object'])
    ),
    **dict.fromkeys(('minLength', 'maxLength', 'pattern', 'format'), frozenset(['string'])),
    **dict.fromkeys(('minimum', 'maximum'), frozenset(['integer', 'number'])),
}


def idle_rules(value: Any, path: str = '') -> Iterator[str]:
    """Yield the rules of schemas that are for no type which the schema accepts."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return
    kinds = value.get('type')
    if isinstance(kinds, str | list):
        accepted = {kinds} if isinstance(kinds, str) else {*kinds}
        yield from (f'{path}.{rule}' for rule in value if not RULES.get(rule, accepted) & accepted)
    for name, each in value.items():
        yield from idle_rules(each, f'{path}.{name}')


def test_every_rule_of_a_schema_is_for_a_type_that_it_accepts() -> None:
    """Also where a part of another schema is taken, whose type may replace that before it."""
    assert list(idle_rules({'type': 'string', 'items': {'type': 'string'}})) == ['.items']
    made = service.document(routes.ROUTES, HERE, {each.resource_type: each for each in PLUGINS})
    assert list(idle_rules(made)) == []


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in references(each)]
    if not isinstance(value, dict):
        return []
    here = [value['$ref']] if isinstance(value.get('$ref'), str) else []
    return here + [found for each in value.values() for found in references(each)]


def test_what_is_referred_to_is_there(document: dict[str, Any]) -> None:
    assert references(document)
    for reference in references(document):
        assert reference.startswith('#/components/')
        _, _, kind, name = reference.split('/')
        assert name in document['components'][kind]


def test_schemas_of_the_document_are_valid(document: dict[str, Any]) -> None:
    for schema in document['components']['schemas'].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_new_reservation_is_one_of_the_plugins(document: dict[str, Any]) -> None:
    schemas = document['components']['schemas']
    (only,) = schemas['NewReservation']['oneOf']
    assert only['properties']['resource_type']['enum'] == ['virtual:instance']
    items = schemas['NewLease']['properties']['reservations']['items']
    assert items == {'$ref': '#/components/schemas/NewReservation'}
    without = service.document(routes.ROUTES, HERE, {})
    assert without['components']['schemas']['NewReservation']['properties']


def test_parameters_of_path_and_query_have_their_schemas(document: dict[str, Any]) -> None:
    listed = document['paths']['/v1/leases']['get']['parameters']
    limit = next(each for each in listed if each['name'] == 'limit')
    assert limit['in'] == 'query'
    assert limit['schema'] == {'type': 'integer', 'minimum': 1, 'maximum': 2**63 - 1}
    (path, *_) = document['paths']['/v1/leases/{lease_id}']['get']['parameters']
    assert (path['name'], path['in'], path['required']) == ('lease_id', 'path', True)


def test_what_is_public_needs_no_token(document: dict[str, Any]) -> None:
    assert document['security']
    for path, methods in routes.ROUTES.items():
        for method, route in methods.items():
            operation = document['paths'][path][method.lower()]
            assert (operation.get('security') == []) == (route.policy is None)
            assert ('401' in operation['responses']) == (route.policy is not None)
            if route.policy:
                assert route.policy in operation['description']


#: Texts that are no names: another grammar reads them, or they are handed on as they are.
NO_NAMES = {
    *('duration', 'reservations', 'token', 'url', 'resource_type', 'floating_ip_address'),
    *('floating_ip_range', 'segment_id', 'segment_range', 'hypervisor_properties'),
    *('resource_properties', 'network_properties', 'network_description', 'before_end'),
    *('template', 'environment', 'files.values', 'adminPass', 'flavor_id'),
    *('volume.description', 'volume.metadata.values', 'server.metadata.values'),
}
CONTROL = [*map(chr, (*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF))]


def texts(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a schema that accept texts of users, by their fields."""
    if not isinstance(schema, dict):
        return
    if 'string' in schema.get('type', ()) and not {'enum', 'format'} & schema.keys():
        yield path, schema
    yield from texts(schema.get('items'), f'{path}[]')
    yield from texts(schema.get('additionalProperties'), f'{path}.values')
    if 'propertyNames' in schema:
        yield path, schema['propertyNames']
    for name, each in schema.get('properties', {}).items():
        yield from texts(each, f'{path}.{name}')


def test_no_name_has_control_characters() -> None:
    found = []
    for methods in routes.ROUTES.values():
        for route in methods.values():
            found += texts(route.request_schema, '')
            found += texts({'properties': dict(route.query or {})}, '')
    for plugin in PLUGINS:
        found += texts(reservations.of_plugin(plugin), plugin.resource_type)
    names = [
        (field, schema)
        for field, schema in found
        if not any(f'.{field}'.endswith(f'.{each}') for each in NO_NAMES)
    ]
    assert len(names) > 50
    accepted = {
        field
        for field, schema in names
        for each in CONTROL
        if jsonschema.Draft202012Validator(schema).is_valid(f'a{each}b')
    }
    assert accepted == set()
