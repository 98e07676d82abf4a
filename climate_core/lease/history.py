# SPDX-License-Identifier: Apache-2.0
"""Describe a change of a lease for its history: the cause, the result and the difference. Pure.

An entry has the difference between the lease before and after, so that no change of a lease can
miss it.
"""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from climate_common import dates, lease_fields, resource_types
from climate_core import webhooks
from climate_core.context import RequestContext
from climate_core.lease import events, model, states, views
from climate_core.lease.model import Event, Lease, Reservation

DONE: Final = 'done'
PROGRESS: Final = 'progress'
RETRY: Final = 'retry'
FAILED: Final = 'failed'
RESULTS: Final = (DONE, PROGRESS, RETRY, FAILED)

#: The action of a service that adds a resource that it builds for a user.
JOIN: Final = 'reservation.join'
#: Changes that ``[limits] changes_per_lease`` counts. Changes that free resources do not count.
LIMITED: Final = frozenset(
    {'lease.create', 'lease.update', 'reservation.create', 'reservation.update'}
)
#: Changes that users cause as often as servers join and leave a lease.
REPEATABLE: Final = frozenset(
    {
        JOIN,
        'reservation.delete',
        'resource.lost',
        'resource.rejected',
        'resource.corrected',
        *(f'event.{each}' for each in (model.START, model.PREPARE, model.END_RESERVATION)),
    }
)
#: The maximum number of entries of :data:`REPEATABLE` changes in the history of a lease.
MAX_REPEATABLE: Final = 10_000
#: The reason of the last of them.
LAST_REASON: Final = (
    f'It is one of {MAX_REPEATABLE} entries about additions and removals of reservations; the '
    'history shows no more of them.'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """The user or the event that changes a lease.

    :param action: ``lease.create``, ``lease.update``, ``reservation.delete`` ... of a user;
        :data:`JOIN`; ``event.<type>`` of an event; ``resource.lost`` and ``host.failed`` of
        reconciliation; ``resource.rejected``, ``resource.corrected`` of wrong reports of services
    :param user_id: the user of the request, also of a service; None: Climate itself
    :param request_id: of the request, or of the calls to other services
    :param event_id: the event that is worked on
    :param failure: a sentence: what failed, where no event has the reason
    """

    action: str
    user_id: str | None = None
    request_id: str | None = None
    event_id: str | None = None
    failure: str | None = None


def user_cause(context: RequestContext, action: str) -> Cause:
    """Return the cause of a user's action."""
    return Cause(action, user_id=context.user_id, request_id=context.global_id)


def join_cause(context: RequestContext) -> Cause:
    """Return the cause of an addition to a lease."""
    return user_cause(context, JOIN if context.by_service else 'reservation.create')


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A change in the history.

    :param result: one of :data:`RESULTS`
    :param reason: a sentence, for a failure or a change outside of the lease
    :param changes: field -> [before, after]; reservation id -> the same, under ``reservations``.
        An existing reservation has only the params that differ, so that an entry is no larger than
        the change
    """

    lease_id: str
    time: datetime.datetime
    action: str
    result: str
    reason: str | None
    user_id: str | None
    request_id: str | None
    changes: Mapping[str, Any]


_LEASE_FIELDS = (
    *(field.name for field in lease_fields.shown_in(lease_fields.HISTORY)),
    'deleted_at',
)
_RESERVATION_FIELDS = ('status', 'status_reason', 'params')


def describe_change(
    before: Lease | None, after: Lease, cause: Cause, now: datetime.datetime
) -> HistoryEntry | None:
    """Return the entry of a change; None: it has no entry.

    The claim of an event has no entry unless it changes the lease; its result has. A retry for the
    same reason as the last one has no entry either.

    :param before: None for a new lease
    """
    event, old = _event(after, cause), _event(before, cause)
    changes = dict(_changes(before, after))
    if not changes:
        if event is None or event.status == states.EventStatus.IN_PROGRESS:
            return None
        if event.open and old is not None and old.status_reason == event.status_reason:
            return None
    result, reason = _result(before, after, event)
    if cause.failure is not None:
        result, reason = FAILED, cause.failure
    return HistoryEntry(
        after.id, now, cause.action, result, reason, cause.user_id, cause.request_id, changes
    )


def _result(before: Lease | None, after: Lease, event: Event | None) -> tuple[str, str | None]:
    if event is None:
        differs = before is not None and before.status_reason != after.status_reason
        return DONE, after.status_reason if differs else None
    if event.status == states.EventStatus.ERROR:
        return FAILED, event.status_reason
    if event.open and event.status_reason is not None:
        return RETRY, event.status_reason
    return (PROGRESS if event.open else DONE), event.status_reason


def _event(lease: Lease | None, cause: Cause) -> Event | None:
    events_ = () if lease is None else lease.events
    return next((e for e in events_ if e.id == cause.event_id), None)


def _changes(before: Lease | None, after: Lease) -> Iterator[tuple[str, Any]]:
    yield from _differences(before, after, _LEASE_FIELDS)
    given = [_user_events(before), _user_events(after)]
    if given[0] != given[1]:
        yield 'events', given
    olds = {r.id: r for r in before.reservations} if before is not None else {}
    changed = {r.id: dict(_reservation(olds.get(r.id), r)) for r in after.reservations}
    if any(changed.values()):
        yield 'reservations', {key: value for key, value in changed.items() if value}


def _user_events(lease: Lease | None) -> list[str]:
    """Return the events that a user added."""
    return [
        f'{e.event_type} {dates.serialize(e.time)}'
        for e in (lease.events if lease is not None else ())
        if events.is_user_event(e.event_type)
    ]


def _reservation(before: Reservation | None, after: Reservation) -> Iterator[tuple[str, Any]]:
    if before is None:
        yield 'resource', f'{resource_types.api_name(after.resource_type)} {after.resource_id}'
    yield from _differences(before, after, _RESERVATION_FIELDS)


def _differences(before: Any, after: Any, fields: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for field in fields:
        old, new = _serialize_field(before, field), _serialize_field(after, field)
        # Of a webhook only the origin is stored: a new path or secret is shown as before.
        secret = field == 'webhook' and before is not None and before.webhook != after.webhook
        if old != new or secret:
            yield field, _narrowed(old, new) if field == 'params' else [old, new]


def _narrowed(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[Any]:
    """Return the params that differ; all of a new reservation."""
    if old is None:
        return [old, new]
    names = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    return [{k: each[k] for k in sorted(names & each.keys())} for each in (old, new)]


def _serialize_field(one: Any, field: str) -> Any:
    value = getattr(one, field, None)
    if isinstance(value, datetime.datetime):
        return dates.serialize(value)
    if field == 'webhook' and value is not None:
        return webhooks.url_origin(value['url'])
    if field == 'params' and value is not None:
        return views.visible_params(one)
    return list(value) if isinstance(value, tuple) else value
