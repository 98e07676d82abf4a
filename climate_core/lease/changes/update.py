# SPDX-License-Identifier: Apache-2.0
"""Change a lease as its user asks: texts in, the lease as it shall be out. Pure.

A change that cannot be made raises and changes nothing.
"""

import dataclasses
import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from climate_core import exceptions
from climate_core.lease import events, model, request, results, states, times, webhook
from climate_core.lease.changes import change_reservation, start_notices
from climate_core.lease.events import before_end
from climate_core.lease.results import Change

_TIMES = ('start_date', 'end_date', 'before_end_date')
_CHANGEABLE = frozenset(
    {
        'name',
        *_TIMES,
        'duration',
        'start_policy',
        'before_start',
        'webhook',
        'events',
        'reservations',
    }
)
_OLD_NAMES = {'before_end_notification': 'before_end_date'}


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """Limits that the operator sets for updates.

    :param late: seconds that a new start or event may be in the past
    :param before_start: seconds before its start at which every lease is told
    :param webhooks: where webhooks may be
    """

    late: float = 0.0
    before_start: Sequence[int] = ()
    webhooks: webhook.Rules = webhook.DEFAULT


def apply(
    lease: model.Lease, values: Mapping[str, Any], now: datetime.datetime, rules: Rules
) -> Change:
    """Return a lease as its user wants it; its events move with it.

    :param values: ``name``, ``start_date`` (before the start), ``end_date`` or ``duration``,
        ``before_end_date``, ``start_policy`` and ``before_start`` (before the start), ``webhook``
        (None takes it away), ``events`` (in place of those that were given), ``reservations``
        (each ``id`` and what its plugin lets change). None is nothing, except of the webhook.
    :raises climate_core.exceptions.BadRequest: something else was to be changed, or a bad value
    :raises climate_core.exceptions.InvalidState: the lease is too far for this
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    """
    wanted = {
        _OLD_NAMES.get(k, k): v for k, v in values.items() if v is not None or k == 'webhook'
    }
    for field in sorted(wanted.keys() - _CHANGEABLE):
        raise exceptions.BadRequest(f'{field} cannot be changed.', field=field)
    after = _plain(lease, wanted, rules)
    after = _move(lease, after, _times(lease, wanted, now), now, rules)
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
    revoked = {before_end.STOP: None} if before_end.is_revoked(lease, after) else {}
    return Change(after, {**revoked, 'lease.update': None})


def _plain(lease: model.Lease, wanted: Mapping[str, Any], rules: Rules) -> model.Lease:
    """Change what has no time."""
    new: dict[str, Any] = {}
    if 'name' in wanted:
        new['name'] = request.name(wanted['name'])
    if 'webhook' in wanted:
        given = wanted['webhook']
        new['webhook'] = None if given is None else webhook.read(given, rules.webhooks)
    if 'start_policy' in wanted:
        new['start_policy'] = request.start_policy(wanted['start_policy'])
    if 'before_start' in wanted:
        new['before_start'] = request.before_start(wanted['before_start'])
    for field in ('start_policy', 'before_start'):
        started = lease.status != states.LeaseStatus.PENDING
        if started and new.get(field, getattr(lease, field)) != getattr(lease, field):
            raise exceptions.InvalidState(
                f'The lease has started or failed: {field} cannot be changed any more.',
                field=field,
            )
    return dataclasses.replace(lease, **new)


def _times(
    lease: model.Lease, wanted: Mapping[str, Any], now: datetime.datetime
) -> dict[str, datetime.datetime]:
    given = {k: times.date(wanted[k], now, k) for k in _TIMES if k in wanted}
    if 'duration' in wanted:
        if 'end_date' in given:
            raise exceptions.BadRequest('Give end_date or duration, not both.', field='duration')
        start = given.get('start_date', lease.start_date)
        given['end_date'] = times.end_after(start, times.duration(wanted['duration']))
    return given


def _move(
    old: model.Lease,
    lease: model.Lease,
    given: Mapping[str, datetime.datetime],
    now: datetime.datetime,
    rules: Rules,
) -> model.Lease:
    """Give a lease its new times. ``before_end_date`` follows the end unless it is given."""
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
            told = max(start, min(end, end - (lease.end_date - told)))
    reason = lease.status_reason
    if reason == results.WAITS_FOR_USER and (
        start > now or lease.start_policy == states.StartPolicy.AUTO
    ):
        reason = None
    after = dataclasses.replace(
        lease, start_date=start, end_date=end, before_end_date=told, status_reason=reason
    )
    return _move_events(lease, after, now)


def _check_move(
    lease: model.Lease, moved: Mapping[str, datetime.datetime], now: datetime.datetime, late: float
) -> None:
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: only its name can be changed.'
        )
    if 'start_date' in moved and lease.status != states.LeaseStatus.PENDING:
        raise exceptions.InvalidState(
            'The start of a lease that has started or failed cannot be changed.',
            field='start_date',
        )
    if moved.get('start_date', now) < now - datetime.timedelta(seconds=late):
        raise exceptions.InvalidDate('The start must not be in the past.', field='start_date')
    end = moved.get('end_date', lease.end_date)
    if 'end_date' in moved and end < now:
        raise exceptions.InvalidDate('The end must not be in the past.', field='end_date')
    if end <= moved.get('start_date', lease.start_date):
        raise exceptions.InvalidDate('The end must be after the start.', field='end_date')


def _move_events(before: model.Lease, after: model.Lease, now: datetime.datetime) -> model.Lease:
    moved = (events.of(e.event_type).move(e, before, after, now) for e in after.events)
    return before_end.add_missing(before, after.with_events(*moved), now)


def _give(
    lease: model.Lease, given: Sequence[Mapping[str, Any]], now: datetime.datetime, late: float
) -> model.Lease:
    """Put events of the user in the place of those that they gave before."""
    wanted = Counter(request.events(given, lease.end_date, now))
    kept = []
    for event in lease.events:
        known = (event.event_type, event.time)
        if events.named_by_user(event.event_type):
            if not wanted[known]:
                continue
            wanted[known] -= 1
        kept.append(event)
    for kind, time in wanted.elements():
        if not events.named_by_user(kind):
            raise exceptions.BadRequest(
                f'{kind} follows from before_start and before_end_date.', field='events'
            )
        if time < now - datetime.timedelta(seconds=late):
            raise exceptions.InvalidDate('An event must not be in the past.', field='events')
        kept.append(model.new_event(lease.id, kind, time, now))
    return dataclasses.replace(lease, events=tuple(kept))
