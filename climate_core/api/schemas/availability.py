# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the availability."""

from typing import Any, Final

from climate_common import durations, limits, resource_types
from climate_core.api.schemas import common, reservation

#: The properties of :data:`QUERY`, where they are texts.
RESERVATIONS: Final[dict[str, Any]] = {
    'type': 'array',
    'minItems': 1,
    'maxItems': limits.RESERVATIONS,
    'items': reservation.CREATE,
}
#: Servers that do not exist yet; only for the availability.
SERVERS: Final[dict[str, Any]] = common.closed(
    {
        'resource_type': {'type': 'string', 'enum': [resource_types.SERVER]},
        'server': common.closed(
            {
                'flavorRef': {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH},
                'count': {'type': 'integer', 'minimum': 1, 'maximum': limits.NEW_SERVERS},
            },
            ('flavorRef',),
        ),
    },
    ('resource_type', 'server'),
)
QUERY: Final[dict[str, dict[str, Any]]] = {
    'reservations': {
        'type': 'string',
        'minLength': 1,
        'maxLength': 8192,
        'description': 'A list of reservations in JSON, as a new lease has it.',
    },
    'duration': {
        'type': 'string',
        'minLength': 1,
        'maxLength': limits.TIME_LENGTH,
        'description': f'How long the lease would last: {durations.FORMS}.',
    },
    'from': {
        **common.DATE,
        'description': f'Default now; not in the past. {common.DATE["description"]}',
    },
    'to': {
        **common.DATE,
        'description': 'When the lease ends at the latest; default 30 days after from. '
        + common.DATE['description'],
    },
    'limit': {
        'type': 'integer',
        'minimum': 1,
        'maximum': 100,
        'description': 'So many at most. Default 5.',
    },
}
WINDOW: Final[dict[str, Any]] = common.closed(
    {
        'start_date': common.ANSWERED_DATE,
        'end_date': common.ANSWERED_DATE,
        'guaranteed': {
            'type': 'boolean',
            'description': 'Whether a lease that is made now for this time is sure to be granted.',
        },
    },
    ('start_date', 'end_date', 'guaranteed'),
)
MANY: Final[dict[str, Any]] = common.envelope('windows', {'type': 'array', 'items': WINDOW})
