# SPDX-License-Identifier: Apache-2.0
"""Notifications: each has the whole lease, without its trust.

:mod:`climate_core.notifications.schemas` has every type, when it is sent and its JSON Schema.
Each is sent at least once. A receiver knows one that comes twice by its ``event_id``.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from climate_common import dates
from climate_core.lease import events, model, serialize

#: Grows when a payload changes in a way that a receiver cannot overlook; new fields may come
#: without it.
VERSION = 1


def make(
    event_type: str, lease: model.Lease, now: datetime.datetime, reason: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Make the type and the payload of a notification.

    The outbox adds the ``event_id``.

    :param now: when it happens
    :param reason: why, for what went wrong or happened behind the lease's back
    """
    handler = events.of(event_type.removeprefix('lease.event.'))
    return event_type, {**payload(lease, reason), **handler.payload(lease, now)}


def payload(lease: model.Lease, reason: str | None = None) -> dict[str, Any]:
    """Write a lease as JSON types. Times are UTC, ``YYYY-MM-DDTHH:MM:SS.ffffff``."""
    return {
        'schema_version': VERSION,
        'lease_id': lease.id,
        **serialize.lease(lease),
        'before_end_date': dates.serialize(lease.before_end_date),
        'kind': str(lease.kind),
        'retries_left': lease.retries_left,
        'priority': lease.priority,
        'preemptible': lease.preemptible,
        'start_policy': str(lease.start_policy),
        'created_at': dates.serialize(lease.created_at),
        'updated_at': dates.serialize(lease.updated_at),
        'reservations': [_reservation(each) for each in lease.reservations],
        'events': [serialize.event(each) for each in events.visible(lease)],
        'reason': reason,
    }


def _reservation(one: model.Reservation) -> dict[str, Any]:
    """Return a reservation without the objects and lists of its specification, as metadata.

    The queues store notifications in plain text, and every receiver on the bus reads them.
    """
    shown = serialize.reservation(one)
    for name in model.SPECIFICATIONS:
        said = shown.get(name)
        if isinstance(said, Mapping):
            shown[name] = {k: v for k, v in said.items() if not isinstance(v, dict | list)}
    return shown
