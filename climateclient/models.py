# SPDX-License-Identifier: Apache-2.0
"""The values that the lease service returns. All times are timezone-aware, in UTC."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from climate_common import event_types, lease_fields

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
    """An event of a lease.

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

    @property
    def is_before_end(self) -> bool:
        """Return whether it tells that the end of the lease comes."""
        return event_types.is_before_end(self.event_type)

    @property
    def is_by_user(self) -> bool:
        """Return whether a user named it and gave its time."""
        return event_types.is_user_event(self.event_type)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One resource of a lease.

    ``status`` is pending, active, deleted or error. ``params`` holds what the resource
    type's plugin adds, like ``on_end`` of a server, or ``name`` and ``hold`` of a stack that was
    made from a template.
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
class Webhook:
    """The webhook of a lease, which gets its notifications; the secret is never shown.

    ``events`` are patterns of event types; empty means all.
    """

    url: str
    events: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(url=body['url'], events=tuple(body.get('events') or ()))


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease: reservations from a start to an end.

    ``status`` is WAITING, IN_PROGRESS, PENDING, STARTING, ACTIVE, TERMINATING, TERMINATED,
    DELETING, TIMEDOUT or ERROR; ``status_reason`` says why. Events are in the order of their
    times; ``before_end_date`` is the time of the notification that the end is near,
    ``before_start`` are seconds before the start at which one is sent. ``generation`` grows with
    every change. What was not requested (``fields`` of a list) is None or empty.
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
    kind: str | None = None
    retries_left: int | None = None
    priority: int | None = None
    preemptible: bool = False
    next_retry_at: datetime.datetime | None = None
    queue_position: int | None = None
    start_policy: str | None = None
    before_start: tuple[int, ...] = ()
    webhook: Webhook | None = None
    reservations: tuple[Reservation, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def waits_for_user(self) -> bool:
        """Return whether its start has come, and its user has not started it yet."""
        statuses = {each.event_type: each.status for each in self.events}
        return statuses.get(event_types.READY) == 'DONE' and event_types.START not in statuses

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        values = {
            field.name: _read_value(field, body.get(field.name))
            for field in lease_fields.shown_in(lease_fields.API)
        }
        before_end = (event.time for event in values['events'] if event.is_before_end)
        values['before_end_date'] = values['before_end_date'] or next(before_end, None)
        return cls(**values | {'name': values['name'] or ''})


def _read_value(field: lease_fields.Field, value: Any) -> Any:
    """Read the value of a field; None: the response has none."""
    match field.type:
        case lease_fields.DATE | lease_fields.STAMP:
            return time_of(value)
        case lease_fields.BOOLEAN if not field.nullable:
            return bool(value)
        case lease_fields.SECONDS:
            return tuple(value or ())
        case lease_fields.WEBHOOK:
            return Webhook.from_dict(value) if value else None
        case lease_fields.RESERVATIONS:
            return tuple(Reservation.from_dict(item) for item in value or ())
        case lease_fields.EVENTS:
            return tuple(sorted((Event.from_dict(item) for item in value or ()), key=_event_order))
    return value


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of a lease's history: an action, its user, its time and its result.

    ``result`` is done, progress, retry or failed; ``changes`` maps a field to its values before
    and after, and ``reservations`` to the same for each reservation by its id.
    """

    id: str
    time: datetime.datetime | None
    action: str
    result: str | None = None
    reason: str | None = None
    user_id: str | None = None
    request_id: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            id=str(body['id']),
            time=time_of(body.get('time')),
            action=body['action'],
            result=body.get('result'),
            reason=body.get('reason'),
            user_id=body.get('user_id'),
            request_id=body.get('request_id'),
            changes=body.get('changes') or {},
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a lease would not be granted; ``code`` and ``field`` are those of an error."""

    message: str
    code: str | None = None
    field: str | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(body['error_message'], body.get('error_name'), body.get('field'))


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run: ``granted``, or why not and from when (if that is known).

    ``waits`` says that the lease would be made and wait until there is enough.
    """

    granted: bool
    waits: bool = False
    refusals: tuple[Refusal, ...] = ()
    available_from: datetime.datetime | None = None
    start_date: datetime.datetime | None = None
    end_date: datetime.datetime | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            granted=bool(body['granted']),
            waits=bool(body.get('waits')),
            refusals=tuple(Refusal.from_dict(each) for each in body.get('refusals') or ()),
            available_from=time_of(body.get('available_from')),
            start_date=time_of(body.get('start_date')),
            end_date=time_of(body.get('end_date')),
        )


@dataclass(frozen=True, slots=True)
class ProjectUsage:
    """The usage of a project in a period: what it reserved, and what it used.

    ``reserved`` and ``used`` map ``server_hours``, ``vcpu_hours``, ``memory_gib_hours``,
    ``disk_gb_hours``, ``volume_hours``, ``volume_gb_hours``, ``stack_hours``,
    ``host_hours``, ``floatingip_hours`` and ``network_hours`` to numbers. So do ``preempted``,
    what preemptible leases lost to others, and ``planned``, what is still to come of
    it, if that was asked for.
    """

    project_id: str
    start: datetime.datetime | None
    end: datetime.datetime | None
    leases: int
    reserved: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    planned: Mapping[str, float] | None = None
    preempted: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            project_id=body['project_id'],
            start=time_of(body.get('start')),
            end=time_of(body.get('end')),
            leases=body.get('leases') or 0,
            reserved=body.get('reserved') or {},
            used=body.get('used') or {},
            planned=body.get('planned'),
            preempted=body.get('preempted') or {},
        )


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which a lease would be granted now, and whether that is sure."""

    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    guaranteed: bool

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            time_of(body['start_date']), time_of(body['end_date']), bool(body['guaranteed'])
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a project for something (-1: none), and how much of it is reserved."""

    name: str
    limit: int | None
    used: int | None

    @classmethod
    def from_dict(cls, name: str, body: Mapping[str, Any]) -> Self:
        return cls(name, body.get('limit'), body.get('used'))


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


def _event_order(event: Event) -> tuple[bool, datetime.datetime | None]:
    return (event.time is None, event.time or datetime.datetime.min.replace(tzinfo=datetime.UTC))
