# SPDX-License-Identifier: Apache-2.0
"""Build notifications."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from climate_common import dates, resource_types
from climate_core.lease import events, model, usage, views

#: Grows when a payload changes in a way that a receiver cannot overlook; new fields may come
#: without it.
VERSION = 1


def build(
    event_type: str, lease: model.Lease, now: datetime.datetime, reason: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Make the type and the payload of a notification.

    The outbox adds the ``event_id``.

    :param now: when it happens
    :param reason: why, for what went wrong or happened behind the lease's back
    """
    handler = events.get_handler(event_type.removeprefix('lease.event.'))
    return event_type, {**lease_payload(lease, reason), **handler.payload(lease, now)}


def lease_payload(lease: model.Lease, reason: str | None = None) -> dict[str, Any]:
    """Write a lease as JSON types. Times are UTC, ``YYYY-MM-DDTHH:MM:SS.ffffff``."""
    return {
        'schema_version': VERSION,
        'lease_id': lease.id,
        **views.common_lease(lease),
        'before_end_date': dates.serialize(lease.before_end_date),
        'kind': str(lease.kind),
        'retries_left': lease.retries_left,
        'priority': lease.priority,
        'preemptible': lease.preemptible,
        'start_policy': str(lease.start_policy),
        'created_at': dates.serialize(lease.created_at),
        'updated_at': dates.serialize(lease.updated_at),
        'reservations': [_reservation(each) for each in lease.reservations],
        'events': [views.common_event(each) for each in views.visible_events(lease)],
        'reason': reason,
    }


def _reservation(one: model.Reservation) -> dict[str, Any]:
    """Return a reservation without the objects and lists of its specification, as metadata.

    The queues store notifications in plain text, and every receiver on the bus reads them.
    """
    shown = views.common_reservation(one)
    for name in model.SPECIFICATIONS:
        said = shown.get(name)
        if isinstance(said, Mapping):
            shown[name] = {k: v for k, v in said.items() if not isinstance(v, dict | list)}
    return shown


USAGE: Final = 'lease.usage'


def usage_payload(uses: Sequence[usage.ReservationUse], period: usage.Span) -> dict[str, Any]:
    """Write what one lease had in a period as JSON types.

    :param uses: its reservations, at least one
    """
    first, total = uses[0], usage.of_lease(uses, period)
    return {
        'schema_version': VERSION,
        'lease_id': first.lease_id,
        'name': first.lease_name,
        'project_id': first.project_id,
        'user_id': first.user_id,
        'begin': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'reserved': usage.rounded(total.reserved),
        'used': usage.rounded(total.used),
        'preempted': usage.rounded(total.preempted),
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
