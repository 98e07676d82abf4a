# SPDX-License-Identifier: Apache-2.0
"""What the lease service answers, as values. All times are timezone-aware, in UTC."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

_RESERVATION_KEYS = frozenset(
    {
        'id',
        'lease_id',
        'resource_type',
        'resource_id',
        'status',
        'status_reason',
        'missing_resources',
        'resources_changed',
        'created_at',
        'updated_at',
    }
)


def time_of(value: str | None) -> datetime.datetime | None:
    """Read a time of an answer: ISO 8601 with ``T`` or a blank; without an offset it is UTC."""
    if not value:
        return None
    parsed = datetime.datetime.fromisoformat(value)
    if parsed.tzinfo is None:
        return parsed.replace(tzinfo=datetime.UTC)
    return parsed.astimezone(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a lease at a time.

    ``status`` is UNDONE, IN_PROGRESS, DONE or ERROR.
    """

    id: str
    event_type: str
    time: datetime.datetime | None
    status: str | None = None
    status_reason: str | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            id=body['id'],
            event_type=body['event_type'],
            time=time_of(body.get('time')),
            status=body.get('status'),
            status_reason=body.get('status_reason'),
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """One resource of a lease.

    ``status`` is pending, active, deleted or error. ``params`` holds what the resource
    type's plugin adds, like ``on_end`` of a server.
    """

    id: str
    resource_type: str
    resource_id: str | None
    lease_id: str | None = None
    status: str | None = None
    status_reason: str | None = None
    missing_resources: bool = False
    resources_changed: bool = False
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            id=body['id'],
            resource_type=body['resource_type'],
            resource_id=body.get('resource_id'),
            lease_id=body.get('lease_id'),
            status=body.get('status'),
            status_reason=body.get('status_reason'),
            missing_resources=bool(body.get('missing_resources')),
            resources_changed=bool(body.get('resources_changed')),
            created_at=time_of(body.get('created_at')),
            updated_at=time_of(body.get('updated_at')),
            params={k: v for k, v in body.items() if k not in _RESERVATION_KEYS},
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """A contract: from when until when its reservations hold.

    ``status`` is PENDING, STARTING, ACTIVE, TERMINATING, TERMINATED, DELETING or ERROR;
    ``status_reason`` says why. Events are in the order of their times; ``before_end_date``
    is the time of the one that tells of the end. ``generation`` grows with every change.
    """

    id: str
    name: str
    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    before_end_date: datetime.datetime | None = None
    status: str | None = None
    status_reason: str | None = None
    degraded: bool = False
    project_id: str | None = None
    user_id: str | None = None
    generation: int | None = None
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    reservations: tuple[Reservation, ...] = ()
    events: tuple[Event, ...] = ()

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        events = sorted((Event.from_dict(each) for each in body.get('events') or ()), key=_when)
        told = (each.time for each in events if each.event_type == 'before_end_lease')
        return cls(
            id=body['id'],
            name=body['name'],
            start_date=time_of(body.get('start_date')),
            end_date=time_of(body.get('end_date')),
            before_end_date=next(told, None),
            status=body.get('status'),
            status_reason=body.get('status_reason'),
            degraded=bool(body.get('degraded')),
            project_id=body.get('project_id'),
            user_id=body.get('user_id'),
            generation=body.get('generation'),
            created_at=time_of(body.get('created_at')),
            updated_at=time_of(body.get('updated_at')),
            reservations=tuple(
                Reservation.from_dict(each) for each in body.get('reservations') or ()
            ),
            events=tuple(events),
        )


@dataclass(frozen=True, slots=True)
class Plugin:
    """A type of resource that the service can reserve; ``schema`` is its JSON Schema."""

    resource_type: str
    title: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            resource_type=body['resource_type'],
            title=body.get('title'),
            description=body.get('description'),
            schema=body.get('schema') or {},
        )


def _when(event: Event) -> tuple[bool, datetime.datetime | None]:
    return (event.time is None, event.time or datetime.datetime.min.replace(tzinfo=datetime.UTC))
