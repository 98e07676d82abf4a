# SPDX-License-Identifier: Apache-2.0
"""Share properties among the schemas of hosts, floating IPs and segments."""

from typing import Any, Final

from climate_common import limits
from climate_core.api.schemas import common

#: Clients of Blazar send every value as a text.
FLAG: Final[dict[str, Any]] = {'enum': [True, False, 'true', 'false', 'True', 'False']}
EXTRA: Final[dict[str, Any]] = {
    'type': ['string', 'number', 'boolean', 'null'],
    'maxLength': 1024,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
    'description': 'An extra property. A text that is a number is compared as one.',
}
RESERVABLE: Final[dict[str, Any]] = {
    **FLAG,
    'description': 'Whether it takes new promises; default true.',
}
#: The ids of projects, or of domains.
IDS: Final[dict[str, Any]] = {
    'type': 'array',
    'items': {
        'type': 'string',
        'minLength': 1,
        'maxLength': 64,
        'pattern': limits.json_pattern(limits.TEXT_PATTERN),
    },
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


def properties(noun: str) -> dict[str, Any]:
    """Return the schema of a list of extra properties.

    :param noun: of what has them, many of them
    """
    one = {
        'property': {'type': 'string'},
        'private': {'type': 'boolean'},
        'values': {'type': 'array', 'description': f'Which values {noun} have.'},
    }
    listed = {'type': 'array', 'items': common.closed(one, ('property',))}
    return common.envelope('resource_properties', listed)


def properties_query(noun: str, rule: str) -> dict[str, dict[str, Any]]:
    """Return the query of such a list.

    :param rule: the policy of private ones
    """
    return {
        'detail': {'type': 'boolean', 'description': f'true: with the values that {noun} have.'},
        'all': {
            'type': 'boolean',
            'description': f'true: also the private ones. Needs the policy ``{rule}``.',
        },
    }


#: A change of an extra property.
UPDATE_PROPERTY: Final[dict[str, Any]] = common.closed(
    {'private': {'type': 'boolean', 'description': 'Whether users may not see it.'}}, ('private',)
)


def property_of(resource_type: str) -> dict[str, Any]:
    """Return the schema of one extra property of what is of a type."""
    name = {'type': 'string', 'pattern': limits.json_pattern(limits.PROPERTY_PATTERN)}
    return common.envelope(
        'resource_property',
        common.closed(
            {
                'id': {'type': 'string'},
                'resource_type': {'type': 'string', 'enum': [resource_type]},
                'property_name': name,
                'private': {'type': 'boolean'},
            }
        ),
    )
