# SPDX-License-Identifier: Apache-2.0
"""A lease: what a user may send, and what is answered."""

from typing import Any

from climate_core.api.schemas import common, paging, reservation
from climate_core.lease import model, states

#: Something to read, and nothing that a database or a terminal chokes on.
_NAME: dict[str, Any] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': 255,
    'pattern': r'^(?=.*\S)[^\u0000-\u001f\ud800-\udfff]*$',
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
                'pattern': r'^[a-z][a-z0-9_.-]{0,65}(?!\n)$',
                'not': {'enum': sorted(model.OWN_EVENTS)},
                'description': 'Any name in lower case that the service does not use itself.',
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

CREATE: dict[str, Any] = common.closed(
    {
        'id': {
            **common.UUID,
            'description': 'Chosen by the client, so that a repeated request makes one lease.',
        },
        'name': _NAME,
        **_DATES,
        'reservations': {'type': 'array', 'maxItems': 1000, 'items': reservation.CREATE},
        'events': {'type': 'array', 'maxItems': 100, 'items': _EVENT},
    },
    ('name', 'end_date'),
)

UPDATE: dict[str, Any] = common.closed(
    {
        'name': _NAME,
        **_DATES,
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

SHOWN: dict[str, Any] = common.closed(
    {
        'id': common.UUID,
        'name': {'type': 'string'},
        'user_id': {'type': 'string'},
        'project_id': {'type': 'string'},
        'start_date': common.ANSWERED_DATE,
        'end_date': common.ANSWERED_DATE,
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
ONE: dict[str, Any] = common.envelope('lease', SHOWN)
MANY: dict[str, Any] = paging.many('leases', SHOWN)
