# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-routes``: every call of the API.

The text comes from the route table of the code, its schemas and policies."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import api_examples
from generated import Generated
from schema_tables import about, kind, rows, table
from sphinx.application import Sphinx

from climate_core.api import routes
from climate_core.api.handlers import service


class Routes(Generated):
    """Write the reference here, as sections."""

    def write(self) -> list[str]:
        return rst().splitlines()


def rst() -> str:
    """Describe every route: what it does, its policy, what it takes and what it gives."""
    return '\n'.join(line for path in routes.ROUTES for line in _path(path)) + '\n'


def _path(path: str) -> Iterator[str]:
    for method, route in routes.ROUTES[path].items():
        title = f'{method} {path}'
        yield from (title, '-' * len(title), '')
        docstring = inspect.cleandoc(route.handler.__doc__ or '')
        yield from (docstring.partition('\n\n:')[0], '')
        policy = f'``{route.policy}``' if route.policy else 'none; no token is needed'
        success = ', '.join(map(str, (route.status, *route.also)))
        yield from (f':Success: {success}', f':Policy: {policy}')
        failures = ', '.join(map(str, service.error_statuses(path, method, route)))
        yield from ((f':Errors: {failures}', '') if failures else ('',))
        yield from _parameters('Query', route.query)
        yield from _parameters('Header', route.headers)
        bodies = ('Request', route.request_schema), ('Answer', route.response_schema)
        for name, schema in (*bodies, *((f'Answer {k}', v) for k, v in route.also.items())):
            if schema is not None:
                yield from table(name, 'Field', rows(schema))
        for example in api_examples.of_call(method, path):
            yield from api_examples.show(example)


def _parameters(name: str, declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    told = ((f'``{key}``', kind(schema), about(schema)) for key, schema in declared.items())
    yield from table(name, 'Name', told)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-routes', Routes)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
