# SPDX-License-Identifier: Apache-2.0
"""Build leases for tests, as values: nothing is written, and no service is asked."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from climate_core.lease import model
from climate_core.lease.events import schedule
from climate_core.plugins.base import ResourcePlugin

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
MINUTE = datetime.timedelta(minutes=1)


def reservation(
    resource_id: str = 'thing',
    status: str = 'pending',
    reason: str | None = None,
    made_at: datetime.datetime = NOON,
    parent_id: str | None = None,
    **params: Any,
) -> model.Reservation:
    """Return a reservation whose id is that of its resource."""
    new = model.new_reservation('lease', 't', resource_id, params, made_at, None, parent_id)
    return dataclasses.replace(new, id=resource_id, status=status, status_reason=reason)


def is_found(plugin: ResourcePlugin, one: model.Reservation, values: Mapping[str, Any]) -> bool:
    """Return whether a request finds a reservation of its lease."""
    keys = plugin.request_keys(one.lease_id, values)
    return not set(keys).isdisjoint(plugin.reservation_keys(one))


def lease(
    *reservations: model.Reservation,
    lease_id: str = 'lease',
    start: datetime.datetime = NOON,
    end: datetime.datetime | None = None,
    now: datetime.datetime = NOON,
    given: Iterable[tuple[str, datetime.datetime]] = (),
    always: Iterable[int] = (),
    **fields: Any,
) -> model.Lease:
    """Return a lease with the events that it has at its creation.

    :param end: two hours after the start if not given
    :param now: the time of the creation
    :param given: types and times of the events of its user
    :param always: seconds before the start at which the operator wants every lease to be told
    :param fields: of the lease, instead of those that it would have
    """
    values: dict[str, Any] = {
        'id': lease_id,
        'name': 'name',
        'project_id': 'project',
        'user_id': 'user',
        'start_date': start,
        'end_date': end or start + 2 * HOUR,
        'before_end_date': None,
        'status': 'PENDING',
        'status_reason': None,
        'degraded': False,
        'trust_id': 'trust',
        'generation': 0,
        'created_at': now,
        'updated_at': None,
        'deleted_at': None,
        'reservations': model.order_joining((), reservations),
    }
    new = model.Lease(**values | fields)
    if 'events' in fields:
        return new
    first = schedule.first_events(new, given, now, always)
    return dataclasses.replace(new, events=first)


def event(one: model.Lease, event_type: str) -> model.Event:
    """Return the event of a lease, which has one of this type."""
    found = one.event(event_type)
    assert found is not None
    return found


def claimed(one: model.Lease, event_type: str) -> tuple[model.Lease, model.Event]:
    """Return a lease one of whose events is worked on, and this event."""
    busy = dataclasses.replace(event(one, event_type), status='IN_PROGRESS', generation=1)
    return one.with_events(busy), busy
