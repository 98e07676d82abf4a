# SPDX-License-Identifier: Apache-2.0
"""The reference of the API as reStructuredText, from the route table, its schemas and policies."""

from collections.abc import Iterator, Mapping
from typing import Any

from climate_core.api import routes


def rst() -> str:
    """Describe every route: what it does, its policy, what it takes and what it gives."""
    return '\n'.join(line for path in routes.ROUTES for line in _path(path)) + '\n'


def _path(path: str) -> Iterator[str]:
    for method, route in routes.ROUTES[path].items():
        title = f'{method} {path}'
        yield from (title, '-' * len(title), '')
        yield from ((route.handler.__doc__ or '').strip(), '')
        policy = f'``{route.policy}``' if route.policy else 'none; no token is needed'
        yield from (f':Success: {route.answers}', f':Policy: {policy}', '')
        for name, schema in (('Request', route.takes), ('Answer', route.gives)):
            if schema is not None:
                yield from _table(name, schema)


def _table(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (f'.. list-table:: {name}', '   :header-rows: 1', '   :widths: 30 20 50', '')
    for cells in (('Field', 'Type', 'Description'), *_rows(schema)):
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
    if 'enum' in schema:
        said.append('One of ' + ', '.join(f'``{each}``' for each in schema['enum']) + '.')
    return ' '.join(filter(None, said))
