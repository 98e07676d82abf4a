# SPDX-License-Identifier: Apache-2.0
"""Create a lease for its user, and update it. Pure.

Its reservations are changed in :mod:`climate_core.lease.resources`, its start, end and deletion
are in :mod:`climate_core.lease.events.start` and :mod:`climate_core.lease.events.end`.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import lease_fields
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import events, model, request, resources, states, transitions
from climate_core.lease.events import end, queue, schedule
from climate_core.lease.events.start import END_MOVED
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.transitions import Change

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
_TIMES = ('start_date', 'end_date', 'before_end_date')
#: The fields that are read by their types alone.
_PLAIN: Final = (
    'name',
    'start_policy',
    'before_start',
    'priority',
    *(field.name for field in lease_fields.GENERIC if lease_fields.UPDATE in field.set_by),
)
_CHANGEABLE = {*_PLAIN, *_TIMES, 'duration', 'events', 'reservations', 'webhook'}
_BEFORE_START = (*states.UNGRANTED, states.LeaseStatus.PENDING)


def new_lease(
    lease_id: str,
    lease_request: request.LeaseRequest,
    digest: str | None,
    context: RequestContext,
    reservations: Iterable[Reservation],
    now: datetime,
    before_start: Iterable[int] = (),
    external_end: bool = False,
    kind: str = states.LeaseKind.IMMEDIATE,
) -> Lease:
    """Return a lease with its first events, without a trust.

    :param digest: of a request with an Idempotency-Key
    :param before_start: the seconds before the start of the notices that every lease has
    :param external_end: whether the external service is notified of its end
    :param kind: one of :class:`.states.LeaseKind`
    """
    lease = Lease(
        id=lease_id,
        name=lease_request.name,
        project_id=str(context.project_id),
        user_id=str(context.user_id),
        start_date=lease_request.start,
        end_date=lease_request.end,
        before_end_date=lease_request.before_end,
        created_at=now,
        start_policy=lease_request.start_policy or states.StartPolicy.AUTO,
        before_start=lease_request.before_start or (),
        webhook=lease_request.webhook,
        request_digest=digest,
        kind=kind,
        priority=lease_request.priority or 0,
        preemptible=lease_request.preemptible,
        **lease_request.generic,
        reservations=model.order_joining((), reservations),
    )
    first = schedule.first_events(lease, lease_request.events, now, before_start)
    if external_end:
        first = (*first, end.new_external_end(lease_id, now))
    return dataclasses.replace(lease, events=first)


def update_lease(
    lease: Lease, values: Mapping[str, Any], now: datetime, rules: request.RequestRules
) -> Change:
    """Return a lease with the values of its user; its events move with it.

    :param values: ``name``, ``start_date`` (before the start), ``end_date`` or ``duration``,
        ``before_end_date``, ``start_policy`` and ``before_start`` (before the start), ``priority``
        (while it is queued), ``webhook``, ``events`` (in place of those that the
        user added), ``reservations`` (``id`` and the params that the plugin lets change),
        ``partial`` (see :func:`read_partial`). None clears a field of
        :data:`climate_common.lease_fields.CLEARABLE`; of other fields it changes nothing.
    :raises climate_core.exceptions.ClimateError: a field cannot be changed, or not any more, a
        value is invalid, or the lease does not have the reservation
    """
    wanted = {k: v for k, v in values.items() if v is not None or k in lease_fields.CLEARABLE}
    partial = read_partial(wanted)
    wanted.pop('partial', None)
    for field in sorted(wanted.keys() - _CHANGEABLE):
        raise exceptions.BadRequest(
            f'{field} cannot be changed; {", ".join(sorted(_CHANGEABLE))} can be.', field=field
        )
    after = _change_plain_fields(lease, wanted, rules)
    after = _move_times(lease, after, _read_times(lease, wanted, now), now, rules)
    if partial or after.end_date != lease.end_date:
        after = cancel_early_ends(lease, after, partial, now)
    after = schedule.move_start_notices(lease, after, rules.before_start, now)
    if 'events' in wanted:
        after = _replace_user_events(after, wanted['events'], now, rules.late_start_seconds)
    for item in wanted.get('reservations', ()):
        params = {k: v for k, v in item.items() if k != 'id'}
        after = resources.change_reservation(after, str(item.get('id')), params, now).lease
    # Values are compared, not texts, so that a repeated request is no change.
    if after == lease:
        return Change(lease)
    if after != dataclasses.replace(lease, name=after.name):
        if lease.status in states.ENDING:
            raise _only_name_changes(lease)
        transitions.check_changeable(lease)
    if lease.retries_left is not None:
        after = _with_duration(after, wanted)
    if lease.status == _L.WAITING:
        after = queue.retry_now(after, now)
    revoked = {END_MOVED: None} if schedule.is_revoked(lease, after) else {}
    return Change(after, {**revoked, 'lease.update': None})


def _only_name_changes(lease: Lease) -> exceptions.InvalidState:
    return exceptions.InvalidState(
        f'Lease {lease.id} is {lease.status}: only its name can be changed.'
    )


def _with_duration(lease: Lease, wanted: Mapping[str, Any]) -> Lease:
    """Return a lease that is queued, or may be, with its new duration."""
    if 'duration' in wanted:
        seconds = round(request.read_duration(wanted['duration']).total_seconds())
        return dataclasses.replace(lease, duration=seconds)
    return dataclasses.replace(lease, duration=None) if 'end_date' in wanted else lease


def _change_plain_fields(
    lease: Lease, wanted: Mapping[str, Any], rules: request.RequestRules
) -> Lease:
    """Change the fields that are no times."""
    new = {field: request.read_value(field, wanted[field]) for field in _PLAIN if field in wanted}
    if 'webhook' in wanted:
        new['webhook'] = request.read_webhook(wanted['webhook'], rules.webhooks)
    for field in ('start_policy', 'before_start'):
        started = lease.status not in _BEFORE_START
        if started and new.get(field, getattr(lease, field)) != getattr(lease, field):
            raise exceptions.InvalidState(
                f'The lease has started or failed: {field} can only be changed before the start.',
                field=field,
            )
    if new.get('priority', lease.priority) != lease.priority and lease.status != _L.WAITING:
        raise exceptions.InvalidState(
            f'The lease is {lease.status}: the priority can be changed only while it is WAITING.',
            field='priority',
        )
    return dataclasses.replace(lease, **new)


def _read_times(lease: Lease, wanted: Mapping[str, Any], now: datetime) -> dict[str, datetime]:
    given = {k: request.read_date(wanted[k], now, k) for k in _TIMES if k in wanted}
    if 'duration' in wanted:
        if 'end_date' in given:
            raise exceptions.BadRequest('Give end_date or duration, not both.', field='duration')
        start = given.get('start_date', lease.start_date)
        given['end_date'] = request.end_after(start, request.read_duration(wanted['duration']))
    return given


def _move_times(
    old: Lease,
    lease: Lease,
    given: Mapping[str, datetime],
    now: datetime,
    rules: request.RequestRules,
) -> Lease:
    """Set the new times of a lease. ``before_end_date`` follows the end unless it is given."""
    moved = {k: v for k, v in given.items() if v != getattr(old, k)}
    if not moved and lease.start_policy == old.start_policy:
        return lease
    start = given.get('start_date', lease.start_date)
    end = given.get('end_date', lease.end_date)
    before_end = None
    if moved:
        _check_move(lease, moved, now, rules.late_start_seconds)
        if 'before_end_date' in given:
            before_end = request.check_before_end(given['before_end_date'], start, end)
    after = schedule.shift_period(lease, start, end, now, before_end)
    is_auto = lease.start_policy == states.StartPolicy.AUTO
    if lease.status_reason == transitions.WAITS_FOR_USER and (start > now or is_auto):
        after = dataclasses.replace(after, status_reason=None)
    return schedule.add_before_end(lease, after, now)


def moved_date(before: Lease, after: Lease) -> str | None:
    """Return the date that a change moves, the start if it moves both; None: it moves no date."""
    if before.start_date != after.start_date:
        return 'start_date'
    return 'end_date' if before.end_date != after.end_date else None


def _check_move(lease: Lease, moved: Mapping[str, datetime], now: datetime, late: float) -> None:
    if lease.status in states.ENDING:
        raise _only_name_changes(lease)
    if 'start_date' in moved and lease.status not in _BEFORE_START:
        raise exceptions.InvalidState(
            f'The start can only be changed before it; the lease is {lease.status}.',
            field='start_date',
        )
    if moved.get('start_date', now) < now - timedelta(seconds=late):
        raise request.past_date_error('start', 'start_date', now)
    end = moved.get('end_date', lease.end_date)
    if 'end_date' in moved and end < now:
        raise request.past_date_error('end', 'end_date', now)
    start = moved.get('start_date', lease.start_date)
    if end <= start:
        raise request.end_before_start_error(start)


def _replace_user_events(
    lease: Lease, given: Sequence[Mapping[str, Any]], now: datetime, late: float
) -> Lease:
    """Replace the events that the user added before."""
    read = request.read_events(given, lease.end_date, now)
    wanted = Counter(read)
    kept = []
    for event in lease.events:
        known = (event.event_type, event.time)
        if events.is_user_event(event.event_type):
            if not wanted[known]:
                continue
            wanted[known] -= 1
        kept.append(event)
    for event_type, time in wanted.elements():
        field = f'events[{read.index((event_type, time))}]'
        if not events.is_user_event(event_type):
            raise exceptions.BadRequest(
                f'{event_type} follows from before_start and before_end_date.',
                field=f'{field}.event_type',
            )
        if time < now - timedelta(seconds=late):
            raise request.past_date_error(f'time of the event {event_type}', f'{field}.time', now)
        kept.append(model.new_event(lease.id, event_type, time, now))
    return dataclasses.replace(lease, events=tuple(kept))


def read_partial(values: Mapping[str, Any]) -> bool:
    """Return whether a change extends only the resources that can be extended.

    A lease has one end date. With ``partial`` the resources that the calendar cannot allocate for
    longer keep their end, and leave the lease then by the event ``end_reservation``. They do so
    until the end date is not later than their end any more, or a change with ``partial`` extends
    them.

    :raises climate_core.exceptions.BadRequest: the change is no extension
    """
    partial = bool(values.get('partial'))
    moves_end = any(values.get(name) is not None for name in ('end_date', 'duration'))
    if partial and (not moves_end or values.get('start_date') is not None):
        raise exceptions.BadRequest(
            'partial: must be left out unless end_date or duration let the lease end later, and '
            'start_date stays as it is.',
            field='partial',
        )
    return partial


def resumed_ends(before: Lease, after: Lease) -> set[str]:
    """Return the ids of the reservations that end with their lease again after a change."""
    staying = {r.id for r in after.live if r.status != states.ReservationStatus.DELETING}
    return staying & (before.early_ends.keys() - after.early_ends.keys())


def cancel_early_ends(before: Lease, after: Lease, partial: bool, now: datetime) -> Lease:
    """Return a lease with a new end date, whose reservations end with it again if they can.

    :param partial: whether the change extends reservations that end early
    :raises climate_core.exceptions.BadRequest: the lease does not end later with ``partial``
    """
    if partial and after.end_date < before.end_date:
        raise exceptions.BadRequest(
            'partial: must be left out: the lease does not end later.', field='partial'
        )
    early = after.early_ends
    resumed = [
        event
        for event in after.events_of(model.END_RESERVATION)
        if event.open
        and event.reservation_id in early
        and event.time > now
        and (partial or after.end_date <= event.time)
    ]
    return transitions.cancel_events(after, resumed, 'It ends with its lease.', now)


def add_early_ends(
    before: Lease, after: Lease, reservation_ids: Iterable[str], now: datetime
) -> Lease:
    """Return a lease some of whose reservations keep the end that they had before a change."""
    ends = {each: before.early_ends.get(each, before.end_date) for each in sorted(reservation_ids)}
    return after.with_events(
        *(
            model.new_event(after.id, model.END_RESERVATION, end, now, reservation_id)
            for reservation_id, end in ends.items()
        )
    )
