# SPDX-License-Identifier: Apache-2.0
"""The reference of the API as reStructuredText, from the route table, its schemas and policies."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from climate_core.api import openapi, routes


def rst() -> str:
    """Describe every route: what it does, its policy, what it takes and what it gives."""
    return '\n'.join(line for path in routes.ROUTES for line in _path(path)) + '\n'


def _path(path: str) -> Iterator[str]:
    for method, route in routes.ROUTES[path].items():
        title = f'{method} {path}'
        yield from (title, '-' * len(title), '')
        yield from (inspect.cleandoc(route.handler.__doc__ or ''), '')
        policy = f'``{route.policy}``' if route.policy else 'none; no token is needed'
        success = ', '.join(map(str, (route.answers, *route.also)))
        yield from (f':Success: {success}', f':Policy: {policy}')
        failures = ', '.join(map(str, openapi.errors(path, method, route)))
        yield from ((f':Errors: {failures}', '') if failures else ('',))
        yield from _parameters('Query', route.query)
        yield from _parameters('Header', route.headers)
        bodies = ('Request', route.takes), ('Answer', route.gives)
        for name, schema in (*bodies, *((f'Answer {k}', v) for k, v in route.also.items())):
            if schema is not None:
                yield from _table(name, 'Field', _rows(schema))


def _parameters(name: str, declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = [(f'``{key}``', _type(schema), _about(schema)) for key, schema in declared.items()]
    yield from _table(name, 'Name', rows)


def _table(name: str, first: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    rows = list(rows)
    if not rows:
        return
    yield from (f'.. list-table:: {name}', '   :header-rows: 1', '   :widths: 30 20 50', '')
    for cells in ((first, 'Type', 'Description'), *rows):
        for position, cell in enumerate(cells):
            yield f'   {"* -" if position == 0 else "  -"} {cell}'.rstrip()
    yield ''


def _rows(schema: Mapping[str, Any], within: str = '') -> Iterator[tuple[str, str, str]]:
    """A row for each property; what is inside of objects and lists follows it."""
    required = schema.get('required', ())
    for name, one in schema.get('properties', {}).items():
        path = f'{within}{name}'
        shown = f'``{path}``' + ('' if name in required or not required else ' (optional)')
        yield shown, _type(one), _about(one)
        yield from _rows(one, f'{path}.')
        yield from _rows(one.get('items', {}), f'{path}[].')


def _type(schema: Mapping[str, Any]) -> str:
    kinds = schema.get('type', 'any')
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return schema.get('format') or ' or '.join(kinds)


def _about(schema: Mapping[str, Any]) -> str:
    said = [schema.get('description', '')]
    items = schema.get('items', {})
    if 'enum' in schema:
        said.append('One of ' + ', '.join(f'``{each}``' for each in schema['enum']) + '.')
    elif 'enum' in items and items.get('type') == 'string':
        said.append('Of ' + ', '.join(f'``{each}``' for each in items['enum']) + '.')
    return ' '.join(filter(None, said))
