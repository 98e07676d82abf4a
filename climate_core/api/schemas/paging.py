# SPDX-License-Identifier: Apache-2.0
"""Pages of a list: what is asked with, and the links that are answered."""

from typing import Any

from climate_core.api.schemas import common

LIMIT: dict[str, Any] = {
    'type': 'integer',
    'minimum': 1,
    'maximum': 2**63 - 1,
    'description': 'How many at most. More than ``[api] max_limit`` is cut to it.',
}
LINKS: dict[str, Any] = {
    'type': 'array',
    'items': common.closed(
        {
            'rel': {'type': 'string', 'enum': ['next']},
            'href': {'type': 'string', 'description': 'The address of the next page.'},
        },
        ('rel', 'href'),
    ),
    'description': 'Only there if there is more.',
}


def marker(noun: str) -> dict[str, Any]:
    """Return the schema of the parameter ``marker`` of a list of units of the calendar."""
    return {
        'type': 'integer',
        'minimum': 0,
        'maximum': 2**63 - 1,
        'description': f'The id of the last {noun} of the page before.',
    }


def many(name: str, items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a page, with the link to the next one if there is more."""
    page = {name: {'type': 'array', 'items': items}, f'{name}_links': LINKS}
    return common.closed(page, (name,))


def fields(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the parameter ``fields``."""
    names = {'type': 'string', 'enum': sorted(shown['properties'])}
    return {
        'type': 'array',
        'items': names,
        'description': 'Only these fields are answered. Repeat it, or write commas.',
    }
