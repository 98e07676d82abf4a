# SPDX-License-Identifier: Apache-2.0
"""Leases as the API and notifications show them. Pure.

:mod:`climate_common.lease_fields` has the fields. Dates are ``YYYY-MM-DDTHH:MM:SS.ffffff``.
``created_at`` and ``updated_at`` of the API have neither microseconds nor a ``T``, as clients of
Blazar read them. All times are UTC. Nothing shows the owner's trust, the secret of a webhook, or
the engine's claims and attempts.
"""

import collections
import functools
import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from climate_common import dates, lease_fields, resource_types
from climate_core import packages, webhooks
from climate_core.lease import events, model, states
from climate_core.lease.model import AllocatedUnit, Event, Lease

#: What a manager returns to an API that creates a lease: the lease as the API shows it; or only
#: the id of a lease that existed before or is queued.
CreatedLease = dict[str, Any] | str

#: The length of a time without its zone.
_SECONDS: Final = len('YYYY-MM-DD HH:MM:SS')
_IN_ORDER: Final = operator.attrgetter('time', 'id')


#: A time as a list reads it. A text has the format of a database, ``YYYY-MM-DD HH:MM:SS.ffffff``
#: in UTC. All times of a list have one type.
Time = datetime | str


class EventSummary(NamedTuple):
    """An event in a list, see :class:`Event`."""

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
    """A reservation in a list, see :class:`Reservation`."""

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
    allocations: Sequence[AllocatedUnit] = ()

    @property
    def live(self) -> bool:
        """Return whether its resource is claimed, and not freed yet."""
        return self.status in states.LIVE


def _summary_type() -> Any:
    """Return a named tuple of the columns that the API shows, and of the parts of a lease."""
    parts = ('reservations', 'events')
    others = (*parts, 'queue_position', 'next_retry_at')
    shown = [field.name for field in lease_fields.shown_in(lease_fields.API)]
    names = [*(name for name in shown if name not in others), *parts]
    return collections.namedtuple('LeaseSummary', names)  # type: ignore[misc]


_LeaseSummary = _summary_type()


class LeaseSummary(_LeaseSummary):  # type: ignore[misc, valid-type]
    """A lease in a list: the fields that the API shows, see :class:`Lease`.

    A list has thousands of events. The summaries take a fifth of the time of the values, which
    have more fields and whose times are decoded.
    """

    live = Lease.live
    early_ends = Lease.early_ends
    next_retry_at = Lease.next_retry_at
    events_of = Lease.events_of


#: A type -> the function that renders a value of it; values of other types are JSON already.
_RENDERERS: Final[Mapping[str, Any]] = {
    lease_fields.CHOICE: str,
    lease_fields.DATE: dates.serialize,
    lease_fields.SECONDS: list,
}
#: What is not rendered from the attribute of a lease alone.
_OWN_RENDERING: Final = frozenset(
    {lease_fields.WEBHOOK, lease_fields.RESERVATIONS, lease_fields.EVENTS}
)


def _render_fields(lease: Lease | LeaseSummary, place: str) -> dict[str, Any]:
    names, renderers, read_values = _list_renderers(place)
    return {
        name: value if render is None else render(value)
        for name, render, value in zip(names, renderers, read_values(lease), strict=True)
    }


@functools.cache
def _list_renderers(place: str) -> tuple[list[str], list[Any], Any]:
    """Return the names of fields, their renderers, and what reads all of them from a lease.

    They are built once: a list of leases uses them often.
    """
    # The API shows stamps in seconds, as Blazar does.
    render_stamp = format_stamp if place == lease_fields.API else dates.serialize
    renderers = {**_RENDERERS, lease_fields.STAMP: render_stamp}
    fields = [
        field
        for field in lease_fields.shown_in(place)
        if field.type not in _OWN_RENDERING and field.name != 'queue_position'
    ]
    names = [field.name for field in fields]
    # Generic fields are JSON already.
    renders = [None if field.is_generic else renderers.get(field.type) for field in fields]
    return names, renders, operator.attrgetter(*names)


def notified_fields(lease: Lease) -> dict[str, Any]:
    """Return the fields that notifications show, without reservations and events."""
    return _render_fields(lease, lease_fields.NOTIFICATION)


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


def _allocation_fields(
    one: model.Reservation | ReservationSummary,
) -> Mapping[str, Any]:
    """Return the allocations of a reservation, by the names that the API shows."""
    for package in packages.list_packages() if one.unit_kind is not None else ():
        if one.unit_kind in package.unit_kinds:
            return package.view_allocations(one)
    return {}


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
    one: Lease | LeaseSummary, position: int | None = None, viewer_id: str | None = None
) -> dict[str, Any]:
    """Return a lease as the API shows it.

    :param position: its position in the queue, if it is queued
    :param viewer_id: the user who reads it: only the owner reads the whole URL of the webhook
    """
    early = one.early_ends
    return {
        **_render_fields(one, lease_fields.API),
        'queue_position': position,
        'webhook': _webhook_view(one.webhook, viewer_id == one.user_id),
        'reservations': [_reservation_view(each, early) for each in one.reservations],
        'events': [event_view(each) for each in visible_events(one)],
    }


def reservation_view(
    one: model.Reservation | ReservationSummary, of: model.Lease | None = None
) -> dict[str, Any]:
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
    url = one['url'] if is_owner else webhooks.url_origin(one['url'])
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


def visible_events(lease: Lease | LeaseSummary) -> list[Event | EventSummary]:
    """Return the events of a lease that users may see, by their times."""
    visible = (event for event in lease.events if not events.get_handler(event.event_type).hidden)
    return sorted(visible, key=_IN_ORDER)
