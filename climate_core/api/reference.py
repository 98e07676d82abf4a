# SPDX-License-Identifier: Apache-2.0
"""The reference of the API as reStructuredText, from the route table, its schemas and policies."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from climate_core.api import openapi, routes
from climate_core.schema_tables import about, kind, rows, table


def rst() -> str:
    """Describe every route: what it does, its policy, what it takes and what it gives."""
    return '\n'.join(line for path in routes.ROUTES for line in _path(path)) + '\n'


def _path(path: str) -> Iterator[str]:
    for method, route in routes.ROUTES[path].items():
        title = f'{method} {path}'
        yield from (title, '-' * len(title), '')
        yield from (inspect.cleandoc(route.handler.__doc__ or ''), '')
        policy = f'``{route.policy}``' if route.policy else 'none; no token is needed'
        success = ', '.join(map(str, (route.status, *route.also)))
        yield from (f':Success: {success}', f':Policy: {policy}')
        failures = ', '.join(map(str, openapi.errors(path, method, route)))
        yield from ((f':Errors: {failures}', '') if failures else ('',))
        yield from _parameters('Query', route.query)
        yield from _parameters('Header', route.headers)
        bodies = ('Request', route.request_schema), ('Answer', route.response_schema)
        for name, schema in (*bodies, *((f'Answer {k}', v) for k, v in route.also.items())):
            if schema is not None:
                yield from table(name, 'Field', rows(schema))


def _parameters(name: str, declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    told = ((f'``{key}``', kind(schema), about(schema)) for key, schema in declared.items())
    yield from table(name, 'Name', told)
