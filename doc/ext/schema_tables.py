# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas as tables of reStructuredText, for the documents."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from generated import list_table

Row = tuple[str, str, str]


def table(name: str, first: str, filled: Iterable[Row]) -> Iterator[str]:
    """Write a table, nothing if it has no rows.

    :param first: what the first column has
    """
    filled = list(filled)
    if filled:
        yield from list_table(name, '30 20 50', ((first, 'Type', 'Description'), *filled))


def rows(schema: Mapping[str, Any], within: str = '') -> Iterator[Row]:
    """Write a row for each property, followed by those inside of objects and lists."""
    required = schema.get('required', ())
    for name, one in schema.get('properties', {}).items():
        path = f'{within}{name}'
        shown = f'``{path}``' + ('' if name in required or not required else ' (optional)')
        yield shown, kind(one), about(one)
        yield from rows(one, f'{path}.')
        yield from rows(one.get('items', {}), f'{path}[].')


def kind(schema: Mapping[str, Any]) -> str:
    """Say of which type a value is."""
    kinds = schema.get('type', 'any')
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return schema.get('format') or ' or '.join(kinds)


def about(schema: Mapping[str, Any]) -> str:
    """Say what a value means and what it may be."""
    said = [schema.get('description', '')]
    items = schema.get('items', {})
    if 'enum' in schema:
        said.append('One of ' + ', '.join(f'``{each}``' for each in schema['enum']) + '.')
    elif 'enum' in items and items.get('type') == 'string':
        said.append('Of ' + ', '.join(f'``{each}``' for each in items['enum']) + '.')
    return ' '.join(filter(None, said))
