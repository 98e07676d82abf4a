# SPDX-License-Identifier: Apache-2.0
"""What is told to the world: notifications with the whole lease, without its trust.

Event types: ``lease.create``, ``lease.update``, ``lease.delete``, and ``lease.event.<type>`` for
each event that happened (``start_lease``, ``end_lease``, ``before_end_lease``,
``before_start_lease`` and those that users give), ``lease.event.<type>.error`` when it failed.

Each is sent at least once. A receiver knows one that comes twice by its ``event_id``.
"""

from typing import Any

from climate_core.lease import dates, model


def make(
    event_type: str, lease: model.Lease, reason: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Make the type and the payload of a notification.

    :param reason: why, for what went wrong or happened behind the lease's back
    """
    return event_type, payload(lease, reason)


def payload(lease: model.Lease, reason: str | None = None) -> dict[str, Any]:
    """Write a lease as JSON types. Times are UTC, ``YYYY-MM-DDTHH:MM:SS.ffffff``."""
    return {
        'lease_id': lease.id,
        'id': lease.id,
        'name': lease.name,
        'project_id': lease.project_id,
        'user_id': lease.user_id,
        'start_date': dates.show(lease.start_date),
        'end_date': dates.show(lease.end_date),
        'before_end_date': dates.show(lease.before_end_date),
        'status': lease.status,
        'status_reason': lease.status_reason,
        'degraded': lease.degraded,
        'created_at': dates.show(lease.created_at),
        'updated_at': dates.show(lease.updated_at),
        'reservations': [_reservation(r) for r in lease.reservations],
        'events': [_event(e) for e in lease.shown_events],
        'reason': reason,
    }


def _reservation(reservation: model.Reservation) -> dict[str, Any]:
    return {
        **reservation.params,
        'id': reservation.id,
        'resource_type': reservation.resource_type,
        'resource_id': reservation.resource_id,
        'status': reservation.status,
        'status_reason': reservation.status_reason,
        'missing_resources': reservation.missing_resources,
        'resources_changed': reservation.resources_changed,
    }


def _event(event: model.Event) -> dict[str, Any]:
    return {
        'id': event.id,
        'event_type': event.event_type,
        'time': dates.show(event.time),
        'status': event.status,
        'status_reason': event.status_reason,
    }
