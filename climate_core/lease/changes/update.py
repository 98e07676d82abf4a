# SPDX-License-Identifier: Apache-2.0
"""Change a lease as its user asks: texts in, the lease as it shall be out. Pure."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import (
    events,
    model,
    request,
    results,
    schedule,
    states,
    times,
    webhook,
)
from climate_core.lease.changes import change_reservation, early_ends, start_notices, wait
from climate_core.lease.events import notices
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

_TIMES = ('start_date', 'end_date', 'before_end_date')
#: What has no time -> the function that reads it.
_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = {
    'name': request.name,
    'start_policy': request.start_policy,
    'before_start': request.before_start,
    'priority': request.priority,
}
_CHANGEABLE = {*_PLAIN, *_TIMES, 'duration', 'events', 'reservations', 'webhook'}
_WAITING = states.LeaseStatus.WAITING
_BEFORE_START = (*states.UNGRANTED, states.LeaseStatus.PENDING)
_OLD_NAMES = {'before_end_notification': 'before_end_date'}


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateRules:
    """Limits that the operator sets for updates.

    :param late: seconds that a new start or event may be in the past
    :param before_start: seconds before its start at which every lease is told
    :param webhooks: where webhooks may be
    """

    late: float = 0.0
    before_start: Sequence[int] = ()
    webhooks: webhook.WebhookRules = webhook.DEFAULT


def apply(lease: Lease, values: Mapping[str, Any], now: datetime, rules: UpdateRules) -> Change:
    """Return a lease as its user wants it; its events move with it.

    :param values: ``name``, ``start_date`` (before the start), ``end_date`` or ``duration``,
        ``before_end_date``, ``start_policy`` and ``before_start`` (before the start), ``priority``
        (while it waits), ``webhook`` (None takes it away), ``events`` (in place of those that were
        given), ``reservations`` (each ``id`` and what its plugin lets change), ``partial`` (see
        :mod:`.early_ends`). None is nothing, except of the webhook.
    :raises climate_core.exceptions.ClimateError: something else was to be changed, a value is bad,
        the lease is too far for this, or does not have the reservation
    """
    wanted = {
        _OLD_NAMES.get(k, k): v for k, v in values.items() if v is not None or k == 'webhook'
    }
    partial = early_ends.read(wanted)
    wanted.pop('partial', None)
    for field in sorted(wanted.keys() - _CHANGEABLE):
        raise exceptions.BadRequest(
            f'{field} cannot be changed; {", ".join(sorted(_CHANGEABLE))} can be.', field=field
        )
    after = _plain(lease, wanted, rules)
    after = _move(lease, after, _times(lease, wanted, now), now, rules)
    if partial or after.end_date != lease.end_date:
        after = early_ends.follow(lease, after, partial, now)
    after = start_notices.apply(lease, after, rules.before_start, now)
    if 'events' in wanted:
        after = _give(after, wanted['events'], now, rules.late)
    for item in wanted.get('reservations', ()):
        params = {k: v for k, v in item.items() if k != 'id'}
        after = change_reservation.apply(after, str(item.get('id')), params, now).lease
    # The start and the end are compared by what they are, so that a repeated request is no change.
    if after == lease:
        return Change(lease)
    if lease.status in states.ENDING and after != dataclasses.replace(lease, name=after.name):
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: only its name can be changed.'
        )
    if after != dataclasses.replace(lease, name=after.name):
        wait.check_not_given_up(lease)
    if lease.retries_left is not None:
        after = _with_duration(after, wanted)
    if lease.status == _WAITING:
        after = wait.try_now(after, now)
    revoked = {notices.STOP: None} if notices.is_revoked(lease, after) else {}
    return Change(after, {**revoked, 'lease.update': None})


def _with_duration(lease: Lease, wanted: Mapping[str, Any]) -> Lease:
    """Return a lease that waits, or may do so, with the duration that it has by now."""
    if 'duration' in wanted:
        seconds = round(times.duration(wanted['duration']).total_seconds())
        return dataclasses.replace(lease, duration=seconds)
    return dataclasses.replace(lease, duration=None) if 'end_date' in wanted else lease


def _plain(lease: Lease, wanted: Mapping[str, Any], rules: UpdateRules) -> Lease:
    """Change what has no time."""
    new = {field: read(wanted[field]) for field, read in _PLAIN.items() if field in wanted}
    if 'webhook' in wanted:
        new['webhook'] = request.read_webhook(wanted['webhook'], rules.webhooks)
    for field in ('start_policy', 'before_start'):
        started = lease.status not in _BEFORE_START
        if started and new.get(field, getattr(lease, field)) != getattr(lease, field):
            raise exceptions.InvalidState(
                f'The lease has started or failed: {field} can only be changed before the start.',
                field=field,
            )
    if new.get('priority', lease.priority) != lease.priority and lease.status != _WAITING:
        raise exceptions.InvalidState(
            f'The lease is {lease.status}: only one that waits can have another priority.',
            field='priority',
        )
    return dataclasses.replace(lease, **new)


def _times(lease: Lease, wanted: Mapping[str, Any], now: datetime) -> dict[str, datetime]:
    given = {k: times.date(wanted[k], now, k) for k in _TIMES if k in wanted}
    if 'duration' in wanted:
        if 'end_date' in given:
            raise exceptions.BadRequest('Give end_date or duration, not both.', field='duration')
        start = given.get('start_date', lease.start_date)
        given['end_date'] = times.end_after(start, times.duration(wanted['duration']))
    return given


def _move(
    old: Lease,
    lease: Lease,
    given: Mapping[str, datetime],
    now: datetime,
    rules: UpdateRules,
) -> Lease:
    """Set the new times of a lease. ``before_end_date`` follows the end unless it is given."""
    moved = {k: v for k, v in given.items() if v != getattr(old, k)}
    if not moved and lease.start_policy == old.start_policy:
        return lease
    start = given.get('start_date', lease.start_date)
    end = given.get('end_date', lease.end_date)
    told = lease.before_end_date
    if moved:
        _check_move(lease, moved, now, rules.late)
        if 'before_end_date' in given:
            told = request.check_before_end(given['before_end_date'], start, end)
        elif told is not None:
            told = schedule.before_end(told, lease.end_date, start, end)
    reason = lease.status_reason
    if reason == results.WAITS_FOR_USER and (
        start > now or lease.start_policy == states.StartPolicy.AUTO
    ):
        reason = None
    after = dataclasses.replace(
        lease, start_date=start, end_date=end, before_end_date=told, status_reason=reason
    )
    followed = (events.of(e.event_type).move(e, lease, after, now) for e in after.events)
    return notices.add_before_end(lease, after.with_events(*followed), now)


def moved_date(before: Lease, after: Lease) -> str | None:
    """Return the field of the date that a change moves, the start if both; None: it moves none."""
    if before.start_date != after.start_date:
        return 'start_date'
    return 'end_date' if before.end_date != after.end_date else None


def _check_move(lease: Lease, moved: Mapping[str, datetime], now: datetime, late: float) -> None:
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: only its name can be changed.'
        )
    if 'start_date' in moved and lease.status not in _BEFORE_START:
        raise exceptions.InvalidState(
            f'The start can only be changed before it; the lease is {lease.status}.',
            field='start_date',
        )
    if moved.get('start_date', now) < now - timedelta(seconds=late):
        raise times.past('start', 'start_date', now)
    end = moved.get('end_date', lease.end_date)
    if 'end_date' in moved and end < now:
        raise times.past('end', 'end_date', now)
    start = moved.get('start_date', lease.start_date)
    if end <= start:
        raise exceptions.InvalidDate(
            f'The end must be after the start ({dates.sentence(start)}).', field='end_date'
        )


def _give(lease: Lease, given: Sequence[Mapping[str, Any]], now: datetime, late: float) -> Lease:
    """Replace the events that the user gave before by these."""
    read = request.events(given, lease.end_date, now)
    wanted = Counter(read)
    kept = []
    for event in lease.events:
        known = (event.event_type, event.time)
        if events.named_by_user(event.event_type):
            if not wanted[known]:
                continue
            wanted[known] -= 1
        kept.append(event)
    for kind, time in wanted.elements():
        field = f'events[{read.index((kind, time))}]'
        if not events.named_by_user(kind):
            raise exceptions.BadRequest(
                f'{kind} follows from before_start and before_end_date.',
                field=f'{field}.event_type',
            )
        if time < now - timedelta(seconds=late):
            raise times.past(f'time of the event {kind}', f'{field}.time', now)
        kept.append(model.new_event(lease.id, kind, time, now))
    return dataclasses.replace(lease, events=tuple(kept))
