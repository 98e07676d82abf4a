# SPDX-License-Identifier: Apache-2.0
"""Build the payloads of notifications.

:mod:`climate_core.notifications.schemas` has the types, when they are sent, and the JSON Schemas.
A notification is sent at least once; receivers recognize a repeated one by its ``event_id``.
"""

import datetime
from collections.abc import Mapping
from typing import Any, Final

from climate_core.lease import events, model, views

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


def _reservation(reservation: model.Reservation) -> dict[str, Any]:
    """Return a reservation without the objects and lists of its specification, as metadata.

    Message queues store notifications in plain text, and every receiver on the bus reads them.
    """
    shown = views.common_reservation(reservation)
    for name in model.SPECIFICATIONS:
        specification = shown.get(name)
        if isinstance(specification, Mapping):
            shown[name] = {
                k: v for k, v in specification.items() if not isinstance(v, dict | list)
            }
    return shown
