# SPDX-License-Identifier: Apache-2.0
"""Build the payloads of notifications.

:mod:`climate_core.notifications.schemas` has the types, when they are sent, and the JSON Schemas.
A notification is sent at least once; receivers recognize a repeated one by its ``event_id``.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from climate_common import dates, resource_types
from climate_core.lease import events, model, usage, views

#: Grows when a payload changes incompatibly; new fields do not change it.
VERSION = 1
#: The type of the usage of a lease, for a system that rates it.
USAGE: Final = 'lease.usage'


def build(
    event_type: str, lease: model.Lease, now: datetime.datetime, reason: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the type and the payload of a notification; the outbox adds the ``event_id``.

    :param reason: the reason of a failure, or of a change outside of the lease
    """
    handler = events.get_handler(event_type.removeprefix('lease.event.'))
    return event_type, {**lease_payload(lease, reason), **handler.payload(lease, now)}


def lease_payload(lease: model.Lease, reason: str | None = None) -> dict[str, Any]:
    """Return a lease as JSON types. Times are UTC, ``YYYY-MM-DDTHH:MM:SS.ffffff``."""
    return {
        'schema_version': VERSION,
        'lease_id': lease.id,
        **views.notified_fields(lease),
        'reservations': [_reservation(each) for each in lease.reservations],
        'events': [views.common_event(each) for each in views.visible_events(lease)],
        'reason': reason,
    }


def _reservation(one: model.Reservation) -> dict[str, Any]:
    """Return a reservation without the objects and lists of its specification, as metadata.

    Message queues store notifications in plain text, and every receiver on the bus reads them.
    """
    shown = views.common_reservation(one)
    for name in model.SPECIFICATIONS:
        specification = shown.get(name)
        if isinstance(specification, Mapping):
            shown[name] = {
                k: v for k, v in specification.items() if not isinstance(v, dict | list)
            }
    return shown


def usage_payload(uses: Sequence[usage.ReservationUse], period: usage.Span) -> dict[str, Any]:
    """Return the usage of one lease in a period as JSON types.

    :param uses: its reservations, at least one
    """
    first, total = uses[0], usage.sum_lease(uses, period)
    return {
        'schema_version': VERSION,
        'lease_id': first.lease_id,
        'name': first.lease_name,
        'project_id': first.project_id,
        'user_id': first.user_id,
        'begin': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'reserved': usage.round_hours(total.reserved),
        'used': usage.round_hours(total.used),
        'preempted': usage.round_hours(total.preempted),
        'resources': [
            {
                'reservation_id': each.id,
                'resource_type': resource_types.api_name(each.resource_type),
                'resource_id': each.resource_id,
                'units': dict(each.amounts),
                'reserved': _span(each.reserved(period)),
                'used': _span(each.used(period)),
                'preempted': _span(each.preempted(period)),
            }
            for each in uses
        ],
    }


def _span(span: usage.Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    begin, end = dates.serialize(span.begin), dates.serialize(span.end)
    return {'begin': begin, 'end': end, 'hours': round(span.hours, 6)}
