# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of leases: what users send, how they list leases, what is returned."""

from typing import Any, Final

from climate_common import lease_fields, limits
from climate_common.lease_fields import Field
from climate_core.api import reservations
from climate_core.api.schemas import common
from climate_core.db import listing
from climate_core.lease import events, history, states

_EVENT: dict[str, Any] = {
    **common.closed(
        {
            'event_type': {
                'type': 'string',
                'pattern': limits.json_pattern(limits.EVENT_TYPE_PATTERN),
                'not': {'enum': sorted(events.RESERVED_TYPES)},
                'description': 'Any name in lower case that the service does not use itself; '
                'without ".error" or ".stop" at its end.',
            },
            'time': common.DATE,
            'event_date': common.DATE,
        },
        ('event_type',),
    ),
    'oneOf': [{'required': ['time']}, {'required': ['event_date']}],
}

_WEBHOOK: dict[str, Any] = {
    **common.closed(
        {
            'url': {
                'type': 'string',
                'minLength': 1,
                'maxLength': limits.WEBHOOK_URL_LENGTH,
                'description': 'http or https, without credentials.',
            },
            'secret': {
                'type': 'string',
                'pattern': limits.json_pattern(limits.SECRET_PATTERN),
                'description': f'Notifications are signed with it: {limits.SECRET}. It is never '
                'shown.',
            },
            'events': {
                'type': 'array',
                'minItems': 1,
                'maxItems': limits.WEBHOOK_EVENTS,
                'items': {
                    'type': 'string',
                    'pattern': limits.json_pattern(limits.WEBHOOK_EVENT_PATTERN),
                },
                'description': 'Patterns of the types of notifications that are sent, as '
                '"lease.event.*"; all of them by default.',
            },
        },
        ('url', 'secret'),
    ),
    'type': ['object', 'null'],
}
_SHOWN_EVENT: dict[str, Any] = common.closed(
    {
        'id': common.UUID,
        'lease_id': common.UUID,
        'event_type': {'type': 'string'},
        'time': common.ANSWERED_DATE,
        'status': {'type': 'string', 'enum': [str(each) for each in states.EventStatus]},
        'status_reason': common.REASON,
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
    }
)

_SHOWN_WEBHOOK: dict[str, Any] = {
    **common.closed(
        {'url': {'type': 'string'}, 'events': {'type': 'array', 'items': {'type': 'string'}}}
    ),
    'type': ['object', 'null'],
}

_SECONDS: dict[str, Any] = {
    'type': 'array',
    'maxItems': limits.START_NOTICES,
    'items': {'type': 'integer', 'minimum': 1, 'maximum': limits.LONGEST_START_NOTICE},
}
#: A type of a field -> its schema in requests and in responses.
_TYPES: dict[str, dict[str, Any]] = {
    lease_fields.TEXT: {'type': 'string'},
    lease_fields.UUID: common.UUID,
    lease_fields.STATUS: {
        'type': 'string',
        'enum': [str(status) for status in states.LeaseStatus],
    },
    lease_fields.CHOICE: {'type': 'string'},
    lease_fields.INTEGER: {'type': 'integer'},
    lease_fields.BOOLEAN: {'type': 'boolean'},
    lease_fields.SECONDS: _SECONDS,
}
#: The types that differ in requests.
_SENT_TYPES: dict[str, dict[str, Any]] = {
    **_TYPES,
    lease_fields.TEXT: {'type': 'string', 'pattern': limits.json_pattern(limits.STORED_PATTERN)},
    lease_fields.DATE: common.DATE,
    lease_fields.DURATION: {
        'type': ['integer', 'string'],
        'minimum': 1,
        'minLength': 1,
        'maxLength': limits.TIME_LENGTH,
    },
    lease_fields.WEBHOOK: _WEBHOOK,
    lease_fields.EVENTS: {'type': 'array', 'maxItems': limits.EVENTS, 'items': _EVENT},
    lease_fields.RESERVATIONS: {'type': 'array', 'maxItems': limits.RESERVATIONS},
}
_SHOWN_TYPES: dict[str, dict[str, Any]] = {
    **_TYPES,
    lease_fields.DATE: common.ANSWERED_DATE,
    lease_fields.STAMP: common.STAMP,
    lease_fields.WEBHOOK: _SHOWN_WEBHOOK,
    lease_fields.EVENTS: {'type': 'array', 'items': _SHOWN_EVENT},
    lease_fields.RESERVATIONS: {'type': 'array', 'items': reservations.SHOWN},
}


