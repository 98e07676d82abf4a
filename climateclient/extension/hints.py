# SPDX-License-Identifier: Apache-2.0
"""The scheduler hints of a reservation: what they mean, and what is wrong with them.

Pure: no I/O, and time comes from the caller. The same function reads what a user wrote (nova-api,
cinder-api) and what these made of it (the schedulers, nova-compute, cinder-volume); in nova every
value is then a list of strings because that is how its RequestSpec keeps hints.

====================  ==========================================================================
``reserved``          a boolean. False is the same as no hint
``lease_params``      a JSON object, as a string or as it is: makes a new lease
``lease_id``          the uuid of a lease to join; ``lease_params`` may then hold ``on_end`` only
====================  ==========================================================================

Heat adds ``heat_root_stack_id`` to all hints of a stack's servers where an operator wants it
(heat/engine/resources/scheduler_hints.py). Beside ``lease_id`` it makes the resource a member of
that stack in the lease; anywhere else it is none of ours.
"""

import dataclasses
import datetime
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from climateclient.extension import dates

RESERVED = 'reserved'
PARAMS = 'lease_params'
LEASE = 'lease_id'
STACK = 'heat_root_stack_id'
NAMES = frozenset((RESERVED, PARAMS, LEASE))

#: Words that stand for the same key; the first is what is sent on.
ALIASES = {
    'start_date': ('start_date', 'start'),
    'end_date': ('end_date', 'end'),
    'length': ('length', 'duration'),
    'before_end_date': ('before_end_date', 'before_end_notification', 'before_end'),
}
_KEYS = {word: key for key, words in ALIASES.items() for word in words} | {
    key: key for key in ('id', 'name', 'on_end', 'events', 'start_policy', 'before_start')
}
_EVENT_KEYS = {'event_type': 'event_type', 'time': 'time', 'event_date': 'time'}

