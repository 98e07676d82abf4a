# SPDX-License-Identifier: Apache-2.0
"""Read what a user asks for: texts in, values with UTC times out, or an error that names a field.

The shape of the request has been checked by JSON Schema; here is what a schema cannot say.
"""

import dataclasses
import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from climate_core import exceptions
from climate_core.lease import dates, model

_AT_ONCE = datetime.timedelta(minutes=1)
_EVENT_TYPE = re.compile(r'^[a-z][a-z0-9_.-]{0,65}$')


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A lease that a user wants.

    :param starts_now: the start was not given, or given as "now"
    :param events: types and times of events beside those that every lease has
    """

    name: str
    start: datetime.datetime
    end: datetime.datetime
    before_end: datetime.datetime | None
    starts_now: bool
    events: tuple[tuple[str, datetime.datetime], ...]


def read(values: Mapping[str, Any], now: datetime.datetime, minutes_before_end: int) -> Wanted:
    """Read the request for a new lease. Whether its time is past is :func:`check_time`'s.

    :param minutes_before_end: when the end is told if the request says nothing; 0 for never
    :raises climate_core.exceptions.BadRequest: something is wrong with it
    """
    text = values.get('start_date') or 'now'
    start = dates.parse(text, now, 'start_date')
    end = dates.parse(values.get('end_date'), now, 'end_date')
    if end <= start:
        raise exceptions.InvalidDate('The end must be after the start.', field='end_date')
    return Wanted(
        name=name(values.get('name')),
        start=start,
        end=end,
        before_end=_before_end(values, start, end, now, minutes_before_end),
        starts_now=str(text).strip() == 'now',
        events=_events(values.get('events') or (), end, now),
    )


def check_time(wanted: Wanted, now: datetime.datetime, late: float) -> None:
    """Refuse a new lease whose time is past.

    :param late: seconds that the start may be late
    :raises climate_core.exceptions.InvalidDate: it is
    """
    earliest = now - datetime.timedelta(seconds=late)
    if wanted.start < earliest:
        raise exceptions.InvalidDate('The start must not be in the past.', field='start_date')
    if any(time < earliest for _, time in wanted.events):
        raise exceptions.InvalidDate('An event must not be in the past.', field='events')
    if wanted.end <= now:
        raise exceptions.InvalidDate('The end must be in the future.', field='end_date')


def same(wanted: Wanted, lease: model.Lease) -> bool:
    """Tell whether a lease is what is wanted: a request that is repeated, or one of several.

    "now" is later each time it is said, or a little earlier when two say it at once.
    """
    start = wanted.start == lease.start_date
    if wanted.starts_now:
        start = lease.start_date <= wanted.start + _AT_ONCE
    return start and wanted.name == lease.name and wanted.end == lease.end_date


def name(value: Any) -> str:
    """Read the name of a lease.

    :raises climate_core.exceptions.BadRequest: it is no text, empty or longer than 255
    """
    if not isinstance(value, str) or not value.strip() or len(value) > 255:
        raise exceptions.BadRequest('A name of 1 to 255 characters is needed.', field='name')
    return value


def _before_end(
    values: Mapping[str, Any],
    start: datetime.datetime,
    end: datetime.datetime,
    now: datetime.datetime,
    minutes: int,
) -> datetime.datetime | None:
    for field in ('before_end_date', 'before_end_notification'):
        if values.get(field):
            return check_before_end(dates.parse(values[field], now, field), start, end, field)
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


def _events(
    given: Sequence[Mapping[str, Any]], end: datetime.datetime, now: datetime.datetime
) -> tuple[tuple[str, datetime.datetime], ...]:
    return tuple(_event(item, end, now) for item in given)


def _event(
    item: Mapping[str, Any], end: datetime.datetime, now: datetime.datetime
) -> tuple[str, datetime.datetime]:
    kind = item.get('event_type')
    if not isinstance(kind, str) or not _EVENT_TYPE.fullmatch(kind) or kind in model.OWN_EVENTS:
        raise exceptions.BadRequest(
            f'{kind!r} is not the type of an event that can be given: lower-case letters, digits, '
            f'"_", "-" and ".", and not {", ".join(sorted(model.OWN_EVENTS))}.',
            field='events',
        )
    time = dates.parse(item.get('time') or item.get('event_date'), now, 'events')
    if time > end:
        raise exceptions.InvalidDate(
            f'The event {kind} must not be after the end of the lease.', field='events'
        )
    return kind, time
