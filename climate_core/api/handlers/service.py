# SPDX-License-Identifier: Apache-2.0
"""Requests for the versions and the description of the API. They need no token.

The OpenAPI 3.1 document is generated from the route table, its schemas and policies. It describes
one installation, with the types of resources of its plugins.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import webob

from climate_common import limits
from climate_core import exceptions, policies
from climate_core.api import errors, reservations
from climate_core.api.request import JSON, MICROVERSION, Backend, Request, Route, Table, answer
from climate_core.api.schemas import common, leases
from climate_core.plugins import base

_TOKEN: Final = 'token'
#: Descriptions of the errors.
_ERRORS: Final = {
    400: 'The request is malformed, or cannot be fulfilled.',
    403: 'The policy or a limit does not allow this.',
    404: 'The resource does not exist, or is not visible to the caller.',
    **{
        error.status: error().message
        for error in (
            exceptions.Unauthorized,
            errors.NotAcceptable,
            exceptions.Conflict,
            errors.LengthRequired,
            errors.TooLarge,
            errors.UnsupportedMediaType,
            exceptions.ServiceUnavailable,
        )
    },
}
_VARIABLE = re.compile(r'\{(\w+)\}')
_VARIABLES: Final = {'type': 'string', 'pattern': r'^[0-9A-Za-z-]+(?!\n)$'}
#: Descriptions of the path variables that are no ids.
_OTHER_VARIABLES: Final = {
    'property_name': {'type': 'string', 'pattern': limits.json_pattern(limits.PROPERTY_PATTERN)}
}
#: Schemas that are components of the document.
_NAMES: Final = {
    id(leases.SHOWN): 'Lease',
    id(leases.CREATE): 'NewLease',
    id(reservations.SHOWN): 'Reservation',
    id(reservations.CREATE): 'NewReservation',
    id(common.ERROR): 'Error',
}


def versions(_backend: Backend, request: Request) -> webob.Response:
    """List all versions, with the status 300 that clients of this service expect."""
    return answer(300, {'versions': [_version(request)]})


def version(_backend: Backend, request: Request) -> webob.Response:
    """Show the only version."""
    return answer(200, {'version': _version(request)})


def _version(request: Request) -> dict[str, Any]:
    return {
        'id': 'v1.0',
        'status': 'CURRENT',
        'min_version': MICROVERSION,
        'max_version': MICROVERSION,
        'links': [{'rel': 'self', 'href': f'{request.application_url}/v1'}],
    }


def error_statuses(path: str, method: str, route: Route) -> list[int]:
    """Return the HTTP statuses of the errors of a call."""
    if route.policy is None:
        return sorted(route.errors)
    statuses = {400, 401, 403, 406, 503}
    if '{' in path or method != 'GET':
        statuses.add(404)
    if method != 'GET':
        statuses.add(409)
    if route.request_schema is not None:
        statuses |= {411, 413, 415}
    return sorted(statuses)


def document(
    routes: Table, url: str, plugins: Mapping[str, type[base.ResourcePlugin]]
) -> dict[str, Any]:
    """Build the document.

    :param routes: the route table
    :param url: the URL of the API
    :param plugins: the plugins by type of resource
    """
    links = _links(routes)
    return {
        'openapi': '3.1.0',
        'info': {
            'title': 'Climate, reservations for OpenStack',
            'version': MICROVERSION,
            'license': {'name': 'Apache-2.0', 'identifier': 'Apache-2.0'},
        },
        'servers': [{'url': url}],
        'security': [{_TOKEN: []}],
        'paths': {
            path: {
                method.lower(): _operation(path, method, route, links)
                for method, route in methods.items()
            }
            for path, methods in routes.items()
        },
        'components': {
            'securitySchemes': {
                _TOKEN: {'type': 'apiKey', 'in': 'header', 'name': 'X-Auth-Token'},
            },
            'schemas': _schemas(plugins),
            'responses': {
                str(status): {'description': about, **_content(common.ERROR)}
                for status, about in sorted(_ERRORS.items())
            },
        },
    }


def _schemas(plugins: Mapping[str, type[base.ResourcePlugin]]) -> dict[str, Any]:
    new_reservations = [reservations.of_plugin(plugin) for plugin in plugins.values()]
    return {
        'Lease': _inside(leases.SHOWN),
        'NewLease': _inside(leases.CREATE),
        'Reservation': _inside(reservations.SHOWN),
        'NewReservation': {'oneOf': new_reservations}
        if new_reservations
        else _inside(reservations.CREATE),
        'Error': _inside(common.ERROR),
    }


def _operation(path: str, method: str, route: Route, links: Mapping[str, Any]) -> dict[str, Any]:
    summary, _, more = (route.handler.__doc__ or '').strip().partition('\n')
    answers = {route.status: route.response_schema, **route.also}
    operation: dict[str, Any] = {
        'operationId': route.operation_id,
        'tags': [route.operation_id.partition('.')[0]],
        'summary': summary,
        'description': _about(' '.join(more.split()), route.policy),
        'parameters': list(_parameters(path, route)),
        'responses': {
            **{
                str(status): _success(status, schema, links, route.media)
                for status, schema in answers.items()
            },
            **{
                str(status): {'$ref': f'#/components/responses/{status}'}
                for status in error_statuses(path, method, route)
            },
        },
    }
    if route.request_schema is not None:
        operation['requestBody'] = {'required': True, **_content(route.request_schema)}
    if route.policy is None:
        operation['security'] = []
    return operation


def _about(text: str, policy: str | None) -> str:
    rules = {rule.name: rule for rule in policies.list_rules()}
    if policy is None:
        return text
    return f'{text} Policy: {policy}. {rules[policy].description}'.strip()


def _parameters(path: str, route: Route) -> Iterator[dict[str, Any]]:
    for name in _VARIABLE.findall(path):
        yield _parameter('path', name, _OTHER_VARIABLES.get(name, _VARIABLES)) | {'required': True}
    for place, declared in (('query', route.query), ('header', route.headers)):
        for name, schema in declared.items():
            yield _parameter(place, name, schema)


def _parameter(place: str, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    rules = {key: value for key, value in schema.items() if key != 'description'}
    parameter: dict[str, Any] = {'name': name, 'in': place, 'schema': rules}
    if 'description' in schema:
        parameter['description'] = schema['description']
    return parameter


def _success(
    status: int, schema: Mapping[str, Any] | None, links: Mapping[str, Any], media: str
) -> dict[str, Any]:
    if schema is None:
        return {'description': 'The resource is unchanged.' if status == 304 else 'Done.'}
    success: dict[str, Any] = {'description': 'Success.', **_content(schema, media)}
    return success | {'links': links} if schema is leases.ONE else success


def _links(routes: Table) -> dict[str, Any]:
    """Return the links from a lease in a response to the calls for it."""
    return {
        f'{method} {path}': {
            'operationRef': f'#/paths/{path.replace("/", "~1")}/{method.lower()}',
            'parameters': {'lease_id': '$response.body#/lease/id'},
        }
        for path, methods in routes.items()
        for method in methods
        if _VARIABLE.findall(path) == ['lease_id']
    }


def _content(schema: Mapping[str, Any], media: str = JSON) -> dict[str, Any]:
    return {'content': {media: {'schema': _named(schema)}}}


def _named(value: Any) -> Any:
    """Replace the schemas of components by references to them."""
    name = _NAMES.get(id(value))
    return {'$ref': f'#/components/schemas/{name}'} if name else _inside(value)


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(item) for key, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value
