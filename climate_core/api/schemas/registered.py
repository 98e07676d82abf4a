# SPDX-License-Identifier: Apache-2.0
"""Share properties among the schemas of hosts, floating IPs and segments."""

from typing import Any, Final

from climate_common import limits

NAME: Final[dict[str, Any]] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.NAME_PATTERN),
}
#: Clients of Blazar send every value as a text.
FLAG: Final[dict[str, Any]] = {'enum': [True, False, 'true', 'false', 'True', 'False']}
EXTRA: Final[dict[str, Any]] = {
    'type': ['string', 'number', 'boolean', 'null'],
    'maxLength': 1024,
    'pattern': limits.json_pattern(r'[^\u0000-\u001f\ud800-\udfff]*'),
    'description': 'An extra property. A text that is a number is compared as one.',
}
RESERVABLE: Final[dict[str, Any]] = {
    **FLAG,
    'description': 'Whether it takes new promises; default true.',
}
#: The ids of projects, or of domains.
IDS: Final[dict[str, Any]] = {
    'type': 'array',
    'items': {'type': 'string', 'minLength': 1, 'maxLength': 64},
    'maxItems': 1000,
    'uniqueItems': True,
}


def with_extra(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties, and extra ones beside them."""
    return {
        'type': 'object',
        'properties': properties,
        'additionalProperties': EXTRA,
        'maxProperties': 256,
    }


def with_values(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the same, which may have all of it under ``values`` as well, as some clients do."""
    values = with_extra(properties)
    return {**with_extra({**properties, 'values': values}), 'required': list(required)}
