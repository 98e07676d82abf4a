# SPDX-License-Identifier: Apache-2.0
"""Change a lease as its user asks: texts in, the lease as it shall be out. Pure.

A change that cannot be made raises and changes nothing.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from climate_core import exceptions
from climate_core.lease import dates, model, plan, request, states

_CHANGEABLE = frozenset({'name', 'start_date', 'end_date', 'before_end_date'})
_OLD_NAMES = {'before_end_notification': 'before_end_date'}


def update(
    lease: model.Lease, values: Mapping[str, Any], now: datetime.datetime, late: float
) -> plan.Change:
    """Say what a lease is after a user has changed it; its events move with it.

    :param values: ``name``, ``start_date`` (before the start), ``end_date``, ``before_end_date``
    :param late: seconds that a new start may be in the past
    :raises climate_core.exceptions.BadRequest: something else was to be changed, or a bad date
    :raises climate_core.exceptions.InvalidState: the lease is too far for this
    """
    wanted = {_OLD_NAMES.get(k, k): v for k, v in values.items() if v not in (None, [])}
    for field in sorted(wanted.keys() - _CHANGEABLE):
        raise exceptions.BadRequest(f'{field} cannot be changed.', field=field)
    after = lease
    if 'name' in wanted:
        after = dataclasses.replace(after, name=request.name(wanted.pop('name')))
    if wanted:
        times = {k: dates.parse(v, now, k) for k, v in wanted.items()}
        after = _move(after, times, now, late)
    return plan.Change(after, {'lease.update': None} if after != lease else {})


def _move(
    lease: model.Lease,
    given: Mapping[str, datetime.datetime],
    now: datetime.datetime,
    late: float,
) -> model.Lease:
    """Give a lease its new times. ``before_end_date`` follows the end unless it is given."""
    moved = {k: v for k, v in given.items() if v != getattr(lease, k)}
    if not moved:
        return lease
    _check_move(lease, moved, now, late)
    start = given.get('start_date', lease.start_date)
    end = given.get('end_date', lease.end_date)
    before_end = lease.before_end_date
    if 'before_end_date' in given:
        before_end = request.check_before_end(given['before_end_date'], start, end)
    elif before_end is not None:
        before_end = max(start, min(end, end - (lease.end_date - before_end)))
    after = dataclasses.replace(lease, start_date=start, end_date=end, before_end_date=before_end)
    return _move_events(lease, after, now)


def _check_move(
    lease: model.Lease,
    moved: Mapping[str, datetime.datetime],
    now: datetime.datetime,
    late: float,
) -> None:
    if moved and lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: only its name can be changed.'
        )
    if 'start_date' in moved and lease.status != states.LeaseStatus.PENDING:
        raise exceptions.InvalidState(
            'The start of a lease that has started cannot be changed.', field='start_date'
        )
    if moved.get('start_date', now) < now - datetime.timedelta(seconds=late):
        raise exceptions.InvalidDate('The start must not be in the past.', field='start_date')
    end = moved.get('end_date', lease.end_date)
    if 'end_date' in moved and end < now:
        raise exceptions.InvalidDate('The end must not be in the past.', field='end_date')
    if end <= moved.get('start_date', lease.start_date):
        raise exceptions.InvalidDate('The end must be after the start.', field='end_date')


def _move_events(before: model.Lease, after: model.Lease, now: datetime.datetime) -> model.Lease:
    changed = []
    told = after.before_end_date is None
    asleep = any(r.status == states.ReservationStatus.PENDING for r in after.reservations)
    for event in after.events:
        if event.event_type == model.START and asleep and not event.open:
            # It was given up because the lease was over, and now it is not.
            changed.append(plan.rearm(event, now, now))
            continue
        time = min(event.time, after.end_date)
        if event.event_type == model.START:
            time = after.start_date
        elif event.event_type == model.END:
            time = after.end_date
        elif event.event_type == model.BEFORE_END and event.time == before.before_end_date:
            time, told = after.before_end_date or time, True
        if event.event_type in model.AFTERWARDS or time == event.time:
            continue
        changed.append(_move_event(event, time, now))
    if not told and after.before_end_date is not None:
        changed.append(plan.new_event(after.id, model.BEFORE_END, after.before_end_date, now))
    return plan.with_events(after, *changed)


def _move_event(
    event: model.Event, time: datetime.datetime, now: datetime.datetime
) -> model.Event:
    """Give an event a new time; one that was done is done again if that is to come."""
    if event.open or time > now:
        event = plan.rearm(event, time, now)
    return dataclasses.replace(event, time=time)
