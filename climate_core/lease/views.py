# SPDX-License-Identifier: Apache-2.0
"""Leases as lists read them, and as the API and notifications show them. Pure.

The API and notifications share the ``common_`` fields; dates are ``YYYY-MM-DDTHH:MM:SS.ffffff``.
``created_at`` and ``updated_at`` of the API have neither microseconds nor a ``T``, as clients of
Blazar read them. All times are UTC. Nothing shows the owner's trust, the secret of a webhook, or
the engine's claims and attempts.

A list has thousands of events. The summaries take a fifth of the time of the values of
:mod:`climate_core.lease.model`, which have more fields and are checked when they change.
"""

import functools
import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, overload

from climate_common import dates, resource_types
from climate_core import packages
from climate_core.lease import model, states, webhook
from climate_core.lease.events.base import get_handler
from climate_core.lease.model import Event, Lease

#: A time as it was read. A text has the format of a database, ``YYYY-MM-DD HH:MM:SS.ffffff`` in
#: UTC. All times of a list have one type.
Time = datetime | str


#: What a manager returns to an API that creates a lease: the lease as the API shows it; or only
#: the id of a lease that existed before or is queued.
CreatedLease = dict[str, Any] | str

#: The length of a time without its zone.
_SECONDS: Final = len('YYYY-MM-DD HH:MM:SS')
_IN_ORDER: Final = operator.attrgetter('time', 'id')


class EventSummary(NamedTuple):
    """An event in a list, see :class:`.model.Event`."""

    id: str
    lease_id: str
    event_type: str
    time: Time
    status: str
    status_reason: str | None
    created_at: Time
    updated_at: Time | None
    reservation_id: str | None

    @property
    def open(self) -> bool:
        """Return whether there is still something to do."""
        return self.status in states.OPEN


class ReservationSummary(NamedTuple):
    """A reservation in a list, see :class:`.model.Reservation`."""

    id: str
    lease_id: str
    resource_type: str
    resource_id: str
    status: str
    status_reason: str | None
    params: Mapping[str, Any]
    missing_resources: bool
    resources_changed: bool
    created_at: Time
    updated_at: Time | None
    progress: Mapping[str, Any] | None
    unit_kind: str | None
    allocations: Sequence[model.Allocation] = ()


class LeaseSummary(NamedTuple):
    """A lease in a list, see :class:`.model.Lease`."""

    id: str
    name: str
    project_id: str
    user_id: str
    start_date: Time
    end_date: Time
    before_end_date: Time | None
    status: str
    status_reason: str | None
    degraded: bool
    generation: int
    created_at: Time
    updated_at: Time | None
    start_policy: str
    before_start: Sequence[int]
    webhook: Mapping[str, Any] | None
    kind: str
    retries_left: int | None
    priority: int
    preemptible: bool
    reservations: Sequence[ReservationSummary] = ()
    events: Sequence[EventSummary] = ()

    @property
    def live(self) -> Sequence[ReservationSummary]:
        """Return the reservations that hold their resource."""
        return [each for each in self.reservations if each.status in states.LIVE]

    @property
    def early_ends(self) -> Mapping[str, Time]:
        """Return the ends of reservations that end before the lease, by their ids."""
        ends = [each for each in self.events_of(model.END_RESERVATION) if each.open]
        if not ends:
            return {}
        staying = {
            each.id for each in self.live if each.status != states.ReservationStatus.DELETING
        }
        return {e.reservation_id: e.time for e in ends if e.reservation_id in staying}

    @property
    def next_retry_at(self) -> Time | None:
        """Return when a queued lease is retried; None for other leases."""
        if self.status != states.LeaseStatus.WAITING:
            return None
        return next((each.time for each in self.events_of(model.RETRY) if each.open), None)

    def events_of(self, event_type: str) -> Sequence[EventSummary]:
        """Return the events of a type."""
        return [each for each in self.events if each.event_type == event_type]


def common_lease(one: model.Lease | LeaseSummary) -> dict[str, Any]:
    """Return the lease without its reservations, its events and the times of its changes."""
    return {
        'id': one.id,
        'name': one.name,
        'user_id': one.user_id,
        'project_id': one.project_id,
        'start_date': dates.serialize(one.start_date),
        'end_date': dates.serialize(one.end_date),
        'status': one.status,
        'status_reason': one.status_reason,
        'degraded': one.degraded,
    }