def _schema_of(field: Field, types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a field.

    :param types: of requests, or of responses
    """
    schema = {**types[field.type]}
    if field.nullable and isinstance(schema['type'], str):
        schema['type'] = [schema['type'], 'null']
    if field.choices:
        schema['enum'] = [*field.choices, None] if field.nullable else list(field.choices)
    if field.type == lease_fields.TEXT and types is _SENT_TYPES:
        schema['maxLength'] = field.maximum
    if field.type == lease_fields.INTEGER:
        schema['minimum'] = field.minimum
        if field.maximum != lease_fields.LARGEST:
            schema['maximum'] = field.maximum
    return {**schema, 'description': field.description} if field.description else schema


def _properties(request: str) -> dict[str, Any]:
    """Return the properties of a request."""
    fields = lease_fields.set_by(request)
    properties = {field.name: _schema_of(field, _SENT_TYPES) for field in fields}
    return properties | {'name': limits.NAME_SCHEMA}


_CREATE_PROPERTIES = _properties(lease_fields.CREATE)
CREATE: dict[str, Any] = {
    **common.closed(
        {
            **_CREATE_PROPERTIES,
            'reservations': {
                **_CREATE_PROPERTIES['reservations'],
                'items': reservations.CREATE,
            },
        },
        ('name',),
    ),
    'oneOf': [{'required': ['end_date']}, {'required': ['duration']}],
}
#: Headers and query parameters of a request for a new lease.
CREATE_HEADERS: dict[str, Any] = {
    'Idempotency-Key': {
        'type': 'string',
        'pattern': limits.json_pattern(limits.IDEMPOTENCY_KEY_PATTERN),
        'description': f'Up to {limits.NAME_LENGTH} printable ASCII characters. A request '
        'that is repeated with it returns the same lease, whatever its status is by then.',
    },
}
CREATE_QUERY: dict[str, Any] = {
    'dry_run': {
        'type': 'boolean',
        'description': 'true: only return what the request would result in.',
    },
}

_UPDATE_PROPERTIES = _properties(lease_fields.UPDATE)
UPDATE: dict[str, Any] = common.closed(
    {
        **_UPDATE_PROPERTIES,
        'reservations': {
            **_UPDATE_PROPERTIES['reservations'],
            'items': reservations.LISTED_CHANGE,
            'description': 'The reservations to change, each with its changed fields.',
        },
        'events': {
            **_UPDATE_PROPERTIES['events'],
            'description': 'They replace those that were set before.',
        },
    }
)

SHOWN: dict[str, Any] = common.closed(
    {
        field.name: _schema_of(field, _SHOWN_TYPES)
        for field in lease_fields.shown_in(lease_fields.API)
    }
)
DRY_RUN: dict[str, Any] = common.envelope(
    'dry_run',
    common.closed(
        {
            'granted': {
                'type': 'boolean',
                'description': 'The lease would be created with all its resources.',
            },
            'waits': {
                'type': 'boolean',
                'description': 'The lease would be created, and queued in the status WAITING.',
            },
            'refusals': {
                'type': 'array',
                'items': common.ERROR,
                'description': 'All reasons for a rejection, in the format of errors.',
            },
            'available_from': {
                **common.ANSWERED_DATE,
                'type': ['string', 'null'],
                'description': 'The earliest start that would be accepted for the same '
                'duration, if that is known.',
            },
            'start_date': common.ANSWERED_DATE,
            'end_date': common.ANSWERED_DATE,
        }
    ),
)
ONE: dict[str, Any] = common.envelope('lease', SHOWN)
MANY: dict[str, Any] = common.page_of('leases', SHOWN)


_DIRECTIONS = ('asc', 'desc')


def _list_of(*allowed: str, **more: str) -> dict[str, Any]:
    return {'type': 'array', 'items': {'type': 'string', 'enum': list(allowed)}, **more}


_FIELDS: dict[str, Any] = common.fields_parameter(SHOWN)

LIST_QUERY: dict[str, dict[str, Any]] = {
    'status': _list_of(*states.LeaseStatus, description='Only leases in one of these.'),
    'name': {**common.TEXT, 'description': 'Only leases with exactly this name.'},
    'lease_name': {**common.TEXT, 'description': 'The same, for clients of Blazar.'},
    'lease_id': {**common.TEXT, 'description': 'Only the lease with this id.'},
    'resource_type': {
        **common.TEXT,
        'maxLength': limits.TYPE_LENGTH,
        'description': 'Only leases with a reservation of this type, in any status.',
    },
    'resource_id': {
        **common.TEXT,
        'description': 'Only leases with a reservation of this resource, in any status.',
    },
    'project_id': {
        **common.TEXT,
        'description': "Only leases of this project. Another than the caller's needs the policy "
        '``climate:leases:get_all``.',
    },
    'from': {
        **common.DATE,
        'description': 'Only leases that end after this time. ' + common.DATE['description'],
    },
    'until': {
        **common.DATE,
        'description': 'Only leases that start before this time. ' + common.DATE['description'],
    },
    'deleted': {
        'type': 'boolean',
        'description': 'true: only deleted leases, which are stored until they are purged; '
        'default: only the others.',
    },
    'sort': _list_of(
        *(each for key in listing.SORT_KEYS for each in (key, f'{key}:asc', f'{key}:desc')),
        description='The sort keys of the leases, in the order of their weight. Without it: '
        '``created_at``.',
    ),
    'sort_key': _list_of(*listing.SORT_KEYS, description='Another way to write ``sort``.'),
    'sort_dir': _list_of(*_DIRECTIONS, description='The direction of each ``sort_key``.'),
    'limit': common.PAGE_LIMIT,
    'marker': {
        **common.UUID,
        'description': 'The id of the last lease of the previous page.',
    },
    'fields': _FIELDS,
}
SHOW_QUERY: dict[str, dict[str, Any]] = {'fields': _FIELDS}


NEWEST_FIRST: Final = 'time:desc'

HISTORY_ENTRY: dict[str, Any] = common.closed(
    {
        'id': {'type': 'integer', 'description': 'Grows with time.'},
        'time': common.ANSWERED_DATE,
        'action': {
            'type': 'string',
            'description': 'What happened: ``lease.create``, ``lease.update``, '
            '``event.start_lease`` ...',
        },
        'result': {'type': 'string', 'enum': list(history.RESULTS)},
        'reason': {'type': ['string', 'null'], 'description': 'Why it failed, or is retried.'},
        'user_id': {
            'type': ['string', 'null'],
            'description': 'Who did it; null: the service itself.',
        },
        'request_id': {
            'type': ['string', 'null'],
            'description': 'X-OpenStack-Request-ID of the request; for an event that of the '
            'calls to other services.',
        },
        'changes': {
            'type': 'object',
            'description': 'By field: [before, after]. Under ``reservations``, by id, the same '
            'for each reservation.',
        },
    }
)
HISTORY: dict[str, Any] = common.page_of('history', HISTORY_ENTRY)
HISTORY_QUERY: dict[str, dict[str, Any]] = {
    'limit': common.PAGE_LIMIT,
    'marker': {
        'type': 'integer',
        'minimum': 0,
        'maximum': 2**63 - 1,
        'description': 'The id of the last entry of the previous page.',
    },
    'sort': {
        'type': 'string',
        'enum': ['time:asc', NEWEST_FIRST],
        'description': 'The order of the entries. Without it: the oldest first.',
    },
}
