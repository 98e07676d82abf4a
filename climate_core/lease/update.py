# SPDX-License-Identifier: Apache-2.0
"""Change a lease as its user asks: texts in, the lease as it shall be out. Pure.

A change that cannot be made raises and changes nothing.
"""

import dataclasses
import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from climate_core import exceptions
from climate_core.lease import (
    actions,
    dates,
    durations,
    heads_up,
    model,
    plan,
    request,
    states,
    webhook,
)

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
#: Of these types there are events that the service makes.
_NOT_GIVEN = model.OWN_EVENTS | {model.BEFORE_END}
_STOP: Final = f'lease.event.{model.BEFORE_END}.stop'


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What the operator says.

    :param late: seconds that a new start or event may be in the past
    :param before_start: seconds before its start at which every lease is told
    :param webhooks: where webhooks may be
    """

    late: float = 0.0
    before_start: Sequence[int] = ()
    webhooks: webhook.Rules = webhook.DEFAULT


def update(
    lease: model.Lease, values: Mapping[str, Any], now: datetime.datetime, rules: Rules
) -> plan.Change:
    """Say what a lease is after a user has changed it; its events move with it.

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
    after = heads_up.replan(lease, after, rules.before_start, now)
    if 'events' in wanted:
        after = _give(after, wanted['events'], now, rules.late)
    for item in wanted.get('reservations', ()):
        params = {k: v for k, v in item.items() if k != 'id'}
        after = actions.change(after, str(item.get('id')), params, now).lease
    # The start and the end are compared by what they are, so that a repeated request is no change.
    if after == lease:
        return plan.Change(lease)
    if lease.status in states.ENDING and after != dataclasses.replace(lease, name=after.name):
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: only its name can be changed.'
        )
    notices = {_STOP: None} if _told_again(lease, after) else {}
    return plan.Change(after, {**notices, 'lease.update': None})


def _told_again(before: model.Lease, after: model.Lease) -> bool:
    """Tell whether an end that was told to be near is not near any more."""
    told = {
        e.id
        for e in before.events
        if e.event_type == model.BEFORE_END and e.status == states.EventStatus.DONE
    }
    return any(e.id in told and e.open for e in after.events)


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
    times = {k: dates.parse(wanted[k], now, k) for k in _TIMES if k in wanted}
    if 'duration' in wanted:
        if 'end_date' in times:
            raise exceptions.BadRequest('Give end_date or duration, not both.', field='duration')
        start = times.get('start_date', lease.start_date)
        times['end_date'] = durations.after(start, durations.parse(wanted['duration']))
    return times


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
    before_end = lease.before_end_date
    if moved:
        _check_move(lease, moved, now, rules.late)
        if 'before_end_date' in given:
            before_end = request.check_before_end(given['before_end_date'], start, end)
        elif before_end is not None:
            before_end = max(start, min(end, end - (lease.end_date - before_end)))
    reason = lease.status_reason
    if reason == plan.WAITS_FOR_USER and (
        start > now or lease.start_policy == states.StartPolicy.AUTO
    ):
        reason = None
    after = dataclasses.replace(
        lease, start_date=start, end_date=end, before_end_date=before_end, status_reason=reason
    )
    return _move_events(lease, after, now)


def _check_move(
    lease: model.Lease,
    moved: Mapping[str, datetime.datetime],
    now: datetime.datetime,
    late: float,
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
    """Move the events of a lease with it, and let its start be of the type of its policy."""
    changed = []
    told = after.before_end_date is None
    for event in after.events:
        if event.event_type in (model.START, model.READY):
            changed.append(_move_start(event, before, after, now))
            continue
        time = min(event.time, after.end_date)
        if event.event_type == model.END:
            time = after.end_date
        elif event.event_type == model.BEFORE_END and event.time == before.before_end_date:
            time, told = after.before_end_date or time, True
        fixed = model.AFTERWARDS | {model.BEFORE_START, model.END_RESERVATION, model.PREPARE}
        if event.event_type not in fixed and time != event.time:
            changed.append(_move_event(event, time, now))
    if not told and after.before_end_date is not None:
        changed.append(plan.new_event(after.id, model.BEFORE_END, after.before_end_date, now))
    return plan.with_events(after, *changed)


def _move_start(
    event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
) -> model.Event:
    if after.status != states.LeaseStatus.PENDING and event.event_type == model.READY:
        return event
    if after.status == states.LeaseStatus.PENDING:
        manual = after.start_policy == states.StartPolicy.MANUAL
        kind = model.READY if manual else model.START
        if kind != event.event_type:
            time = after.start_date
            return dataclasses.replace(plan.rearm(event, time, now), event_type=kind, time=time)
    asleep = any(r.status == states.ReservationStatus.PENDING for r in after.reservations)
    given_up = event.event_type == model.START or event.status_reason is not None
    if asleep and given_up and not event.open and now < after.end_date:
        # It was given up because the lease was over, and now it is not.
        return plan.rearm(event, now, now)
    if before.start_date == after.start_date:
        return event
    return _move_event(event, after.start_date, now)


def _move_event(
    event: model.Event, time: datetime.datetime, now: datetime.datetime
) -> model.Event:
    """Give an event a new time; one that was done is done again if that is to come."""
    if event.open or time > now:
        event = plan.rearm(event, time, now)
    return dataclasses.replace(event, time=time)


def _give(
    lease: model.Lease, given: Sequence[Mapping[str, Any]], now: datetime.datetime, late: float
) -> model.Lease:
    """Put events of the user in the place of those that he gave before."""
    wanted = Counter(request.events(given, lease.end_date, now))
    events = []
    for event in lease.events:
        known = (event.event_type, event.time)
        if event.event_type not in _NOT_GIVEN:
            if not wanted[known]:
                continue
            wanted[known] -= 1
        events.append(event)
    for kind, time in wanted.elements():
        if kind in _NOT_GIVEN:
            raise exceptions.BadRequest(
                f'{kind} follows from before_start and before_end_date.', field='events'
            )
        if time < now - datetime.timedelta(seconds=late):
            raise exceptions.InvalidDate('An event must not be in the past.', field='events')
        events.append(plan.new_event(lease.id, kind, time, now))
    return dataclasses.replace(lease, events=tuple(events))