def common_reservation(one: model.Reservation | ReservationSummary) -> dict[str, Any]:
    """Return a reservation; params of its plugin never replace other fields."""
    return {
        **visible_params(one),
        **_allocation_fields(one),
        'id': one.id,
        'resource_id': one.resource_id,
        'resource_type': resource_types.api_name(one.resource_type),
        'status': one.status,
        'status_reason': one.status_reason,
        'missing_resources': one.missing_resources,
        'resources_changed': one.resources_changed,
    }


def visible_params(one: model.Reservation | ReservationSummary) -> dict[str, Any]:
    """Return the params of a reservation that users may see."""
    return {name: value for name, value in one.params.items() if not name.startswith('_')}


def _allocation_fields(one: model.Reservation | ReservationSummary) -> dict[str, Any]:
    """Return the allocations of a reservation, by the names that users know."""
    view = None if one.unit_kind is None else _views_by_unit_kind().get(one.unit_kind)
    return {} if view is None else view(one)


@functools.cache
def _views_by_unit_kind() -> dict[str, packages.ReservationView]:
    return {
        kind: view
        for package in packages.list_packages()
        for kind, view in package.list_reservation_views().items()
    }


def common_event(one: model.Event | EventSummary) -> dict[str, Any]:
    """Return an event."""
    return {
        'id': one.id,
        'event_type': one.event_type,
        'time': dates.serialize(one.time),
        'status': one.status,
        'status_reason': one.status_reason,
    }


def lease_view(
    one: model.Lease | LeaseSummary, position: int | None = None, viewer_id: str | None = None
) -> dict[str, Any]:
    """Return a lease as the API shows it.

    :param position: its position in the queue, if it is queued
    :param viewer_id: the user who reads it: only the owner reads the whole URL of the webhook
    """
    early = one.early_ends
    return {
        **common_lease(one),
        'before_end_date': dates.serialize(one.before_end_date),
        'kind': str(one.kind),
        'retries_left': one.retries_left,
        'priority': one.priority,
        'preemptible': one.preemptible,
        'next_retry_at': dates.serialize(one.next_retry_at),
        'queue_position': position,
        'start_policy': str(one.start_policy),
        'before_start': list(one.before_start),
        'webhook': _webhook_view(one.webhook, viewer_id == one.user_id),
        'generation': one.generation,
        'created_at': format_stamp(one.created_at),
        'updated_at': format_stamp(one.updated_at),
        'reservations': [_reservation_view(each, early) for each in one.reservations],
        'events': [event_view(each) for each in visible_events(one)],
    }


def reservation_view(one: model.Reservation, of: model.Lease | None = None) -> dict[str, Any]:
    """Return a reservation as the API shows it.

    :param of: its lease: a reservation that ends before it has its own end date
    """
    return _reservation_view(one, {} if of is None else of.early_ends)


def _reservation_view(
    one: model.Reservation | ReservationSummary, early: Mapping[str, Time]
) -> dict[str, Any]:
    shown = {
        **common_reservation(one),
        'lease_id': one.lease_id,
        'created_at': format_stamp(one.created_at),
        'updated_at': format_stamp(one.updated_at),
    }
    if one.id in early:
        shown['end_date'] = dates.serialize(early[one.id])
    return shown


def event_view(one: model.Event | EventSummary) -> dict[str, Any]:
    """Return an event as the API shows it."""
    return {
        **common_event(one),
        'lease_id': one.lease_id,
        'created_at': format_stamp(one.created_at),
        'updated_at': format_stamp(one.updated_at),
    }


def _webhook_view(one: Mapping[str, Any] | None, is_owner: bool) -> dict[str, Any] | None:
    if one is None:
        return None
    url = one['url'] if is_owner else webhook.url_origin(one['url'])
    return {'url': url, 'events': list(one['events'])}


def format_stamp(time: Time | None) -> str | None:
    """Return a time in seconds, without a zone."""
    if time is None:
        return None
    if isinstance(time, str):
        return time[:_SECONDS]
    # As in dates.serialize.
    utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return utc.isoformat(' ', 'seconds')[:_SECONDS]


@overload
def visible_events(lease: Lease) -> tuple[Event, ...]: ...


@overload
def visible_events(lease: LeaseSummary) -> tuple[EventSummary, ...]: ...


def visible_events(lease: Lease | LeaseSummary) -> tuple[Event | EventSummary, ...]:
    """Return the events of a lease that users may see, by their times."""
    seen = (each for each in lease.events if not get_handler(each.event_type).hidden)
    return tuple(sorted(seen, key=_IN_ORDER))
