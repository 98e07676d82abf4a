# SPDX-License-Identifier: Apache-2.0
"""Describe a change of a lease for its history: the cause, the result and the difference. Pure.

The entry is made of the difference between the lease before and after, so that nothing that
changes a lease can forget to tell it.
"""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import dates
from climate_core.lease import events, model, serialize, states

if TYPE_CHECKING:
    from climate_core.context import RequestContext

DONE: Final = 'done'
PROGRESS: Final = 'progress'
RETRY: Final = 'retry'
FAILED: Final = 'failed'
RESULTS: Final = (DONE, PROGRESS, RETRY, FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """Name the user or the event that changes a lease.

    :param action: ``lease.create``, ``lease.update``, ``reservation.delete`` ... as a user asked
        for it; ``event.<type>`` for what was due; ``resource.lost`` for what was found
    :param user_id: who asked; None for the service itself
    :param request_id: of the request, or the one that the calls to other services carry
    :param event_id: the event that is worked on
    :param failure: a sentence: what failed, where no event says so
    """

    action: str
    user_id: str | None = None
    request_id: str | None = None
    event_id: str | None = None
    failure: str | None = None


def user_cause(context: 'RequestContext', action: str) -> Cause:
    """Return the cause of an action that a user asked for."""
    return Cause(action, user_id=context.user_id, request_id=context.global_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Describe one change in the history.

    :param result: one of :data:`RESULTS`
    :param reason: a sentence, for what failed or happened behind the lease's back
    :param changes: field -> [before, after]; reservation id -> the same, under ``reservations``
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
    'name',
    'start_date',
    'end_date',
    'before_end_date',
    'status',
    'status_reason',
    'start_policy',
    'before_start',
    'webhook',
    'deleted_at',
)
_RESERVATION_FIELDS = ('status', 'status_reason', 'params')


def entry(
    before: model.Lease | None, after: model.Lease, cause: Cause, now: datetime.datetime
) -> Entry | None:
    """Return the entry for a change; None when nothing is worth it.

    That work on an event begins is not, unless the lease gets another status by it: what comes of
    it is. A retry for the same reason as the last one is no news either.

    :param before: None for a new lease
    """
    event = _event(after, cause)
    changes = dict(_changes(before, after))
    if event is not None and event.status == states.EventStatus.IN_PROGRESS and not changes:
        return None
    result, reason = _result(before, after, event)
    if cause.failure is not None:
        result, reason = FAILED, cause.failure
    closed = event is not None and not event.open
    if not changes and not closed and not _news(before, cause, event):
        return None
    return Entry(
        after.id, now, cause.action, result, reason, cause.user_id, cause.request_id, changes
    )


def _result(
    before: model.Lease | None, after: model.Lease, event: model.Event | None
) -> tuple[str, str | None]:
    if event is None:
        return DONE, after.status_reason if _differs(before, after) else None
    if event.status == states.EventStatus.ERROR:
        return FAILED, event.status_reason
    if event.open and event.status_reason is not None:
        return RETRY, event.status_reason
    return (PROGRESS if event.open else DONE), event.status_reason


def _news(before: model.Lease | None, cause: Cause, event: model.Event | None) -> bool:
    """Tell whether the event has another reason than before."""
    old = _event(before, cause) if before is not None else None
    return event is not None and (old is None or old.status_reason != event.status_reason)


def _event(lease: model.Lease, cause: Cause) -> model.Event | None:
    return next((e for e in lease.events if e.id == cause.event_id), None)


def _differs(before: model.Lease | None, after: model.Lease) -> bool:
    return before is not None and before.status_reason != after.status_reason


def _changes(before: model.Lease | None, after: model.Lease) -> Iterator[tuple[str, Any]]:
    for field in _LEASE_FIELDS:
        if getattr(before, field, None) != getattr(after, field):
            yield field, [_shown(before, field), _shown(after, field)]
    given = [_given(before), _given(after)]
    if given[0] != given[1]:
        yield 'events', given
    olds = {r.id: r for r in before.reservations} if before is not None else {}
    changed = {r.id: dict(_reservation(olds.get(r.id), r)) for r in after.reservations}
    changed = {key: value for key, value in changed.items() if value}
    if changed:
        yield 'reservations', changed


def _given(lease: model.Lease | None) -> list[str]:
    """Return the events that a user gave."""
    return [
        f'{e.event_type} {dates.serialize(e.time)}'
        for e in (lease.events if lease is not None else ())
        if events.named_by_user(e.event_type)
    ]


def _reservation(
    before: model.Reservation | None, after: model.Reservation
) -> Iterator[tuple[str, Any]]:
    if before is None:
        yield 'resource', f'{after.resource_type} {after.resource_id}'
    for field in _RESERVATION_FIELDS:
        old, new = _kept(before, field), _kept(after, field)
        if old != new:
            yield field, [old, new]


def _kept(reservation: model.Reservation | None, field: str) -> Any:
    if field == 'params' and reservation is not None:
        return serialize.params(reservation)
    return getattr(reservation, field, None)


def _shown(lease: model.Lease | None, field: str) -> Any:
    value = getattr(lease, field, None)
    if isinstance(value, datetime.datetime):
        return dates.serialize(value)
    if field == 'webhook' and value is not None:
        # The secret is never shown, so one that is new looks as before.
        return value.get('url')
    return list(value) if isinstance(value, tuple) else value
