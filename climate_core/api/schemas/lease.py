# SPDX-License-Identifier: Apache-2.0
"""A lease: what a user may send, and what is answered."""

from typing import Any

from climate_core.api.schemas import common, paging, reservation
from climate_core.lease import events, request, states, webhook

#: Something to read, and nothing that a database or a terminal chokes on.
_NAME: dict[str, Any] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': 255,
    # "$" alone would let a line end through.
    'pattern': r'^(?=.*\S)[^\u0000-\u001f\ud800-\udfff]*(?!\n)$',
}
#: Today's clients send null for "as usual".
_BEFORE_END: dict[str, Any] = {
    **common.DATE,
    'type': ['string', 'null'],
    'description': 'When the coming end is told. ' + common.DATE['description'],
}
_EVENT: dict[str, Any] = {
    **common.closed(
        {
            'event_type': {
                'type': 'string',
                # As climate_core.lease.request has it; "$" alone would let a line end through.
                'pattern': r'^(?!.*\.(?:error|stop)$)[a-z][a-z0-9_.-]{0,65}(?!\n)$',
                'not': {'enum': sorted(events.OWN_TYPES)},
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

_DATES: dict[str, Any] = {
    'start_date': common.DATE,
    'end_date': common.DATE,
    'before_end_date': _BEFORE_END,
    'before_end_notification': {
        **_BEFORE_END,
        'description': 'Another name of before_end_date.',
    },
}

_DURATION: dict[str, Any] = {
    'type': ['integer', 'string'],
    'minimum': 1,
    'minLength': 1,
    'maxLength': 64,
    'description': 'How long the lease lasts, in place of end_date: seconds, "90m", "1d12h", or '
    'ISO 8601 as "PT1H30M".',
}
_WEBHOOK: dict[str, Any] = {
    **common.closed(
        {
            'url': {
                'type': 'string',
                'minLength': 1,
                'maxLength': webhook.MAX_URL,
                'description': 'http or https, without credentials.',
            },
            'secret': {
                'type': 'string',
                'pattern': webhook.SECRET,
                'description': 'What is sent is signed with it: 16 to 255 printable ASCII '
                'characters. It is never shown.',
            },
            'events': {
                'type': 'array',
                'minItems': 1,
                'maxItems': 32,
                'items': {'type': 'string', 'pattern': webhook.PATTERN},
                'description': 'Patterns of the types of notifications that are sent, as '
                '"lease.event.*"; all of them by default.',
            },
        },
        ('url', 'secret'),
    ),
    'type': ['object', 'null'],
    'description': 'Where the lease tells what happens to it.',
}
#: How a lease starts, and whom it tells what.
OPTIONS: dict[str, Any] = {
    'start_policy': {
        'type': 'string',
        'enum': [str(each) for each in states.StartPolicy],
        'description': 'manual: at its start the lease waits until its user starts it.',
    },
    'before_start': {
        'type': 'array',
        'maxItems': request.MAX_HEADS_UP,
        'items': {'type': 'integer', 'minimum': 1, 'maximum': request.MAX_BEFORE_START},
        'description': 'How many seconds before its start the lease is told to start soon.',
    },
    'webhook': _WEBHOOK,
}

CREATE: dict[str, Any] = {
    **common.closed(
        {
            'id': {
                **common.UUID,
                'description': 'Chosen by the client, so that a repeated request makes one lease.',
            },
            'name': _NAME,
            **_DATES,
            'duration': _DURATION,
            **OPTIONS,
            'reservations': {'type': 'array', 'maxItems': 1000, 'items': reservation.CREATE},
            'events': {'type': 'array', 'maxItems': 100, 'items': _EVENT},
        },
        ('name',),
    ),
    'oneOf': [{'required': ['end_date']}, {'required': ['duration']}],
}
#: Headers of a request for a new lease, and parameters of its query.
CREATE_HEADERS: dict[str, Any] = {
    'Idempotency-Key': {
        'type': 'string',
        'pattern': r'^[\x20-\x7e]{1,255}(?!\n)$',
        'description': 'A text of up to 255 printable ASCII characters. A request that is sent '
        'again with it gives the same lease, whatever became of that.',
    },
}
CREATE_QUERY: dict[str, Any] = {
    'dry_run': {
        'type': 'boolean',
        'description': 'true: only tell what would become of the request.',
    },
}

UPDATE: dict[str, Any] = common.closed(
    {
        'name': _NAME,
        **_DATES,
        'duration': _DURATION,
        **OPTIONS,
        'reservations': {
            'type': 'array',
            'maxItems': 1000,
            'items': reservation.LISTED_CHANGE,
            'description': 'Those of the lease that change, each with what changes.',
        },
        'events': {
            'type': 'array',
            'maxItems': 100,
            'items': _EVENT,
            'description': 'In place of those that were given before.',
        },
        'generation': {
            'type': 'integer',
            'minimum': 0,
            'description': 'Refuse with 409 if the lease has another generation by now.',
        },
    }
)

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

_ANSWERED_OR_NULL: dict[str, Any] = {**common.ANSWERED_DATE, 'type': ['string', 'null']}
_SHOWN_WEBHOOK: dict[str, Any] = {
    **common.closed(
        {'url': {'type': 'string'}, 'events': {'type': 'array', 'items': {'type': 'string'}}}
    ),
    'type': ['object', 'null'],
}

SHOWN: dict[str, Any] = common.closed(
    {
        'id': common.UUID,
        'name': {'type': 'string'},
        'user_id': {'type': 'string'},
        'project_id': {'type': 'string'},
        'start_date': common.ANSWERED_DATE,
        'end_date': common.ANSWERED_DATE,
        'before_end_date': _ANSWERED_OR_NULL,
        'start_policy': OPTIONS['start_policy'],
        'before_start': OPTIONS['before_start'],
        'webhook': _SHOWN_WEBHOOK,
        'status': {'type': 'string', 'enum': [str(each) for each in states.LeaseStatus]},
        'status_reason': common.REASON,
        'degraded': {'type': 'boolean', 'description': 'A resource is gone, the others go on.'},
        'generation': {'type': 'integer', 'description': 'Counts the changes of the lease.'},
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
        'reservations': {'type': 'array', 'items': reservation.SHOWN},
        'events': {'type': 'array', 'items': _SHOWN_EVENT},
    }
)
DRY_RUN: dict[str, Any] = common.envelope(
    'dry_run',
    common.closed(
        {
            'granted': {'type': 'boolean'},
            'refusals': {
                'type': 'array',
                'items': common.ERROR,
                'description': 'All that would be refused, as errors are answered.',
            },
            'available_from': {
                **_ANSWERED_OR_NULL,
                'description': 'When what is refused is over, if that is known.',
            },
            'start_date': common.ANSWERED_DATE,
            'end_date': common.ANSWERED_DATE,
        }
    ),
)
ONE: dict[str, Any] = common.envelope('lease', SHOWN)
MANY: dict[str, Any] = paging.many('leases', SHOWN)
