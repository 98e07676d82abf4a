# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas that several nouns share, and those of the versions of the API."""

from typing import Any

from climate_common import dates, limits

UUID: dict[str, Any] = {'type': 'string', 'format': 'uuid'}
#: A name or an id of other services.
TEXT: dict[str, Any] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
}
STAMP: dict[str, Any] = {
    'type': ['string', 'null'],
    'description': 'UTC, as 2026-12-01 16:07:00.',
}
ANSWERED_DATE: dict[str, Any] = {
    'type': 'string',
    # The format that climate_common.dates.parse() accepts.
    'format': 'date-or-now',
    'description': 'UTC, as 2026-12-01T16:07:00.000000.',
}
DATE: dict[str, Any] = {
    'type': 'string',
    # The format that climate_common.dates.parse() accepts.
    'format': 'date-or-now',
    'minLength': 1,
    'maxLength': limits.TIME_LENGTH,
    'description': f'In UTC if there is no offset: {dates.FORMS}.',
}
REASON: dict[str, Any] = {
    'type': ['string', 'null'],
    'description': 'Reason for the status, if any.',
}


ERROR: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'error_code': {'type': 'integer', 'description': 'The HTTP status.'},
        'error_name': {'type': 'string', 'description': 'A code that does not change.'},
        'error_message': {'type': 'string', 'description': 'A sentence.'},
        'field': {'type': 'string', 'description': 'The invalid field, if any.'},
        'available_from': {
            **ANSWERED_DATE,
            'description': 'The earliest time with sufficient capacity for the same duration, '
            'if that is known.',
        },
    },
    'required': ['error_code', 'error_name', 'error_message'],
    'additionalProperties': False,
}


def closed(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object with these properties only."""
    return {
        'type': 'object',
        'properties': properties,
        'required': list(required),
        'additionalProperties': False,
    }


def envelope(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with one property."""
    return closed({name: schema}, (name,))


PAGE_LIMIT: dict[str, Any] = {
    'type': 'integer',
    'minimum': 1,
    'maximum': 2**63 - 1,
    'description': 'Maximum number of results. It is reduced to ``[api] max_limit``. Without it, '
    'and without ``marker``, the response has up to 100 pages and about 4 MiB.',
}
PAGE_LINKS: dict[str, Any] = {
    'type': 'array',
    'items': closed(
        {
            'rel': {'type': 'string', 'enum': ['next']},
            'href': {'type': 'string', 'description': 'The URL of the next page.'},
        },
        ('rel', 'href'),
    ),
    'description': 'Only if there is a next page.',
}


def unit_marker(noun: str) -> dict[str, Any]:
    """Return the schema of the query parameter ``marker`` of a list of units."""
    return {
        'type': 'integer',
        'minimum': 0,
        'maximum': 2**63 - 1,
        'description': f'The id of the last {noun} of the previous page.',
    }


def page_of(name: str, items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a page, with the link to the next page."""
    page = {name: {'type': 'array', 'items': items}, f'{name}_links': PAGE_LINKS}
    return closed(page, (name,))


def fields_parameter(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the query parameter ``fields``."""
    names = {'type': 'string', 'enum': sorted(shown['properties'])}
    return {
        'type': 'array',
        'items': names,
        'description': 'Only these fields are returned. Repeat it, or separate them by commas.',
    }


VERSION: dict[str, Any] = closed(
    {
        'id': {'type': 'string'},
        'status': {'type': 'string', 'enum': ['CURRENT']},
        'min_version': {'type': 'string'},
        'max_version': {'type': 'string'},
        'links': {'type': 'array', 'items': {'type': 'object'}},
    }
)
ONE_VERSION: dict[str, Any] = envelope('version', VERSION)
ALL_VERSIONS: dict[str, Any] = envelope('versions', {'type': 'array', 'items': VERSION})
