# SPDX-License-Identifier: Apache-2.0
"""The scheduler hints of a reservation: what they mean, and what is wrong with them.

Pure: no nova, no I/O, and time comes from the caller. The same function reads what a user wrote
(nova-api) and what nova-api made of it (nova-scheduler, nova-compute), where every value is a
list of strings because that is how nova's RequestSpec keeps hints.

====================  ==========================================================================
``reserved``          a boolean. False is the same as no hint
``lease_params``      a JSON object, as a string or as it is: makes a new lease
``lease_id``          the uuid of a lease to join; ``lease_params`` may then hold ``on_end`` only
====================  ==========================================================================
"""

import dataclasses
import datetime
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nova_ext import dates

RESERVED = 'reserved'
PARAMS = 'lease_params'
LEASE = 'lease_id'
NAMES = frozenset((RESERVED, PARAMS, LEASE))

ON_END = ('delete', 'stop', 'shelve', 'suspend', 'create_image', 'nothing')

#: Words that stand for the same key; the first is what is sent on.
ALIASES = {
    'start_date': ('start_date', 'start'),
    'end_date': ('end_date', 'end'),
    'length': ('length', 'duration'),
    'before_end_date': ('before_end_date', 'before_end_notification', 'before_end'),
}
_KEYS = {word: key for key, words in ALIASES.items() for word in words} | {
    key: key for key in ('id', 'name', 'on_end', 'events')
}
_EVENT_KEYS = {'event_type': 'event_type', 'time': 'time', 'event_date': 'time'}
_EVENT_TYPE = re.compile(r'^[a-z][a-z0-9_]{0,63}$')
_TRUE = frozenset(('true', 'yes', 'on', '1', 't', 'y'))
_FALSE = frozenset(('false', 'no', 'off', '0', 'f', 'n'))

#: Clients round to whole minutes: a start that lies no further back than this means now.
TOLERANCE = datetime.timedelta(seconds=60)


class BadHint(ValueError):
    """A hint is wrong.

    :param field: the hint, with the way to the value inside it
    :param reason: what is wrong
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f'{field}: {reason}')
        self.field = field
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Defaults:
    """What is meant by a user who does not say it.

    :param start: a date as :func:`nova_ext.dates.parse` reads it
    :param length: from the start to the end
    """

    start: str = 'now'
    length: datetime.timedelta = datetime.timedelta(days=30)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The reservation that a user wants.

    :param lease_id: of the new lease, or of the lease to join
    :param join: the lease exists
    :param lease: the rest of the body of POST /v1/leases; empty when joining
    :param on_end: what happens to the server at the end; None is the service's default
    """

    lease_id: str
    join: bool
    lease: Mapping[str, Any]
    on_end: str | None = None

    def as_hints(self) -> dict[str, str]:
        """Write it in hints of strings, which :func:`parse` reads again as the same."""
        params = {} if self.join else {'id': self.lease_id, **self.lease}
        if self.on_end:
            params['on_end'] = self.on_end
        result = {RESERVED: 'True'}
        if self.join:
            result[LEASE] = self.lease_id
        if params:
            result[PARAMS] = json.dumps(params, sort_keys=True)
        return result


def mentioned(hints: Mapping[str, Any] | None) -> bool:
    """Whether any hint is ours: all that an ordinary request pays."""
    return bool(hints) and not NAMES.isdisjoint(hints)


def wants_reservation(hints: Mapping[str, Any] | None) -> bool:
    """Whether these hints, which nova-api has checked, ask for a reservation."""
    if not mentioned(hints):
        return False
    return PARAMS in hints or LEASE in hints or _boolean(_one(hints, RESERVED))


