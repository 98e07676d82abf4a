# SPDX-License-Identifier: Apache-2.0
"""Pieces that several schemas share."""

from typing import Any

from climate_common import dates, limits

UUID: dict[str, Any] = {'type': 'string', 'format': 'uuid'}
STAMP: dict[str, Any] = {
    'type': ['string', 'null'],
    'description': 'UTC, as 2026-12-01 16:07:00.',
}
ANSWERED_DATE: dict[str, Any] = {
    'type': 'string',
    # The name of what climate_common.dates.parse() takes.
    'format': 'date-or-now',
    'description': 'UTC, as 2026-12-01T16:07:00.000000.',
}
DATE: dict[str, Any] = {
    'type': 'string',
    # The name of what climate_common.dates.parse() takes.
    'format': 'date-or-now',
    'minLength': 1,
    'maxLength': limits.TIME_LENGTH,
    'description': f'In UTC if there is no offset: {dates.FORMS}.',
}
REASON: dict[str, Any] = {
    'type': ['string', 'null'],
    'description': 'Why it is in this status, if there is something to say.',
}


ERROR: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'error_code': {'type': 'integer', 'description': 'The HTTP status.'},
        'error_name': {'type': 'string', 'description': 'A code that does not change.'},
        'error_message': {'type': 'string', 'description': 'A sentence.'},
        'field': {'type': 'string', 'description': 'The field that is to blame, if one is.'},
        'available_from': {
            **ANSWERED_DATE,
            'description': 'From when on there would be enough for the same duration, if that '
            'is known.',
        },
    },
    'required': ['error_code', 'error_name', 'error_message'],
    'additionalProperties': False,
}


def closed(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    return {
        'type': 'object',
        'properties': properties,
        'required': list(required),
        'additionalProperties': False,
    }


def envelope(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with one property."""
    return closed({name: schema}, (name,))
