# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of leases: what users send, how they list leases, what is returned."""

from typing import Any, Final

from climate_common import durations, limits
from climate_core.api.schemas import common, reservations
from climate_core.db import listing
from climate_core.lease import events, history, states

#: python-climateclient sends null for an omitted field.
_BEFORE_END: dict[str, Any] = {
    **common.DATE,
    'type': ['string', 'null'],
    'description': 'When the notice before the end is sent. ' + common.DATE['description'],
}
_EVENT: dict[str, Any] = {
    **common.closed(
        {
            'event_type': {
                'type': 'string',
                'pattern': limits.json_pattern(limits.EVENT_TYPE_PATTERN),
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
    'maxLength': limits.TIME_LENGTH,
    'description': f'How long the lease lasts, in place of end_date: {durations.FORMS}.',
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
                'description': f'What is sent is signed with it: {limits.SECRET}. It is never '
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
    'description': 'Where the lease tells what happens to it.',
}
#: How a lease starts, and its notices.
OPTIONS: dict[str, Any] = {
    'start_policy': {
        'type': 'string',
        'enum': [str(each) for each in states.StartPolicy],
        'description': 'manual: at its start the lease waits until its user starts it.',
    },
    'before_start': {
        'type': 'array',
        'maxItems': limits.START_NOTICES,
        'items': {'type': 'integer', 'minimum': 1, 'maximum': limits.LONGEST_START_NOTICE},
        'description': 'Seconds before the start of the lease at which notices are sent.',
    },
    'webhook': _WEBHOOK,
}
_KIND: dict[str, Any] = {
    'type': 'string',
    'enum': [str(each) for each in states.LeaseKind],
    'description': 'immediate: all is held, or promised, at once. scheduled: the calendar '
    'promises it for its time. retry: it waits until there is enough. best_effort: shared hosts '
    'are emptied for it if there is not.',
}
_PRIORITY: dict[str, Any] = {
    'type': 'integer',
    'minimum': 0,
    'maximum': limits.PRIORITY,
    'description': 'Of the leases that wait, those with a higher one come first. By default 0.',
}

_PREEMPTIBLE: dict[str, Any] = {
    'type': 'boolean',
    'description': 'Whether leases that are not preemptible may take what it has, or is promised, '
    'when there is not enough for them; it waits then. By default false.',
}

CREATE: dict[str, Any] = {
    **common.closed(
        {
            'id': {
                **common.UUID,
                'description': 'Chosen by the client, so that a repeated request makes one lease.',
            },
            'name': limits.NAME_SCHEMA,
            **_DATES,
            'duration': _DURATION,
            **OPTIONS,
            'kind': _KIND,
            'max_retries': {
                'type': 'integer',
                'minimum': 1,
                'maximum': limits.RETRIES,
                'description': 'How often a lease of the kind retry is tried again at most.',
            },
            'priority': _PRIORITY,
            'preemptible': _PREEMPTIBLE,
            'best_effort_timeout': {
                'type': 'integer',
                'minimum': 1,
                'maximum': limits.BEST_EFFORT_SECONDS,
                'description': 'Seconds in which hosts must be empty for a lease of the kind '
                'best_effort.',
            },
            'reservations': {
                'type': 'array',
                'maxItems': limits.RESERVATIONS,
                'items': reservations.CREATE,
            },
            'events': {'type': 'array', 'maxItems': limits.EVENTS, 'items': _EVENT},
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
        'that is sent again with it gives the same lease, whatever became of that.',
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
        'name': limits.NAME_SCHEMA,
        **_DATES,
        'duration': _DURATION,
        **OPTIONS,
        'priority': _PRIORITY,
        'reservations': {
            'type': 'array',
            'maxItems': limits.RESERVATIONS,
            'items': reservations.LISTED_CHANGE,
            'description': 'Those of the lease that change, each with what changes.',
        },
        'events': {
            'type': 'array',
            'maxItems': limits.EVENTS,
            'items': _EVENT,
            'description': 'In place of those that were given before.',
        },
        'partial': {
            'type': 'boolean',
            'default': False,
            'description': 'With a later end: extend what can be extended. What the calendar does '
            'not promise any longer keeps the end that it had, and leaves the lease then. It is '
            'refused if nothing of the lease could be extended.',
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
        'kind': _KIND,
        'retries_left': {
            'type': ['integer', 'null'],
            'description': 'How often a lease that waits is tried again; also while the servers '
            'of one of the kind retry are being made.',
        },
        'priority': _PRIORITY,
        'preemptible': _PREEMPTIBLE,
        'queue_position': {
            'type': ['integer', 'null'],
            'description': 'How many leases, with it, come first of those that wait.',
        },
        'next_retry_at': {
            **_ANSWERED_OR_NULL,
            'description': 'When a lease that waits is tried again at the latest.',
        },
        'start_policy': OPTIONS['start_policy'],
        'before_start': OPTIONS['before_start'],
        'webhook': _SHOWN_WEBHOOK,
        'status': {'type': 'string', 'enum': [str(each) for each in states.LeaseStatus]},
        'status_reason': common.REASON,
        'degraded': {'type': 'boolean', 'description': 'A resource is gone, the others go on.'},
        'generation': {'type': 'integer', 'description': 'Counts the changes of the lease.'},
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
        'reservations': {'type': 'array', 'items': reservations.SHOWN},
        'events': {'type': 'array', 'items': _SHOWN_EVENT},
    }
)
DRY_RUN: dict[str, Any] = common.envelope(
    'dry_run',
    common.closed(
        {
            'granted': {
                'type': 'boolean',
                'description': 'The lease would be created with all that it asks for.',
            },
            'waits': {
                'type': 'boolean',
                'description': 'The lease would be created, and queued in the status WAITING.',
            },
            'refusals': {
                'type': 'array',
                'items': common.ERROR,
                'description': 'All reasons for a rejection, as errors are answered.',
            },
            'available_from': {
                **_ANSWERED_OR_NULL,
                'description': 'The earliest start that would be accepted, if that is known.',
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
    'resource_type': {
        **common.TEXT,
        'maxLength': limits.TYPE_LENGTH,
        'description': 'Only leases with a reservation of this type, whatever became of it.',
    },
    'resource_id': {
        **common.TEXT,
        'description': 'Only leases with a reservation of this resource, whatever became of it.',
    },
    'project_id': {
        **common.TEXT,
        'description': 'Only leases of this project. Another than the own one needs the policy '
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
        'description': 'true: only deleted leases, which are kept until they are purged, instead '
        'of only the others.',
    },
    'sort': _list_of(
        *(each for key in listing.SORT_KEYS for each in (key, f'{key}:asc', f'{key}:desc')),
        description='What the leases are sorted by, first things first. Without it: '
        '``created_at``.',
    ),
    'sort_key': _list_of(*listing.SORT_KEYS, description='Another way to write ``sort``.'),
    'sort_dir': _list_of(*_DIRECTIONS, description='The direction of each ``sort_key``.'),
    'limit': common.PAGE_LIMIT,
    'marker': {
        **common.UUID,
        'description': 'The id of the last lease of the page before.',
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
        'reason': {'type': ['string', 'null'], 'description': 'Why it failed, or is tried again.'},
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
        'description': 'The id of the last entry of the page before.',
    },
    'sort': {
        'type': 'string',
        'enum': ['time:asc', NEWEST_FIRST],
        'description': 'Which entries come first. Without it: the oldest.',
    },
}