# The limits of POST /v1/leases (climate_core/api/schemas/lease.py, climate_core/lease/request.py),
# so that a service refuses what the lease service would refuse after the claim.
# tests/unit/climateclient/test_hint_limits.py holds the two against each other.
_NAME = re.compile(r'[^\u0000-\u001f\ud800-\udfff]{1,255}')
_EVENT_TYPE = re.compile(r'(?!.*\.(?:error|stop)$)[a-z][a-z0-9_.-]{0,65}')
_OWN_EVENTS = frozenset(
    (
        'start_lease',
        'ready_to_start',
        'before_start_lease',
        'end_lease',
        'end_reservation',
        'prepare_reservation',
        'release_trust',
        'external_end',
    )
)
_MAX_EVENTS = 100
_START_POLICIES = ('auto', 'manual')
_MAX_BEFORE_START = 20
_LONGEST_BEFORE_START = 366 * 86400

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
class Rules:
    """What one service says about the hints.

    :param on_end: what may happen to its resources at the end of a lease
    :param start: the start that is meant by a user who says none, a date as
        :func:`climateclient.extension.dates.parse` reads it
    :param length: from the start to the end, for a user who says no end
    """

    on_end: Sequence[str]
    start: str = 'now'
    length: datetime.timedelta = datetime.timedelta(days=30)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The reservation that a user wants.

    :param lease_id: of the new lease, or of the lease to join
    :param join: the lease exists
    :param lease: the rest of the body of POST /v1/leases; empty when joining
    :param on_end: what happens to the resource at the end; None is the service's default
    :param id_given: the id of the new lease is in the hints
    :param stack_id: the root stack in the lease to join that this is a member of
    """

    lease_id: str
    join: bool
    lease: Mapping[str, Any]
    on_end: str | None = None
    id_given: bool = dataclasses.field(default=False, compare=False)
    stack_id: str | None = None

    def as_hints(self) -> dict[str, str]:
        """Write it in hints of strings, which :func:`parse` reads again as the same."""
        params = {} if self.join else {'id': self.lease_id, **self.lease}
        if self.on_end:
            params['on_end'] = self.on_end
        result = {RESERVED: 'True'}
        if self.join:
            result[LEASE] = self.lease_id
        if self.stack_id:
            result[STACK] = self.stack_id
        if params:
            result[PARAMS] = json.dumps(params, sort_keys=True)
        return result


def mentioned(hints: Mapping[str, Any] | None) -> bool:
    """Whether any hint is ours: all that an ordinary request pays."""
    return hints is not None and not NAMES.isdisjoint(hints)


def wants_reservation(hints: Mapping[str, Any] | None) -> bool:
    """Whether these hints, which were checked before, ask for a reservation."""
    if hints is None or not mentioned(hints):
        return False
    return PARAMS in hints or LEASE in hints or _boolean(_one(hints, RESERVED))


def parse(
    hints: Mapping[str, Any] | None,
    now: datetime.datetime,
    rules: Rules,
    *,
    fresh: bool = True,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Wanted | None:
    """Read the hints of a server or volume.

    :param now: the time, timezone-aware
    :param fresh: the user sends them now, so that a start in the past is a mistake; False where
        a request is read that was checked some time ago
    :param new_id: makes the id of a new lease
    :returns: None if no reservation is asked for
    :raises BadHint: anything is wrong or unknown
    """
    if hints is None or not mentioned(hints):
        return None
    try:
        return _parse(hints, now, rules, fresh, new_id)
    except RecursionError:
        field = PARAMS if PARAMS in hints else ', '.join(sorted(NAMES & hints.keys()))
        raise BadHint(field, 'is nested too deeply') from None


def _parse(
    hints: Mapping[str, Any],
    now: datetime.datetime,
    rules: Rules,
    fresh: bool,
    new_id: Callable[[], str],
) -> Wanted | None:
    wanted = _boolean(_one(hints, RESERVED)) if RESERVED in hints else True
    given = [name for name in (PARAMS, LEASE) if name in hints]
    if not wanted:
        if given:
            raise BadHint(given[0], 'makes no sense with reserved=False')
        return None
    params = _params(_one(hints, PARAMS)) if PARAMS in hints else _Params()
    on_end = _choice(params.pop('on_end', None), rules.on_end)
    if LEASE in hints:
        for key in params:
            raise BadHint(params.field(key), f'makes no sense with {LEASE}, only on_end does')
        stack_id = _uuid(_one(hints, STACK), STACK) if STACK in hints else None
        return Wanted(_uuid(_one(hints, LEASE), LEASE), True, {}, on_end, stack_id=stack_id)
    id_given = 'id' in params
    lease_id = _uuid(params.pop('id'), params.field('id')) if id_given else new_id()
    lease = _lease(params, lease_id, now, rules, fresh)
    return Wanted(lease_id, False, lease, on_end, id_given)


class _Params(dict[str, Any]):
    """The values of lease_params by the first names of their keys.

    :ivar words: first name -> what the user wrote
    """

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, str] = {}

    def field(self, key: str) -> str:
        """Name a key for an error, as the user wrote it."""
        return f'{PARAMS}.{self.words.get(key, key)}'


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


def _params(value: Any) -> _Params:
    """Read the JSON of lease_params and give every key its first name."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadHint(PARAMS, f'is not JSON: {error}') from None
    if not isinstance(value, Mapping):
        raise BadHint(PARAMS, 'a JSON object is wanted')
    result = _Params()
    for word, inner in value.items():
        key = _KEYS.get(word)
        if key is None:
            raise BadHint(f'{PARAMS}.{word}', f'is unknown; known are {", ".join(sorted(_KEYS))}')
        if key in result:
            raise BadHint(f'{PARAMS}.{word}', f'says {key} a second time')
        result[key] = inner
        result.words[key] = word
    return result


