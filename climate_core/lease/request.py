# SPDX-License-Identifier: Apache-2.0
"""Read what a user asks for: texts in, values with UTC times out, or an error that names a field.

The shape of the request has been checked by JSON Schema; here is what a schema cannot say.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from climate_common import dates, limits
from climate_core import exceptions
from climate_core.lease import model, states, times, webhook
from climate_core.lease.refusals import AT_ONCE, Refusals

_AT_ONCE = datetime.timedelta(minutes=1)
_OPTIONS = ('start_policy', 'before_start', 'webhook')


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A lease that a user wants.

    :param start_is_relative: the start was not given, or counts from now: "now", "+2h"
    :param end_is_relative: the end was given so that it counts from now
    :param events: types and times of events beside those that every lease has
    :param lasts: the duration, if that was given in place of the end
    :param start_policy: one of :class:`climate_core.lease.states.StartPolicy`; this and the next
        two are None if nothing is said about it
    :param before_start: seconds before the start at which it is told, longest first
    :param webhook: see :func:`climate_core.lease.webhook.read`
    """

    name: str
    start: datetime.datetime
    end: datetime.datetime
    before_end: datetime.datetime | None
    start_is_relative: bool
    events: tuple[tuple[str, datetime.datetime], ...]
    lasts: datetime.timedelta | None = None
    end_is_relative: bool = False
    start_policy: str | None = None
    before_start: tuple[int, ...] | None = None
    webhook: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Defaults:
    """What a request does not say, and what is allowed in it.

    :param minutes_before_end: when the end is told if the request says nothing; 0 for never
    :param webhooks: where webhooks may be
    """

    minutes_before_end: int = 60
    webhooks: webhook.Rules = webhook.DEFAULT


def read(
    values: Mapping[str, Any],
    now: datetime.datetime,
    defaults: Defaults,
    refusals: Refusals = AT_ONCE,
) -> Wanted:
    """Read the request for a new lease. Whether its time is past is :func:`check_time`'s.

    :param refusals: takes what is wrong with it, except for a start or an end that has no meaning
    :raises climate_core.exceptions.BadRequest: something is wrong with it
    """
    text = values.get('start_date') or 'now'
    start = times.date(text, now, 'start_date')
    end, lasts = _end(values, start, now)
    if end <= start:
        refusals.add(exceptions.InvalidDate('The end must be after the start.', field='end_date'))
    get = refusals.get
    return Wanted(
        name=get('', name, values.get('name')),
        start=start,
        end=end,
        before_end=get(None, _before_end, values, start, end, now, defaults.minutes_before_end),
        start_is_relative=dates.is_relative(text),
        events=get((), events, values.get('events') or (), end, now),
        lasts=lasts,
        end_is_relative=dates.is_relative(values.get('end_date')),
        start_policy=get(None, start_policy, values.get('start_policy')),
        before_start=get(None, before_start, values.get('before_start')),
        webhook=get(None, _webhook, values.get('webhook'), defaults),
    )


def _end(
    values: Mapping[str, Any], start: datetime.datetime, now: datetime.datetime
) -> tuple[datetime.datetime, datetime.timedelta | None]:
    given = [each for each in ('end_date', 'duration') if values.get(each) is not None]
    if len(given) != 1:
        raise exceptions.BadRequest(
            'Exactly one of end_date and duration is needed.',
            field='duration' if given else 'end_date',
        )
    if given == ['end_date']:
        return times.date(values['end_date'], now, 'end_date'), None
    lasts = times.duration(values['duration'])
    return times.end(start, lasts), lasts


def check_time(
    wanted: Wanted, now: datetime.datetime, late: float, refusals: Refusals = AT_ONCE
) -> None:
    """Refuse a new lease whose time is past.

    :param late: seconds that the start may be late
    :raises climate_core.exceptions.InvalidDate: it is
    """
    earliest = now - datetime.timedelta(seconds=late)
    past = {
        'start_date': ('The start must not be in the past.', wanted.start < earliest),
        'events': (
            'An event must not be in the past.',
            any(time < earliest for _, time in wanted.events),
        ),
        'end_date': ('The end must be in the future.', wanted.end <= now),
    }
    for field, (told, wrong) in past.items():
        if wrong:
            refusals.add(exceptions.InvalidDate(told, field=field))


