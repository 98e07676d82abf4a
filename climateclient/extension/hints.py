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
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from climate_common import dates, durations, limits
from climate_common.hints import (
    EVENT_KEYS,
    KEYS,
    LEASE_ID,
    LEASE_PARAMS,
    NAMES,
    RESERVED,
    ROOT_STACK,
)

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
        :func:`climate_common.dates.parse` reads it
    :param length: from the start to the end, for a user who says no end
    """

    on_end: Sequence[str]
    start: str = 'now'
    length: datetime.timedelta = datetime.timedelta(days=30)


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationHints:
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
            result[LEASE_ID] = self.lease_id
        if self.stack_id:
            result[ROOT_STACK] = self.stack_id
        if params:
            result[LEASE_PARAMS] = json.dumps(params, sort_keys=True)
        return result


def mentioned(hints: Mapping[str, Any] | None) -> bool:
    """Whether any hint is ours: all that an ordinary request pays."""
    return hints is not None and not NAMES.isdisjoint(hints)


def wants_reservation(hints: Mapping[str, Any] | None) -> bool:
    """Whether these hints, which were checked before, ask for a reservation."""
    if hints is None or not mentioned(hints):
        return False
    return LEASE_PARAMS in hints or LEASE_ID in hints or _boolean(_one(hints, RESERVED))


def parse(
    hints: Mapping[str, Any] | None,
    now: datetime.datetime,
    rules: Rules,
    *,
    fresh: bool = True,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> ReservationHints | None:
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
        field = LEASE_PARAMS if LEASE_PARAMS in hints else ', '.join(sorted(NAMES & hints.keys()))
        raise BadHint(field, 'is nested too deeply') from None


def _parse(
    hints: Mapping[str, Any],
    now: datetime.datetime,
    rules: Rules,
    fresh: bool,
    new_id: Callable[[], str],
) -> ReservationHints | None:
    wanted = _boolean(_one(hints, RESERVED)) if RESERVED in hints else True
    given = [name for name in (LEASE_PARAMS, LEASE_ID) if name in hints]
    if not wanted:
        if given:
            raise BadHint(given[0], 'makes no sense with reserved=False')
        return None
    params = _params(_one(hints, LEASE_PARAMS)) if LEASE_PARAMS in hints else _Params()
    on_end = _choice(params.pop('on_end', None), rules.on_end)
    if LEASE_ID in hints:
        for key in params:
            raise BadHint(params.field(key), f'makes no sense with {LEASE_ID}, only on_end does')
        stack_id = _uuid(_one(hints, ROOT_STACK), ROOT_STACK) if ROOT_STACK in hints else None
        return ReservationHints(
            _uuid(_one(hints, LEASE_ID), LEASE_ID), True, {}, on_end, stack_id=stack_id
        )
    id_given = 'id' in params
    lease_id = _uuid(params.pop('id'), params.field('id')) if id_given else new_id()
    lease = _lease(params, lease_id, now, rules, fresh)
    return ReservationHints(lease_id, False, lease, on_end, id_given)


class _Params(dict[str, Any]):
    """The values of lease_params by the first names of their keys.

    :ivar words: first name -> what the user wrote
    """

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, str] = {}

    def field(self, key: str) -> str:
        """Name a key for an error, as the user wrote it."""
        return f'{LEASE_PARAMS}.{self.words.get(key, key)}'


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
            raise BadHint(LEASE_PARAMS, f'is not JSON: {error}') from None
    if not isinstance(value, Mapping):
        raise BadHint(LEASE_PARAMS, 'a JSON object is wanted')
    result = _Params()
    for word, inner in value.items():
        key = KEYS.get(word)
        if key is None:
            raise BadHint(
                f'{LEASE_PARAMS}.{word}', f'is unknown; known are {", ".join(sorted(KEYS))}'
            )
        if key in result:
            raise BadHint(f'{LEASE_PARAMS}.{word}', f'says {key} a second time')
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
        raise BadHint(f'{LEASE_PARAMS}.on_end', f'{value!r} is none of {", ".join(choices)}')
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
        'start_date': dates.isoformat(start),
        'end_date': dates.isoformat(end),
        'events': [
            _event(event, f'{LEASE_PARAMS}.events[{number}]', end, now, fresh)
            for number, event in enumerate(_list(params.get('events', ())))
        ],
    }
    if params.get('before_end_date') is not None:
        field = params.field('before_end_date')
        before = _date(params['before_end_date'], now, field)
        if not start <= before <= end:
            raise BadHint(field, 'lies outside of the lease')
        lease['before_end_date'] = dates.isoformat(before)
    if params.get('start_policy') is not None:
        lease['start_policy'] = _start_policy(params['start_policy'])
    if params.get('before_start') is not None:
        lease['before_start'] = _before_start(params['before_start'])
    return lease


def _start_policy(value: Any) -> str:
    if value not in limits.START_POLICIES:
        raise BadHint(
            f'{LEASE_PARAMS}.start_policy',
            f'{value!r} is unknown: it must be {" or ".join(limits.START_POLICIES)}',
        )
    return value


def _before_start(value: Any) -> list[int]:
    try:
        return limits.check_start_notices(value)
    except ValueError as error:
        raise BadHint(f'{LEASE_PARAMS}.before_start', str(error)) from None


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
            length = durations.parse(params['length']) if 'length' in params else rules.length
            end = durations.end(start, length)
        except durations.InvalidDuration as error:
            raise BadHint(field, str(error)) from None
    if end <= start:
        raise BadHint(field, 'is not after the start')
    return end


def _name(value: Any) -> str:
    try:
        return limits.check_name(value.strip() if isinstance(value, str) else value)
    except ValueError as error:
        raise BadHint(f'{LEASE_PARAMS}.name', str(error)) from None


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadHint(f'{LEASE_PARAMS}.events', 'a list is wanted')
    if len(value) > limits.EVENTS:
        raise BadHint(f'{LEASE_PARAMS}.events', f'at most {limits.EVENTS} are allowed')
    return value


def _event(
    event: Any, field: str, end: datetime.datetime, now: datetime.datetime, fresh: bool
) -> dict[str, Any]:
    if not isinstance(event, Mapping):
        raise BadHint(field, 'an object is wanted')
    values, words = {}, {}
    for word, value in event.items():
        key = EVENT_KEYS.get(word)
        if key is None or key in values:
            raise BadHint(f'{field}.{word}', 'is unknown, or said twice')
        values[key], words[key] = value, word
    try:
        kind = limits.check_event_type(values.get('event_type'))
    except ValueError as error:
        raise BadHint(f'{field}.event_type', str(error)) from None
    field = f'{field}.{words.get("time", "time")}'
    time = _not_past(_date(values.get('time'), now, field), now, field, fresh)
    if time > end:
        raise BadHint(field, 'lies after the end of the lease')
    return {'event_type': kind, 'time': dates.isoformat(time)}
