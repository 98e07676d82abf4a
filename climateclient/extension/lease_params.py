# SPDX-License-Identifier: Apache-2.0
"""The hint ``lease_params``: the properties of a new lease, as the lease API takes them."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from climate_common import dates, limits
from climate_common.hints import EVENT_KEYS, KEYS, LEASE_PARAMS
from climateclient.extension.errors import BadHint

T = TypeVar('T')

#: Clients round to whole minutes: a start that lies no further back than this means now.
TOLERANCE = datetime.timedelta(seconds=60)


class LeaseParams(dict[str, Any]):
    """The values of ``lease_params`` by the first names of their keys.

    :param value: a JSON object, as a string or as it is
    :raises BadHint: it is not one, or has an unknown key
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        #: The first name of a key -> the name that the user wrote.
        self._written: dict[str, str] = {}
        for written, inner in _object(value).items():
            key = KEYS.get(written)
            if key is None:
                known = ', '.join(sorted(KEYS))
                raise BadHint(f'{LEASE_PARAMS}.{written}', f'is unknown: must be one of {known}')
            if key in self:
                raise BadHint(f'{LEASE_PARAMS}.{written}', f'must be left out: {key} is given')
            self[key] = _with_integers(inner)
            self._written[key] = written

    def field(self, key: str) -> str:
        """Return the name of a key for an error, as the user wrote it."""
        return f'{LEASE_PARAMS}.{self._written.get(key, key)}'

    def pop_choice(self, key: str, choices: Sequence[str]) -> str | None:
        """Remove a key and return its value, which must be one of some words, or None.

        :raises BadHint: it is another
        """
        value = self.pop(key, None)
        if value is not None and value not in choices:
            raise BadHint(
                self.field(key), f'must be one of {", ".join(choices)}, not {value!r:.80}'
            )
        return value

    def read(
        self, now: datetime.datetime, length: datetime.timedelta, fresh: bool
    ) -> dict[str, Any]:
        """Return the properties of the lease as POST /v1/leases takes them.

        :param length: the default time from the start to the end
        :param fresh: a time in the past is a mistake
        :raises BadHint: a value is wrong
        """
        self._check_kind()
        policy = self.pop_choice('start_policy', limits.START_POLICIES)
        start = self._not_past('start_date', now, fresh)
        end = self._end(start, length, now)
        name = self['name'].strip() if isinstance(self['name'], str) else self['name']
        lease: dict[str, Any] = {
            'name': checked(self.field('name'), lambda: limits.check_name(name)),
            'start_date': dates.isoformat(start),
            'end_date': dates.isoformat(end),
            'events': [
                _event(event, f'{LEASE_PARAMS}.events[{number}]', end, now, fresh)
                for number, event in enumerate(self._events())
            ],
        }
        if self.get('before_end_date') is not None:
            lease['before_end_date'] = dates.isoformat(self._before_end(start, end, now))
        if policy is not None:
            lease['start_policy'] = policy
        if self.get('before_start') is not None:
            lease['before_start'] = checked(
                self.field('before_start'),
                lambda: limits.check_start_notices(self['before_start']),
            )
        return lease

    def _check_kind(self) -> None:
        """Refuse a kind of lease that what is built now cannot have."""
        kind = self.pop_choice('kind', limits.KINDS)
        if kind not in (None, limits.KINDS[0]):
            others = '' if kind == 'best_effort' else ', capacity or new servers'
            raise BadHint(
                self.field('kind'),
                f'must be {limits.KINDS[0]}, because it is built and held now; a lease of hosts'
                f'{others} can be {kind}: openstack lease create --kind {kind}',
            )

    def _not_past(self, key: str, now: datetime.datetime, fresh: bool) -> datetime.datetime:
        return _not_past(self._date(key, now), now, self.field(key), fresh)

    def _date(self, key: str, now: datetime.datetime) -> datetime.datetime:
        return checked(self.field(key), lambda: dates.parse(self[key], now))

    def _end(
        self, start: datetime.datetime, length: datetime.timedelta, now: datetime.datetime
    ) -> datetime.datetime:
        key = 'end_date' if 'end_date' in self else 'duration'
        field = self.field(key)
        if key == 'end_date':
            if 'duration' in self:
                raise BadHint(self.field('duration'), f'must be left out: {field} is given')
            end = self._date(key, now)
        else:
            if key in self:
                length = checked(field, lambda: dates.parse_duration(self[key]))
            end = checked(field, lambda: dates.add_duration(start, length))
        if end <= start:
            raise BadHint(field, f'must be after the start ({dates.isoformat(start)})')
        return end

    def _before_end(
        self, start: datetime.datetime, end: datetime.datetime, now: datetime.datetime
    ) -> datetime.datetime:
        time = self._date('before_end_date', now)
        if not start <= time <= end:
            raise BadHint(
                self.field('before_end_date'),
                f'must be from the start ({dates.isoformat(start)}) to the end '
                f'({dates.isoformat(end)}) of the lease',
            )
        return time

    def _events(self) -> Sequence[Any]:
        events = self.get('events', ())
        if (
            not isinstance(events, Sequence)
            or isinstance(events, str)
            or len(events) > limits.EVENTS
        ):
            raise BadHint(self.field('events'), f'must be a list of up to {limits.EVENTS} events')
        return events


def checked(field: str, read: Callable[[], T]) -> T:
    """Return what a function reads; its ValueError becomes a BadHint of a field."""
    try:
        return read()
    except ValueError as error:
        raise BadHint(field, str(error)) from None


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = limits.decode(value)
        except ValueError as error:
            raise BadHint(LEASE_PARAMS, f'must be a JSON object: {error}') from None
    if not isinstance(value, Mapping):
        raise BadHint(LEASE_PARAMS, 'must be a JSON object')
    return value


def _with_integers(value: Any) -> Any:
    """Return 60.0 as 60, as the lease API does: JSON has one number."""
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _not_past(
    time: datetime.datetime, now: datetime.datetime, field: str, fresh: bool
) -> datetime.datetime:
    """Return the time, or now if it is hardly before it."""
    if not fresh or time >= now:
        return time
    if now - time > TOLERANCE:
        raise BadHint(field, f'must not be in the past, before {dates.isoformat(now)}')
    return now


def _event(
    event: Any, field: str, end: datetime.datetime, now: datetime.datetime, fresh: bool
) -> dict[str, Any]:
    if not isinstance(event, Mapping):
        raise BadHint(field, 'must be an object with event_type and time')
    values, written = {}, {}
    for name, value in event.items():
        key = EVENT_KEYS.get(name)
        if key is None or key in values:
            raise BadHint(f'{field}.{name}', 'must be left out: an event has event_type and time')
        values[key], written[key] = value, name
    event_type = checked(
        f'{field}.event_type', lambda: limits.check_event_type(values.get('event_type'))
    )
    field = f'{field}.{written.get("time", "time")}'
    time = checked(field, lambda: dates.parse(values.get('time'), now))
    time = _not_past(time, now, field, fresh)
    if time > end:
        raise BadHint(field, f'must not be after the end of the lease ({dates.isoformat(end)})')
    return {'event_type': event_type, 'time': dates.isoformat(time)}