def same(wanted: Wanted, lease: model.Lease) -> bool:
    """Tell whether a lease is what is wanted: a request that is repeated, or one of several.

    "now" is later each time it is said, or a little earlier when two say it at once, and so is
    what counts from now; with a duration the end goes with the start. What the request says
    nothing about may be anything.
    """
    start = _same_time(wanted.start, lease.start_date, wanted.start_is_relative)
    end = _same_time(wanted.end, lease.end_date, wanted.end_is_relative)
    if wanted.start_is_relative and wanted.lasts is not None:
        end = wanted.lasts == lease.end_date - lease.start_date
    said = ((getattr(wanted, field), getattr(lease, field)) for field in _OPTIONS)
    options = all(ours is None or ours == theirs for ours, theirs in said)
    return start and end and options and wanted.name == lease.name


def _same_time(wanted: datetime.datetime, stored: datetime.datetime, is_relative: bool) -> bool:
    return stored <= wanted + _AT_ONCE if is_relative else stored == wanted


def name(value: Any) -> str:
    """Read the name of a lease.

    :raises climate_core.exceptions.BadRequest: it is no text, blank or too long
    """
    try:
        return limits.check_name(value)
    except ValueError as error:
        raise exceptions.BadRequest(str(error), field='name') from None


def start_policy(value: Any) -> str | None:
    """Read who starts the lease; None if nothing is said.

    :raises climate_core.exceptions.BadRequest: there is no such policy
    """
    if value is not None and value not in list(states.StartPolicy):
        raise exceptions.BadRequest('It must be auto or manual.', field='start_policy')
    return value if value is None else str(value)


def before_start(value: Any) -> tuple[int, ...] | None:
    """Read how many seconds before its start a lease is told, longest first; None if not said.

    :raises climate_core.exceptions.BadRequest: it is no list of numbers that make sense
    """
    if value is None:
        return None
    try:
        return tuple(sorted(set(limits.check_start_notices(value)), reverse=True))
    except ValueError as error:
        raise exceptions.BadRequest(str(error), field='before_start') from None


def _webhook(value: Any, defaults: Defaults) -> dict[str, Any] | None:
    return None if value is None else webhook.read(value, defaults.webhooks)


def _before_end(
    values: Mapping[str, Any],
    start: datetime.datetime,
    end: datetime.datetime,
    now: datetime.datetime,
    minutes: int,
) -> datetime.datetime | None:
    for field in ('before_end_date', 'before_end_notification'):
        if values.get(field):
            return check_before_end(times.date(values[field], now, field), start, end, field)
    if not minutes:
        return None
    return max(start, end - datetime.timedelta(minutes=minutes))


def check_before_end(
    time: datetime.datetime,
    start: datetime.datetime,
    end: datetime.datetime,
    field: str = 'before_end_date',
) -> datetime.datetime:
    """Return the time, which must lie within the lease.

    :raises climate_core.exceptions.InvalidDate: it does not
    """
    if not start <= time <= end:
        raise exceptions.InvalidDate(
            'It must lie between the start and the end of the lease.', field=field
        )
    return time


def events(
    given: Sequence[Mapping[str, Any]], end: datetime.datetime, now: datetime.datetime
) -> tuple[tuple[str, datetime.datetime], ...]:
    """Read types and times of the events that a user gives.

    :raises climate_core.exceptions.BadRequest: a type that cannot be given, or a bad time
    """
    return tuple(_event(item, end, now) for item in given)


def _event(
    item: Mapping[str, Any], end: datetime.datetime, now: datetime.datetime
) -> tuple[str, datetime.datetime]:
    try:
        kind = limits.check_event_type(item.get('event_type'))
    except ValueError as error:
        raise exceptions.BadRequest(str(error), field='events') from None
    time = times.date(item.get('time') or item.get('event_date'), now, 'events')
    if time > end:
        raise exceptions.InvalidDate(
            f'The event {kind} must not be after the end of the lease.', field='events'
        )
    return kind, time
