# SPDX-License-Identifier: Apache-2.0
"""Every notification: its type, when it is sent, and the JSON Schema of its payload.

The schemas are open: a receiver must overlook what it does not know, for fields may be added.
What it cannot overlook comes with another ``schema_version``.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from climate_core import notifications
from climate_core.lease import events, states
from climate_core.notifications import usage

_UUID: dict[str, Any] = {'type': 'string', 'description': 'A UUID.'}
_TEXT: dict[str, Any] = {'type': 'string'}
_TIME = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}$'
_DATE: dict[str, Any] = {'type': 'string', 'pattern': _TIME}
_REASON: dict[str, Any] = {
    'type': ['string', 'null'],
    'description': 'Why it is in this status, if there is something to say.',
}


def _date(about: str, null: bool = False) -> dict[str, Any]:
    kind: Any = ['string', 'null'] if null else 'string'
    return {**_DATE, 'type': kind, 'description': about}


def _status(statuses: Iterable[enum.StrEnum]) -> dict[str, Any]:
    return {'type': 'string', 'enum': [str(each) for each in statuses]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {'type': 'object', 'properties': properties, 'required': list(properties)}


RESERVATION: dict[str, Any] = _object(
    {
        'id': _UUID,
        'resource_type': _TEXT,
        'resource_id': _TEXT,
        'status': _status(states.ReservationStatus),
        'status_reason': _REASON,
        'missing_resources': {
            'type': 'boolean',
            'description': 'The resource went away without the lease.',
        },
        'resources_changed': {'type': 'boolean', 'description': 'It was replaced by another.'},
    }
)

EVENT: dict[str, Any] = _object(
    {
        'id': _UUID,
        'event_type': {**_TEXT, 'description': 'Without the ``lease.event.`` in front.'},
        'time': _date('When it is due.'),
        'status': _status(states.EventStatus),
        'status_reason': _REASON,
    }
)

_LEASE: dict[str, Any] = {
    'event_id': {**_UUID, 'description': 'The identity of the notification.'},
    'schema_version': {
        'type': 'integer',
        'const': notifications.VERSION,
        'description': f'{notifications.VERSION}; another one changes what stands here.',
    },
    'lease_id': _UUID,
    'id': {**_UUID, 'description': 'The same as ``lease_id``.'},
    'name': _TEXT,
    'project_id': _TEXT,
    'user_id': _TEXT,
    'start_date': _date('When it starts.'),
    'end_date': _date('When it ends.'),
    'before_end_date': _date('When its end is told; null when it is not.', null=True),
    'start_policy': {
        'type': 'string',
        'enum': [str(each) for each in states.StartPolicy],
        'description': 'Whether it starts by itself or is started by its user.',
    },
    'status': {**_status(states.LeaseStatus), 'description': 'After what is told.'},
    'status_reason': _REASON,
    'degraded': {'type': 'boolean', 'description': 'A resource is gone, the others go on.'},
    'created_at': _date('When it was made.'),
    'updated_at': _date('When it was changed last.', null=True),
    'reservations': {
        'type': 'array',
        'items': RESERVATION,
        'description': 'Each has, beside these, what its plugin keeps, as ``on_end``.',
    },
    'events': {'type': 'array', 'items': EVENT},
    'reason': {
        'type': ['string', 'null'],
        'description': 'Why, for what went wrong or happened behind the back of the lease.',
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One type of notification.

    :param sent: when it is sent
    :param schema: of the payload
    """

    event_type: str
    sent: str
    schema: Mapping[str, Any]


def _kind(event_type: str, sent: str, **more: Mapping[str, Any]) -> Kind:
    """Make a kind that tells of a lease.

    :param more: fields that it has beside those of a lease, or in another way
    """
    properties = {**_LEASE, **more}
    schema = {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': event_type,
        **_object(properties),
    }
    return Kind(event_type, sent, schema)


_WHY = {'type': 'string', 'minLength': 1, 'description': 'What went wrong.'}
_STARTS_IN = {
    'type': 'integer',
    'minimum': 0,
    'description': 'Seconds from now to the start; 0 when it is due.',
}

#: The one of an event that a user gave, for which there is no name of its own.
GIVEN = _kind(*next(iter(events.of(events.BY_USER).notifications.items())))
#: What a payload has beside the lease, or in another way.
_MORE: Mapping[str, Mapping[str, Any]] = {
    'lease.event.before_start_lease': {'starts_in': _STARTS_IN},
    'lease.event.start_lease.error': {'reason': _WHY},
}

KINDS: tuple[Kind, ...] = (
    _kind('lease.create', 'a lease was made'),
    _kind(
        'lease.update',
        'a lease was changed, or a resource joined or left it, or one of its resources was lost '
        'behind its back, or its webhook was taken away',
    ),
    _kind('lease.delete', 'a lease was deleted, and its resources are freed'),
    *(
        _kind(event_type, sent, **_MORE.get(event_type, {}))
        for handler in events.TABLE
        if not handler.hidden and not events.named_by_user(handler.event_type)
        for event_type, sent in handler.notifications.items()
    ),
    GIVEN,
    Kind(usage.TYPE, 'an hour or a day is over, for each lease that held something', usage.SCHEMA),
)

_BY_TYPE = {kind.event_type: kind for kind in KINDS}


def of(event_type: str) -> Kind:
    """Find a type of notification.

    :raises KeyError: there is none
    """
    if event_type.startswith('lease.event.'):
        return _BY_TYPE.get(event_type, GIVEN)
    return _BY_TYPE[event_type]
