# SPDX-License-Identifier: Apache-2.0
"""The types of notifications: when they are sent, and the JSON Schemas of their payloads.

The schemas are open: a receiver ignores unknown fields, because fields may be added. Incompatible
changes have another ``schema_version``.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from climate_core import notifications
from climate_core.lease import events, states
from climate_core.lease import usage as hours
from climate_hosts import notifications as power_notices
from climate_hosts.domain import power

_TIME = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}$'


def _value(kind: str | Sequence[str], about: str = '', **more: object) -> dict[str, Any]:
    schema = {'type': kind, **more}
    return {**schema, 'description': about} if about else schema


def _date(about: str, kind: str | Sequence[str] = 'string') -> dict[str, Any]:
    return _value(kind, about, pattern=_TIME)


def _status(statuses: Iterable[enum.StrEnum], about: str = '') -> dict[str, Any]:
    return _value('string', about, enum=[str(each) for each in statuses])


def _object(
    properties: Mapping[str, Any], about: str = '', kind: str | Sequence[str] = 'object'
) -> dict[str, Any]:
    return _value(kind, about, properties=properties, required=list(properties))


_NULLABLE = ['string', 'null']
_TEXT = _value('string')
_UUID = _value('string', 'A UUID.')
_EVENT_ID = _value('string', 'The identity of the notification.')
_REASON = _value(_NULLABLE, 'Why it is in this status, if there is something to say.')

RESERVATION = _object(
    {
        'id': _UUID,
        'resource_type': _TEXT,
        'resource_id': _TEXT,
        'status': _status(states.ReservationStatus),
        'status_reason': _REASON,
        'missing_resources': _value('boolean', 'The resource went away without the lease.'),
        'resources_changed': _value('boolean', 'It was replaced by another.'),
    }
)

EVENT = _object(
    {
        'id': _UUID,
        'event_type': _value('string', 'Without the ``lease.event.`` in front.'),
        'time': _date('When it is due.'),
        'status': _status(states.EventStatus),
        'status_reason': _REASON,
    }
)

_LEASE: dict[str, Any] = {
    'event_id': _EVENT_ID,
    'schema_version': _value(
        'integer',
        f'{notifications.VERSION}; another one changes what stands here.',
        const=notifications.VERSION,
    ),
    'lease_id': _UUID,
    'id': _value('string', 'The same as ``lease_id``.'),
    'name': _TEXT,
    'project_id': _TEXT,
    'user_id': _TEXT,
    'start_date': _date('When it starts.'),
    'end_date': _date('When it ends.'),
    'before_end_date': _date('When ``before_end_lease`` is sent; null: never.', _NULLABLE),
    'kind': _status(states.LeaseKind, 'What it does if capacity is insufficient.'),
    'retries_left': _value(
        ['integer', 'null'],
        'How often a queued lease is retried; also while the servers of a lease of the kind '
        'retry are being created.',
        minimum=0,
    ),
    'priority': _value(
        'integer', 'Leases with a higher priority are first in the queue.', minimum=0
    ),
    'preemptible': _value('boolean', 'Other leases may preempt it.'),
    'start_policy': _status(
        states.StartPolicy, 'Whether it starts by itself or is started by its user.'
    ),
    'status': _status(states.LeaseStatus, 'After the change.'),
    'status_reason': _REASON,
    'degraded': _value('boolean', 'A resource is lost, the others are active.'),
    'created_at': _date('When it was created.'),
    'updated_at': _date('When it was changed last.', _NULLABLE),
    'reservations': _value(
        'array',
        'Reservations also have the params of their plugins, as ``on_end``.',
        items=RESERVATION,
    ),
    'events': _value('array', items=EVENT),
    'reason': _value(_NULLABLE, 'The reason of a failure, or of a change outside of the lease.'),
}


def _hours(about: str) -> dict[str, Any]:
    return _object(dict.fromkeys(hours.HOURS, _value('number', minimum=0)), about)


def _span(about: str) -> dict[str, Any]:
    fields = {'begin': _TEXT, 'end': _TEXT, 'hours': _value('number')}
    return _object(fields, about, ['object', 'null'])


_USAGE: dict[str, Any] = {
    'event_id': _EVENT_ID,
    'schema_version': _value('integer', const=notifications.VERSION),
    'lease_id': _TEXT,
    'name': _TEXT,
    'project_id': _TEXT,
    'user_id': _TEXT,
    'begin': _value('string', 'When the period begins.'),
    'end': _value('string', 'When the period ends.'),
    'reserved': _hours('Resource-hours from the creation of the reservations on.'),
    'used': _hours('Resource-hours from the start of the resources on.'),
    'preempted': _hours('Resource-hours that a preemptible lease lost to other leases.'),
    'resources': _value(
        'array',
        minItems=1,
        items=_object(
            {
                'reservation_id': _TEXT,
                'resource_type': _TEXT,
                'resource_id': _TEXT,
                'units': _value('object', 'How much it holds, as ``vcpus`` and ``memory_mb``.'),
                'reserved': _span('When in the period it was reserved.'),
                'used': _span('When in the period it was used; null: not at all.'),
                'preempted': _span('When in the period its lease lacked it; null: not at all.'),
            }
        ),
    ),
}


_POWER: dict[str, Any] = {
    'event_id': _EVENT_ID,
    'schema_version': _value('integer', const=notifications.VERSION),
    'host_id': _value('string', 'Of the host in Climate.'),
    'hypervisor_hostname': _TEXT,
    'service_name': _value('string', 'Of its nova-compute.'),
    'pool': _TEXT,
    'power': _value(
        'string',
        'After the change.',
        enum=[power.AWAKE, *(str(each) for each in power.PowerState)],
    ),
    'time': _date('When.'),
    'reason': _value(_NULLABLE, 'The reason of a host that was not powered on.'),
}
_POWER_SENT: Mapping[str, str] = {
    str(power.PowerState.FALLING_ASLEEP): 'a host that no lease needs is to be powered off',
    str(power.PowerState.ASLEEP): 'a host is powered off',
    str(power.PowerState.WAKING): 'a host is to be powered on',
    power.AWAKE: 'a host accepts servers again, or was not powered off after all',
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


def _type(event_type: str, sent: str, fields: Mapping[str, Any] = _LEASE) -> NotificationType:
    schema = {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': event_type,
        **_object(fields),
    }
    return NotificationType(event_type, sent, schema)


#: The type of all events that users name.
GIVEN = _type(*next(iter(events.get_handler(events.BY_USER).notifications.items())))
#: The payloads that differ from those of a lease.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    'lease.event.before_start_lease': {
        **_LEASE,
        'starts_in': _value(
            'integer', 'Seconds from now to the start; 0 when it is due.', minimum=0
        ),
    },
    'lease.event.start_lease.error': {
        **_LEASE,
        'reason': _value('string', 'What went wrong.', minLength=1),
    },
    'lease.event.start_lease.warning': {
        **_LEASE,
        'reason': _value('string', 'What will go wrong.', minLength=1),
    },
}

TYPES: tuple[NotificationType, ...] = (
    _type('lease.create', 'a lease was created'),
    _type(
        'lease.update',
        'a lease was changed, or a resource joined or left it, or one of its resources was lost '
        'outside of the lease, or its webhook was removed, or its end has begun with a grace '
        'period for the servers on its hosts',
    ),
    _type('lease.delete', 'a lease was deleted, and its resources are freed'),
    *(
        _type(event_type, sent, _FIELDS.get(event_type, _LEASE))
        for handler in events.TABLE
        if not handler.hidden and not events.is_user_event(handler.event_type)
        for event_type, sent in handler.notifications.items()
        if event_type.startswith('lease.event.')
    ),
    GIVEN,
    _type(
        notifications.USAGE,
        'an hour or a day is over, for every lease that held resources',
        _USAGE,
    ),
    *(
        _type(f'{power_notices.PREFIX}{state}', sent, _POWER)
        for state, sent in _POWER_SENT.items()
    ),
    _type(
        power_notices.FAILED,
        'a host was not powered on in time: other hosts are allocated in its place if possible',
        _POWER,
    ),
)

_BY_TYPE = {kind.event_type: kind for kind in TYPES}


def get_type(event_type: str) -> NotificationType:
    """Return a type of notification.

    :raises KeyError: there is no such type
    """
    if event_type.startswith('lease.event.'):
        return _BY_TYPE.get(event_type, GIVEN)
    return _BY_TYPE[event_type]
