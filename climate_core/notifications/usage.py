# SPDX-License-Identifier: Apache-2.0
"""The notification of the usage of a lease, for a system that rates it."""

from collections.abc import Sequence
from typing import Any, Final

from climate_common import dates
from climate_core import notifications
from climate_core.lease import usage

TYPE: Final = 'lease.usage'


def payload(uses: Sequence[usage.Use], period: usage.Span) -> dict[str, Any]:
    """Write what one lease had in a period as JSON types.

    :param uses: its reservations, at least one
    """
    first, total = uses[0], usage.of_lease(uses, period)
    return {
        'schema_version': notifications.VERSION,
        'lease_id': first.lease_id,
        'name': first.lease_name,
        'project_id': first.project_id,
        'user_id': first.user_id,
        'begin': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'reserved': usage.rounded(total.reserved),
        'used': usage.rounded(total.used),
        'resources': [_resource(each, period) for each in uses],
    }


def _resource(use: usage.Use, period: usage.Span) -> dict[str, Any]:
    return {
        'reservation_id': use.id,
        'resource_type': use.resource_type,
        'resource_id': use.resource_id,
        'units': dict(use.amounts),
        'reserved': _span(use.reserved(period)),
        'used': _span(use.used(period)),
    }


def _span(span: usage.Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {
        'begin': dates.serialize(span.begin),
        'end': dates.serialize(span.end),
        'hours': round(span.hours, 6),
    }


_TEXT: dict[str, Any] = {'type': 'string'}


def _object(properties: dict[str, Any], about: str = '') -> dict[str, Any]:
    schema = {'type': 'object', 'properties': properties, 'required': list(properties)}
    return {**schema, 'description': about} if about else schema


def _text(about: str) -> dict[str, Any]:
    return {**_TEXT, 'description': about}


def _hours(about: str) -> dict[str, Any]:
    return _object({name: {'type': 'number', 'minimum': 0} for name in usage.HOURS}, about)


def _when(about: str) -> dict[str, Any]:
    schema = _object({'begin': _TEXT, 'end': _TEXT, 'hours': {'type': 'number'}}, about)
    return {**schema, 'type': ['object', 'null']}


#: JSON Schema of the payload.
SCHEMA: dict[str, Any] = {
    '$schema': 'https://json-schema.org/draft/2020-12/schema',
    'title': TYPE,
    **_object(
        {
            'event_id': _text('The identity of the notification.'),
            'schema_version': {'type': 'integer', 'const': notifications.VERSION},
            'lease_id': _TEXT,
            'name': _TEXT,
            'project_id': _TEXT,
            'user_id': _TEXT,
            'begin': _text('When the period begins.'),
            'end': _text('When the period ends.'),
            'reserved': _hours('Resource-hours from the making of each reservation on.'),
            'used': _hours('Resource-hours from the waking of each resource on.'),
            'resources': {
                'type': 'array',
                'minItems': 1,
                'items': _object(
                    {
                        'reservation_id': _TEXT,
                        'resource_type': _TEXT,
                        'resource_id': _TEXT,
                        'units': {
                            'type': 'object',
                            'description': 'How much it holds, as ``vcpus`` and ``memory_mb``.',
                        },
                        'reserved': _when('When in the period it was reserved.'),
                        'used': _when('When in the period it was used; null: not at all.'),
                    }
                ),
            },
        }
    ),
}
