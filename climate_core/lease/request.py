# SPDX-License-Identifier: Apache-2.0
"""Read requests for leases: texts in, values with UTC times out, or an error with its field. Pure.

JSON Schemas have checked the shape of a request; this module checks what a schema cannot express.
The first error is raised; a dry run collects all of them.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import dates, lease_fields, limits
from climate_core import exceptions
from climate_core import webhooks as climate_core_webhooks
from climate_core.lease import states


class ErrorCollector:
    """Collect the errors of a request in :attr:`found`.

    Errors that are not about the request are raised in any case: a service that does not respond,
    or rejects the token.
    """

    def __init__(self) -> None:
        self.found: list[exceptions.ClimateError] = []

    def add(self, error: exceptions.ClimateError) -> None:
        """Collect an error."""
        if error.status >= 500 or error.status == 401:
            raise error
        self.found.append(error)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the error that the block raises, if any."""
        try:
            yield
        except exceptions.ClimateError as exc:
            self.add(exc)


class _RaiseFirst(ErrorCollector):
    def add(self, error: exceptions.ClimateError) -> None:
        raise error


RAISE_FIRST = _RaiseFirst()


@contextlib.contextmanager
def prefix_field(field: str) -> Iterator[None]:
    """Prefix the field of an error in the block with its place, as ``reservations[2]``."""
    try:
        yield
    except exceptions.ClimateError as exc:
        if field and exc.field is not None:
            whole, part = f'{field}.{exc.field}', f'{exc.field}: '
            if exc.message.startswith(part):
                # The sentence starts with the field of the response.
                exc.args = (f'{whole}: {exc.message.removeprefix(part)}', *exc.args[1:])
            exc.field = whole
        raise


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A lease that a user requests.

    Fields that the request leaves out are None.

    :param start_is_relative: whether the start counts from now, as "now" and "+2h", or is left out
    :param end_is_relative: whether the end counts from now
    :param events: types and times of the events that the user adds
    :param lasts: the duration, if the request has one in place of the end
    :param before_start: seconds before the start of the notices, longest first
    :param identified: whether the request names the lease, by its id or by an Idempotency-Key
    :param max_retries: the maximum number of retries
    :param best_effort_timeout: the maximum number of seconds to drain hosts for it
    :param preemptible: whether other leases may preempt it
    :param may_join: whether the policy lets resources join a lease that exists
    :param generic: the given fields of :data:`climate_common.lease_fields.GENERIC`
    """

    start: datetime
    end: datetime
    start_is_relative: bool
    end_is_relative: bool
    lasts: timedelta | None
    name: str = ''
    before_end: datetime | None = None
    events: tuple[tuple[str, datetime], ...] = ()
    start_policy: str | None = None
    before_start: tuple[int, ...] | None = None
    webhook: Mapping[str, Any] | None = None
    identified: bool = False
    may_join: bool = True
    kind: str | None = None
    max_retries: int | None = None
    priority: int | None = None
    best_effort_timeout: int | None = None
    preemptible: bool = False
    generic: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestRules:
    """The operator's rules and defaults for requests.

    :param minutes_before_end: the default notice before the end; 0: none
    :param webhooks: which webhooks are allowed
    :param late_start_seconds: the maximum age of a new start, or of a new event
    :param max_retries: the maximum number of retries of a lease
    :param best_effort_timeout: the maximum number of seconds to drain hosts for a lease
    :param before_start: the seconds before the start of the notices that every lease has
    """

    minutes_before_end: int = 60
    webhooks: climate_core_webhooks.WebhookRules = climate_core_webhooks.DEFAULT_RULES
    late_start_seconds: int = 300
    max_retries: int = limits.RETRIES
    best_effort_timeout: int = limits.BEST_EFFORT_SECONDS
    before_start: Sequence[int] = ()


def read_lease_request(
    values: Mapping[str, Any],
    now: datetime,
    rules: RequestRules,
    errors: ErrorCollector = RAISE_FIRST,
    *,
    new: bool = True,
) -> LeaseRequest:
    """Read the request for a lease.

    :param errors: collects errors, except for a start or an end that cannot be parsed
    :param new: whether the lease does not exist yet. The times of one that exists may have passed,
        and it may exceed what the operator allows now
    """
    start, end, lasts = _read_period(values, now)
    if end <= start:
        errors.add(end_before_start_error(start))
    fields: dict[str, Any] = {}
    with errors.collected():
        fields['name'] = read_value('name', values.get('name'))
    with errors.collected():
        fields['before_end'] = _read_before_end(values, start, end, now, rules.minutes_before_end)
    with errors.collected():
        fields['events'] = read_events(values.get('events') or (), end, now)
    for name in _OPTIONAL:
        if values.get(name) is not None:
            with errors.collected():
                fields[name] = _read_optional(name, values, rules)
    generic: dict[str, Any] = {}
    for field in lease_fields.GENERIC:
        if values.get(field.name) is not None:
            with errors.collected():
                generic[field.name] = read_value(field.name, values[field.name])
    lease_request = LeaseRequest(
        start=start,
        end=end,
        start_is_relative=dates.is_relative(values.get('start_date') or 'now'),
        end_is_relative=dates.is_relative(values.get('end_date')),
        lasts=lasts,
        identified=bool({'id', 'idempotency_key'} & values.keys()),
        may_join=values.get('may_join', True),
        generic=generic,
        **fields,
    )
    if new:
        _check_new(lease_request, now, rules, errors)
    return lease_request


def _check_new(
    lease_request: LeaseRequest, now: datetime, rules: RequestRules, errors: ErrorCollector
) -> None:
    """Reject times that have passed, and values above the maximum of the operator."""
    earliest = now - timedelta(seconds=rules.late_start_seconds)
    if lease_request.start < earliest:
        errors.add(past_date_error('start', 'start_date', now))
    for number, (event_type, time) in enumerate(lease_request.events):
        if time < earliest:
            errors.add(
                past_date_error(f'time of the event {event_type}', f'events[{number}].time', now)
            )
    if lease_request.end <= now:
        errors.add(exceptions.InvalidDate('The end must be in the future.', 'end_date'))
    for name in ('max_retries', 'best_effort_timeout'):
        value, maximum = getattr(lease_request, name), getattr(rules, name)
        if value is not None and value > maximum:
            errors.add(exceptions.BadRequest(f'It must be at most {maximum} here.', field=name))


def _read_period(
    values: Mapping[str, Any], now: datetime
) -> tuple[datetime, datetime, timedelta | None]:
    """Return the start (default now), the end, and the duration if that was given."""
    given = [each for each in ('end_date', 'duration') if values.get(each) is not None]
    if len(given) != 1:
        raise exceptions.BadRequest(
            'Exactly one of end_date and duration must be given.',
            field='duration' if given else 'end_date',
        )
    start = read_date(values.get('start_date') or 'now', now, 'start_date')
    if given == ['end_date']:
        return start, read_date(values['end_date'], now, 'end_date'), None
    duration = read_duration(values['duration'])
    return start, end_after(start, duration), duration


def read_value(name: str, value: Any) -> Any:
    """Read the value of a field by its type; None: the request leaves it out.

    Not for times, durations, webhooks, events and reservations.

    :raises climate_core.exceptions.BadRequest: it is not allowed
    """
    field = lease_fields.BY_NAME[name]
    if name == 'name':
        with name_field(name):
            return limits.check_name(value)
    if value is None:
        return None
    match field.type:
        case lease_fields.SECONDS:
            return read_before_start(value)
        case lease_fields.CHOICE if value not in field.choices:
            is_pair = len(field.choices) == 2
            allowed = (' or ' if is_pair else ', ').join(field.choices)
            message = f'It must be {allowed}.' if is_pair else f'It must be one of {allowed}.'
            raise exceptions.BadRequest(message, field=name)
        case lease_fields.BOOLEAN if not isinstance(value, bool):
            raise exceptions.BadRequest('It must be true or false.', field=name)
        case lease_fields.TEXT if not isinstance(value, str) or len(value) > field.maximum:
            raise exceptions.BadRequest(
                f'It must be a text of up to {field.maximum} characters.', field=name
            )
        case lease_fields.INTEGER:
            return _read_integer(value, field)
    return str(value) if field.choices else value


#: The fields that a new lease may leave out, in the order of their errors.
_OPTIONAL: Final = (
    'start_policy',
    'before_start',
    'webhook',
    'kind',
    'max_retries',
    'priority',
    'best_effort_timeout',
    'preemptible',
)
#: A field that only leases of one kind have -> the kind, and what is wrong for another one.
_FIELDS_OF_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    'max_retries': (
        states.LeaseKind.RETRY,
        'It is for the kind retry: leases of other kinds are not retried.',
    ),
    'priority': (
        states.LeaseKind.RETRY,
        'It is for the kind retry: leases of other kinds are not queued.',
    ),
    'best_effort_timeout': (
        states.LeaseKind.BEST_EFFORT,
        'It is for the kind best_effort: for other kinds no hosts are drained.',
    ),
}


def _read_optional(name: str, values: Mapping[str, Any], rules: RequestRules) -> Any:
    """Read a field of :data:`_OPTIONAL` that the request has.

    :raises climate_core.exceptions.ClimateError: it is not allowed, or the lease is of another
        kind
    """
    if name == 'webhook':
        return read_webhook(values[name], rules.webhooks)
    kind, message = _FIELDS_OF_KINDS.get(name, (values.get('kind'), ''))
    if values.get('kind') != kind:
        raise exceptions.BadRequest(message, field=name)
    return read_value(name, values[name])


def read_before_start(value: Any) -> tuple[int, ...]:
    """Read the seconds of notices before the start, longest first.

    :raises climate_core.exceptions.BadRequest: it is no list of such numbers
    """
    with name_field('before_start'):
        seconds = limits.check_start_notices(value)
    return tuple(sorted(set(seconds), reverse=True))


def _read_integer(value: Any, field: lease_fields.Field) -> int:
    low, high = field.minimum, field.maximum
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise exceptions.BadRequest(
            f'It must be an integer from {low} to {high}.', field=field.name
        )
    return value


def read_webhook(value: Any, rules: climate_core_webhooks.WebhookRules) -> dict[str, Any] | None:
    """Read the webhook of a lease; None: it has none."""
    return None if value is None else climate_core_webhooks.read_webhook(value, rules)


def _read_before_end(
    values: Mapping[str, Any],
    start: datetime,
    end: datetime,
    now: datetime,
    minutes: int,
) -> datetime | None:
    for field in ('before_end_date', 'before_end_notification'):
        if values.get(field):
            return check_before_end(read_date(values[field], now, field), start, end, field)
    if not minutes:
        return None
    return max(start, end - timedelta(minutes=minutes))


def check_before_end(
    time: datetime,
    start: datetime,
    end: datetime,
    field: str = 'before_end_date',
) -> datetime:
    """Return the time of the notification before the end.

    :raises climate_core.exceptions.InvalidDate: it does not lie within the lease
    """
    if not start <= time <= end:
        raise exceptions.InvalidDate(
            f'It must lie between the start and the end of the lease ({dates.sentence(start)} to '
            f'{dates.sentence(end)}).',
            field=field,
        )
    return time


def read_events(
    given: Sequence[Mapping[str, Any]], end: datetime, now: datetime
) -> tuple[tuple[str, datetime], ...]:
    """Read types and times of the events that a user adds; BadRequest if one is not allowed."""
    return tuple(_read_event(item, f'events[{n}]', end, now) for n, item in enumerate(given))


def _read_event(
    item: Mapping[str, Any], field: str, end: datetime, now: datetime
) -> tuple[str, datetime]:
    with name_field(f'{field}.event_type'):
        event_type = limits.check_event_type(item.get('event_type'))
    time = read_date(item.get('time') or item.get('event_date'), now, f'{field}.time')
    if time > end:
        latest = dates.sentence(end)
        raise exceptions.InvalidDate(
            f'The event {event_type} must not be after the end of the lease ({latest}).',
            field=f'{field}.time',
        )
    return event_type, time


def read_date(value: object, now: datetime, field: str) -> datetime:
    """Read a date of a request; InvalidDate names its field."""
    with name_field(field):
        return dates.parse(value, now)


def read_duration(value: object, field: str = 'duration') -> timedelta:
    """Read a duration of a request; InvalidDuration names its field."""
    with name_field(field):
        return dates.parse_duration(value)


def end_after(start: datetime, duration: timedelta, field: str = 'duration') -> datetime:
    """Return the end of a duration; InvalidDuration: it is too late."""
    with name_field(field):
        return dates.add_duration(start, duration)


def end_before_start_error(start: datetime) -> exceptions.InvalidDate:
    """Return the error of an end that is not after the start, which begins as in Blazar."""
    return exceptions.InvalidDate(
        f'End date must be later than start date. The start is {dates.sentence(start)}.',
        field='end_date',
    )


def past_date_error(what: str, field: str, now: datetime) -> exceptions.InvalidDate:
    """Return the error of a time in the past; it shows the current time."""
    # Without microseconds: a sentence rounds up, and would show the next second.
    shown = dates.sentence(now.replace(microsecond=0))
    text = f'The {what} must not be in the past: it is {shown} now.'
    if field == 'start_date':
        # Clients of Blazar search for this sentence.
        text += ' Start date must be later than current date.'
    return exceptions.InvalidDate(text, field=field)


@contextlib.contextmanager
def name_field(name: str) -> Iterator[None]:
    """Replace an error of :mod:`climate_common` by one of the API, with the field of the request.

    :raises climate_core.exceptions.InvalidDate: the block raised an error of ``dates``
    :raises climate_core.exceptions.InvalidDuration: the block raised an error of a duration
    :raises climate_core.exceptions.BadRequest: the block raised another ValueError
    """
    try:
        yield
    except dates.DateError as error:
        raise exceptions.InvalidDate(str(error), field=name) from None
    except dates.DurationError as error:
        raise exceptions.InvalidDuration(str(error), field=name) from None
    except ValueError as error:
        raise exceptions.BadRequest(str(error), field=name) from None