def parse(
    hints: Mapping[str, Any] | None,
    now: datetime.datetime,
    defaults: Defaults = Defaults(),
    *,
    fresh: bool = True,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Wanted | None:
    """Read the hints of a server.

    :param now: the time, timezone-aware
    :param fresh: the user sends them now, so that a start in the past is a mistake; False where
        a request is read that was checked some time ago
    :param new_id: makes the id of a new lease
    :returns: None if no reservation is asked for
    :raises BadHint: anything is wrong or unknown
    """
    if not mentioned(hints):
        return None
    wanted = _boolean(_one(hints, RESERVED)) if RESERVED in hints else True
    given = [name for name in (PARAMS, LEASE) if name in hints]
    if not wanted:
        if given:
            raise BadHint(given[0], 'makes no sense with reserved=False')
        return None
    params = _params(_one(hints, PARAMS)) if PARAMS in hints else {}
    on_end = _choice(params.pop('on_end', None))
    if LEASE in hints:
        if params:
            key = next(iter(params))
            raise BadHint(f'{PARAMS}.{key}', f'makes no sense with {LEASE}, only on_end does')
        return Wanted(_uuid(_one(hints, LEASE), LEASE), True, {}, on_end)
    lease_id = _uuid(params.pop('id'), f'{PARAMS}.id') if 'id' in params else new_id()
    return Wanted(lease_id, False, _lease(params, lease_id, now, defaults, fresh), on_end)


def _one(hints: Mapping[str, Any], name: str) -> Any:
    """Give the value of a hint, out of the list that nova puts around it."""
    value = hints[name]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 1:
            raise BadHint(name, f'one value is wanted, not {len(value)}')
        value = value[0]
    if value is None:
        raise BadHint(name, 'null is no value; leave the hint out')
    return value


def _boolean(value: Any) -> bool:
    word = str(value).strip().lower()
    if isinstance(value, Mapping | Sequence | int) and word in _TRUE | _FALSE:
        return word in _TRUE
    raise BadHint(RESERVED, f'{value!r} is not a boolean')


def _params(value: Any) -> dict[str, Any]:
    """Read the JSON of lease_params and give every key its first name."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadHint(PARAMS, f'is not JSON: {error}') from None
    if not isinstance(value, Mapping):
        raise BadHint(PARAMS, 'a JSON object is wanted')
    result = {}
    for word, inner in value.items():
        key = _KEYS.get(word)
        if key is None:
            raise BadHint(f'{PARAMS}.{word}', f'is unknown; known are {", ".join(sorted(_KEYS))}')
        if key in result:
            raise BadHint(f'{PARAMS}.{word}', f'says {key} a second time')
        result[key] = inner
    return result


def _uuid(value: Any, field: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise BadHint(field, f'{value!r} is not a uuid') from None


def _choice(value: Any) -> str | None:
    if value is not None and value not in ON_END:
        raise BadHint(f'{PARAMS}.on_end', f'{value!r} is none of {", ".join(ON_END)}')
    return value


def _date(value: Any, now: datetime.datetime, field: str) -> datetime.datetime:
    try:
        return dates.parse(value, now)
    except ValueError as error:
        raise BadHint(f'{PARAMS}.{field}', str(error)) from None


def _lease(
    params: Mapping[str, Any],
    lease_id: str,
    now: datetime.datetime,
    defaults: Defaults,
    fresh: bool,
) -> dict[str, Any]:
    start = _date(params.get('start_date', defaults.start), now, 'start_date')
    if fresh and start < now:
        if now - start > TOLERANCE:
            raise BadHint(f'{PARAMS}.start_date', 'lies in the past')
        start = now
    end = _end(params, start, now, defaults)
    if end <= start:
        raise BadHint(f'{PARAMS}.end_date', 'is not after the start')
    if fresh and end <= now:
        raise BadHint(f'{PARAMS}.end_date', 'lies in the past')
    lease = {
        'name': _name(params.get('name', f'lease_{lease_id[:8]}')),
        'start_date': dates.show(start),
        'end_date': dates.show(end),
        'events': [
            _event(event, number, start, end, now)
            for number, event in enumerate(_list(params.get('events', ())))
        ],
    }
    if params.get('before_end_date') is not None:
        before = _date(params['before_end_date'], now, 'before_end_date')
        if not start <= before <= end:
            raise BadHint(f'{PARAMS}.before_end_date', 'lies outside of the lease')
        lease['before_end_date'] = dates.show(before)
    return lease


def _end(
    params: Mapping[str, Any],
    start: datetime.datetime,
    now: datetime.datetime,
    defaults: Defaults,
) -> datetime.datetime:
    if 'end_date' in params and 'length' in params:
        raise BadHint(f'{PARAMS}.length', 'the end is said twice')
    if 'end_date' in params:
        return _date(params['end_date'], now, 'end_date')
    try:
        length = dates.parse_length(params['length']) if 'length' in params else defaults.length
        return start + length
    except (ValueError, OverflowError) as error:
        raise BadHint(f'{PARAMS}.length', str(error)) from None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= 255:
        raise BadHint(f'{PARAMS}.name', 'a text of 1 to 255 characters is wanted')
    return value.strip()


def _list(value: Any) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise BadHint(f'{PARAMS}.events', 'a list is wanted')


def _event(
    event: Any,
    number: int,
    start: datetime.datetime,
    end: datetime.datetime,
    now: datetime.datetime,
) -> dict[str, str]:
    field = f'events[{number}]'
    if not isinstance(event, Mapping):
        raise BadHint(f'{PARAMS}.{field}', 'an object is wanted')
    values = {}
    for word, value in event.items():
        key = _EVENT_KEYS.get(word)
        if key is None or key in values:
            raise BadHint(f'{PARAMS}.{field}.{word}', 'is unknown, or said twice')
        values[key] = value
    kind = values.get('event_type')
    if not isinstance(kind, str) or not _EVENT_TYPE.match(kind):
        raise BadHint(f'{PARAMS}.{field}.event_type', 'a lower-case name is wanted')
    time = _date(values.get('time'), now, f'{field}.time')
    if not start <= time <= end:
        raise BadHint(f'{PARAMS}.{field}.time', 'lies outside of the lease')
    return {'event_type': kind, 'time': dates.show(time)}
