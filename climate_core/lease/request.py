# SPDX-License-Identifier: Apache-2.0
"""Read what a user asks for: texts in, values with UTC times out, or an error that names a field.

The shape of the request has been checked by JSON Schema; here is what a schema cannot say.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from climate_common import limits
from climate_core import exceptions
from climate_core.lease import period, states, times, webhook
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A lease that a user asks for.

    :param start_is_relative: the start was not given, or counts from now: "now", "+2h"
    :param end_is_relative: the end was given so that it counts from now
    :param events: types and times of events beside those that every lease has
    :param lasts: the duration, if that was given in place of the end
    :param start_policy: one of :class:`climate_core.lease.states.StartPolicy`; this and the next
        two are None if nothing is said about it
    :param before_start: seconds before the start at which it is told, longest first
    :param webhook: see :func:`climate_core.lease.webhook.read`
    :param identified: the request names the lease, by its id or by an Idempotency-Key
    :param may_join: the policy was asked whether resources may join a lease that is there
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
    identified: bool = False
    may_join: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults of a request, and the rules for its webhook.

    :param minutes_before_end: when the end is told if the request says nothing; 0 for never
    :param webhooks: where webhooks may be
    """

    minutes_before_end: int = 60
    webhooks: webhook.Rules = webhook.DEFAULT


def read_request(
    values: Mapping[str, Any],
    now: datetime.datetime,
    defaults: Defaults,
    errors: ErrorCollector = RAISE_FIRST,
) -> LeaseRequest:
    """Read the request for a new lease. Its time may be past.

    :param errors: takes what is wrong with it, except for a start or an end that has no meaning
    :raises climate_core.exceptions.BadRequest: something is wrong with it
    """
    time = period.read_period(values, now)
    start, end = time.start, time.end
    if end <= start:
        errors.add(exceptions.InvalidDate('The end must be after the start.', field='end_date'))
    get = errors.get
    return LeaseRequest(
        name=get('', name, values.get('name')),
        start=start,
        end=end,
        before_end=get(None, _before_end, values, start, end, now, defaults.minutes_before_end),
        start_is_relative=time.start_is_relative,
        events=get((), events, values.get('events') or (), end, now),
        lasts=time.lasts,
        end_is_relative=time.end_is_relative,
        start_policy=get(None, start_policy, values.get('start_policy')),
        before_start=get(None, before_start, values.get('before_start')),
        webhook=get(None, _webhook, values.get('webhook'), defaults),
        identified=bool({'id', 'idempotency_key'} & values.keys()),
        may_join=values.get('may_join', True),
    )


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
