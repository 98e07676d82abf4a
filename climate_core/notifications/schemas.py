# SPDX-License-Identifier: Apache-2.0
"""The types of notifications: when they are sent, and the JSON Schemas of their payloads.

The schemas are open: a receiver ignores unknown fields, because fields may be added. Incompatible
changes have another ``schema_version``.
"""

import dataclasses
import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from climate_common import lease_fields, resource_types
from climate_core import notifications, packages
from climate_core.lease import events, states

_TIME = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}$'


def value_schema(
    json_type: str | Sequence[str], about: str = '', **more: object
) -> dict[str, Any]:
    """Return the schema of a value of a payload."""
    schema = {'type': json_type, **more}
    return {**schema, 'description': about} if about else schema


def date_schema(about: str, json_type: str | Sequence[str] = 'string') -> dict[str, Any]:
    """Return the schema of a time of a payload."""
    return value_schema(json_type, about, pattern=_TIME)


def _status(statuses: Iterable[enum.StrEnum], about: str = '') -> dict[str, Any]:
    return value_schema('string', about, enum=[str(each) for each in statuses])


def _object(
    properties: Mapping[str, Any], about: str = '', json_type: str | Sequence[str] = 'object'
) -> dict[str, Any]:
    return value_schema(json_type, about, properties=properties, required=list(properties))


NULLABLE = ['string', 'null']
TEXT = value_schema('string')
_UUID = value_schema('string', 'A UUID.')
EVENT_ID = value_schema('string', 'The identity of the notification.')
_REASON = value_schema(NULLABLE, 'Reason for the status, if any.')

RESERVATION = _object(
    {
        'id': _UUID,
        'resource_type': TEXT,
        'resource_id': TEXT,
        'status': _status(states.ReservationStatus),
        'status_reason': _REASON,
        'missing_resources': value_schema('boolean', 'The resource went away without the lease.'),
        'resources_changed': value_schema('boolean', 'It was replaced by another.'),
    }
)

EVENT = _object(
    {
        'id': _UUID,
        'event_type': value_schema('string', 'Without the ``lease.event.`` in front.'),
        'time': date_schema('When it is due.'),
        'status': _status(states.EventStatus),
        'status_reason': _REASON,
    }
)

#: A type of a field -> its schema.
_SCHEMAS: dict[str, dict[str, Any]] = {
    lease_fields.TEXT: TEXT,
    lease_fields.UUID: _UUID,
    lease_fields.STATUS: _status(states.LeaseStatus),
    lease_fields.CHOICE: TEXT,
    lease_fields.INTEGER: value_schema('integer'),
    lease_fields.BOOLEAN: value_schema('boolean'),
    lease_fields.DATE: date_schema(''),
    lease_fields.STAMP: date_schema(''),
    lease_fields.SECONDS: value_schema('array', items=value_schema('integer')),
    lease_fields.RESERVATIONS: value_schema('array', items=RESERVATION),
    lease_fields.EVENTS: value_schema('array', items=EVENT),
}


def _schema_of(field: lease_fields.Field) -> dict[str, Any]:
    schema = {**_SCHEMAS[field.type]}
    if field.nullable:
        schema['type'] = [schema['type'], 'null']
    if field.choices:
        schema['enum'] = [*field.choices, None] if field.nullable else list(field.choices)
    if field.type == lease_fields.INTEGER:
        schema['minimum'] = field.minimum
    return {**schema, 'description': field.description} if field.description else schema


_LEASE: dict[str, Any] = {
    'event_id': EVENT_ID,
    'schema_version': value_schema(
        'integer',
        'Version of this schema. A higher version is incompatible.',
        const=notifications.VERSION,
    ),
    'lease_id': _UUID,
    **{
        field.name: _schema_of(field) for field in lease_fields.shown_in(lease_fields.NOTIFICATION)
    },
    'reservations': value_schema(
        'array',
        'Reservations also have the params of their plugins, as ``on_end``.',
        items=RESERVATION,
    ),
    'reason': value_schema(
        NULLABLE, 'The reason of a failure, or of a change outside of the lease.'
    ),
}