def _uuid(value: Any, field: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise BadHint(field, f'{value!r} is not a uuid') from None


def _choice(value: Any, choices: Sequence[str]) -> str | None:
    if value is not None and value not in choices:
        raise BadHint(f'{PARAMS}.on_end', f'{value!r} is none of {", ".join(choices)}')
    return value


def _date(value: Any, now: datetime.datetime, field: str) -> datetime.datetime:
    try:
        return dates.parse(value, now)
    except ValueError as error:
        raise BadHint(field, str(error)) from None


def _not_past(
    time: datetime.datetime, now: datetime.datetime, field: str, fresh: bool
) -> datetime.datetime:
    """Give the time, or now if it lies hardly before it."""
    if not fresh or time >= now:
        return time
    if now - time > TOLERANCE:
        raise BadHint(field, 'lies in the past')
    return now


def _lease(
    params: _Params,
    lease_id: str,
    now: datetime.datetime,
    rules: Rules,
    fresh: bool,
) -> dict[str, Any]:
    field = params.field('start_date')
    start = _date(params.get('start_date', rules.start), now, field)
    start = _not_past(start, now, field, fresh)
    end = _end(params, start, now, rules)
    lease: dict[str, Any] = {
        'name': _name(params.get('name', f'lease_{lease_id[:8]}')),
        'start_date': dates.show(start),
        'end_date': dates.show(end),
        'events': [
            _event(event, f'{PARAMS}.events[{number}]', end, now, fresh)
            for number, event in enumerate(_list(params.get('events', ())))
        ],
    }
    if params.get('before_end_date') is not None:
        field = params.field('before_end_date')
        before = _date(params['before_end_date'], now, field)
        if not start <= before <= end:
            raise BadHint(field, 'lies outside of the lease')
        lease['before_end_date'] = dates.show(before)
    if params.get('start_policy') is not None:
        lease['start_policy'] = _start_policy(params['start_policy'])
    if params.get('before_start') is not None:
        lease['before_start'] = _before_start(params['before_start'])
    return lease


def _start_policy(value: Any) -> str:
    if value not in _START_POLICIES:
        raise BadHint(f'{PARAMS}.start_policy', f'{value!r} is neither auto nor manual')
    return value


def _before_start(value: Any) -> list[int]:
    field = f'{PARAMS}.before_start'
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadHint(field, 'a list of seconds is wanted')
    if len(value) > _MAX_BEFORE_START:
        raise BadHint(field, f'at most {_MAX_BEFORE_START} are allowed')
    for each in value:
        seconds = isinstance(each, int) and not isinstance(each, bool)
        if not seconds or not 1 <= each <= _LONGEST_BEFORE_START:
            raise BadHint(field, f'{each!r} is no number of seconds that can be told before')
    return list(value)


def _end(
    params: _Params,
    start: datetime.datetime,
    now: datetime.datetime,
    rules: Rules,
) -> datetime.datetime:
    """Read the end, which lies after the start."""
    field = params.field('length')
    if 'end_date' in params and 'length' in params:
        raise BadHint(field, 'the end is said twice')
    if 'end_date' in params:
        field = params.field('end_date')
        end = _date(params['end_date'], now, field)
    else:
        try:
            length = dates.parse_length(params['length']) if 'length' in params else None
            end = start + (rules.length if length is None else length)
        except (ValueError, OverflowError) as error:
            raise BadHint(field, str(error)) from None
    if end <= start:
        raise BadHint(field, 'is not after the start')
    return end


def _name(value: Any) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value.strip()):
        return value.strip()
    raise BadHint(f'{PARAMS}.name', 'a text of 1 to 255 characters, none of control, is wanted')


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadHint(f'{PARAMS}.events', 'a list is wanted')
    if len(value) > _MAX_EVENTS:
        raise BadHint(f'{PARAMS}.events', f'at most {_MAX_EVENTS} are allowed')
    return value


def _event(
    event: Any, field: str, end: datetime.datetime, now: datetime.datetime, fresh: bool
) -> dict[str, str]:
    if not isinstance(event, Mapping):
        raise BadHint(field, 'an object is wanted')
    values, words = {}, {}
    for word, value in event.items():
        key = _EVENT_KEYS.get(word)
        if key is None or key in values:
            raise BadHint(f'{field}.{word}', 'is unknown, or said twice')
        values[key], words[key] = value, word
    kind = values.get('event_type')
    if not isinstance(kind, str) or not _EVENT_TYPE.fullmatch(kind) or kind in _OWN_EVENTS:
        raise BadHint(
            f'{field}.event_type',
            'a name of lower-case letters, digits, "_", "-" and "." is wanted, with no ".error" '
            'or ".stop" at the end, and not ' + ', '.join(sorted(_OWN_EVENTS)),
        )
    field = f'{field}.{words.get("time", "time")}'
    time = _not_past(_date(values.get('time'), now, field), now, field, fresh)
    if time > end:
        raise BadHint(field, 'lies after the end of the lease')
    return {'event_type': kind, 'time': dates.show(time)}