def _hours(about: str) -> dict[str, Any]:
    return _object(
        dict.fromkeys(resource_types.UNIT_HOURS, value_schema('number', minimum=0)), about
    )


def _span(about: str) -> dict[str, Any]:
    fields = {'begin': TEXT, 'end': TEXT, 'hours': value_schema('number')}
    return _object(fields, about, ['object', 'null'])


_USAGE: dict[str, Any] = {
    'event_id': EVENT_ID,
    'schema_version': value_schema('integer', const=notifications.VERSION),
    'lease_id': TEXT,
    'name': TEXT,
    'project_id': TEXT,
    'user_id': TEXT,
    'begin': value_schema('string', 'When the period begins.'),
    'end': value_schema('string', 'When the period ends.'),
    'reserved': _hours('Resource-hours from the creation of the reservations on.'),
    'used': _hours('Resource-hours from the start of the resources on.'),
    'preempted': _hours('Resource-hours that a preemptible lease lost to other leases.'),
    'resources': value_schema(
        'array',
        minItems=1,
        items=_object(
            {
                'reservation_id': TEXT,
                'resource_type': TEXT,
                'resource_id': TEXT,
                'units': value_schema(
                    'object', 'How much it holds, as ``vcpus`` and ``memory_mb``.'
                ),
                'reserved': _span('When in the period it was reserved.'),
                'used': _span('When in the period it was used; null: not at all.'),
                'preempted': _span('When in the period its lease lacked it; null: not at all.'),
            }
        ),
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class NotificationType:
    """One type of notification.

    :param sent: when it is sent
    :param schema: of the payload
    """

    event_type: str
    sent: str
    schema: Mapping[str, Any]


def create_type(
    event_type: str, sent: str, fields: Mapping[str, Any] = _LEASE
) -> NotificationType:
    schema = {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': event_type,
        **_object(fields),
    }
    return NotificationType(event_type, sent, schema)


#: The type of all events that users name.
USER_EVENT_TYPE = create_type(
    *next(iter(events.get_handler(events.USER_EVENT).notifications.items()))
)
#: The payloads that differ from those of a lease.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    'lease.event.before_start_lease': {
        **_LEASE,
        'starts_in': value_schema(
            'integer', 'Seconds from now to the start; 0 when it is due.', minimum=0
        ),
    },
    'lease.event.start_lease.error': {
        **_LEASE,
        'reason': value_schema('string', 'What went wrong.', minLength=1),
    },
    'lease.event.start_lease.warning': {
        **_LEASE,
        'reason': value_schema('string', 'What will go wrong.', minLength=1),
    },
}

_TYPES: tuple[NotificationType, ...] = (
    create_type('lease.create', 'a lease was created'),
    create_type(
        'lease.update',
        'a lease was changed, or a resource joined or left it, or one of its resources was lost '
        'outside of the lease, or its webhook was removed, or its end has begun with a grace '
        'period for the servers on its hosts',
    ),
    create_type('lease.delete', 'a lease was deleted, and its resources are freed'),
    *(
        create_type(event_type, sent, _FIELDS.get(event_type, _LEASE))
        for handler in events.TABLE
        if not handler.hidden and not events.is_user_event(handler.event_type)
        for event_type, sent in handler.notifications.items()
        if event_type.startswith('lease.event.')
    ),
    USER_EVENT_TYPE,
    create_type(
        notifications.USAGE,
        'an hour or a day is over, for every lease that held resources',
        _USAGE,
    ),
)


def list_types() -> list[NotificationType]:
    """Return every type, with those of reservation packages."""
    found = [
        notification
        for package in packages.list_packages()
        for notification in package.list_notifications()
    ]
    return [*_TYPES, *found]


@functools.cache
def _by_type() -> dict[str, NotificationType]:
    return {notification.event_type: notification for notification in list_types()}


def get_type(event_type: str) -> NotificationType:
    """Return a type of notification.

    :raises KeyError: there is no such type
    """
    if event_type.startswith('lease.event.'):
        return _by_type().get(event_type, USER_EVENT_TYPE)
    return _by_type()[event_type]
