# SPDX-License-Identifier: Apache-2.0
"""The terms of a lease: what a template says of it, and what the lease service is sent.

Names and meaning are those of ``POST /v1/leases``.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from heat.common import exception
from heat.engine import constraints, properties

from climateclient.extension import dates
from heat_ext.lease import reservations

NAME, START, END, DURATION = 'name', 'start_date', 'end_date', 'duration'
BEFORE_END, BEFORE_START, POLICY = 'before_end_date', 'before_start', 'start_policy'
EVENTS, RESERVATIONS, WEBHOOK, ON_END = 'events', 'reservations', 'webhook', 'on_end'

#: The properties whose names the client says otherwise.
_CLIENT = {START: 'start', END: 'end', BEFORE_END: 'before_end'}
#: The limits of climate_core/api/schemas/lease.py.
_MAX_EVENTS, _MAX_RESERVATIONS, _MAX_BEFORE_START = 100, 1000, 20
_LONGEST_BEFORE_START = 366 * 86400

_S = properties.Schema
_DATE = constraints.CustomConstraint('climate.date')


def _text(description: str, *checks: Any, **more: Any) -> properties.Schema:
    return _S(_S.STRING, description, constraints=list(checks), **more)


_EVENT = _S(
    _S.MAP,
    'Something that is told at a time.',
    schema={
        'event_type': _text(
            'The name of the event.',
            constraints.AllowedPattern(
                r'(?!.*\.(?:error|stop)$)[a-z][a-z0-9_.-]{0,65}$',
                'A name in lower case, with no ".error" or ".stop" at its end.',
            ),
            required=True,
        ),
        'time': _text('When it is told.', _DATE, required=True),
    },
)
_WEBHOOK = {
    'url': _text('http or https, without credentials.', required=True),
    'secret': _text(
        'What is sent is signed with it. It is never shown.',
        constraints.Length(min=16, max=255),
        required=True,
    ),
    'events': _S(
        _S.LIST,
        'Patterns of the types of notifications that are sent, as "lease.event.*"; all of them '
        'if there are none.',
        schema=_S(_S.STRING),
    ),
}

SCHEMA: dict[str, properties.Schema] = {
    NAME: _text(
        'The name of the lease. Default: made of the names of the stack and of the resource.',
        constraints.Length(min=1, max=255),
        update_allowed=True,
    ),
    START: _text(
        'When the lease starts: "now", "YYYY-MM-DD HH:MM" in UTC, or ISO 8601 with an offset. It '
        'can be changed until then.',
        _DATE,
        default='now',
        update_allowed=True,
    ),
    END: _text(
        'When the lease ends. Either this or the duration is needed.', _DATE, update_allowed=True
    ),
    DURATION: _text(
        'How long the lease lasts, in place of its end: seconds, "90m", "1d12h", or ISO 8601 like '
        'PT1H30M.',
        constraints.CustomConstraint('climate.duration'),
        update_allowed=True,
    ),
    BEFORE_END: _text(
        'When it is told that the end is near. Default: as the operator of the lease service '
        'chose.',
        _DATE,
        update_allowed=True,
    ),
    BEFORE_START: _S(
        _S.LIST,
        'How many seconds before the start it is told that the lease will start; several. It can '
        'be changed until the start.',
        schema=_S(_S.INTEGER, constraints=[constraints.Range(1, _LONGEST_BEFORE_START)]),
        constraints=[constraints.Length(max=_MAX_BEFORE_START)],
        default=[],
        update_allowed=True,
    ),
    POLICY: _text(
        'Whether the lease starts by itself, or waits at its start until its user starts it. It '
        'can be changed until the start.',
        constraints.AllowedValues(['auto', 'manual']),
        default='auto',
        update_allowed=True,
    ),
    EVENTS: _S(
        _S.LIST,
        'Events beside those that every lease has.',
        schema=_EVENT,
        constraints=[constraints.Length(max=_MAX_EVENTS)],
        default=[],
        update_allowed=True,
    ),
    RESERVATIONS: _S(
        _S.LIST,
        'What the lease holds beside this stack: each with its resource_type, mostly the '
        'resource_id of something that exists, and what that type takes. A virtual:stack may have '
        'a name and a template in its place, the template as a text (get_file). Servers and '
        'volumes of this stack are none of these: they join by their hints.',
        schema=_S(_S.MAP, 'One resource.'),
        constraints=[constraints.Length(max=_MAX_RESERVATIONS)],
        default=[],
        update_allowed=True,
    ),
    WEBHOOK: _S(
        _S.MAP,
        'Where the lease tells what happens to it.',
        schema=_WEBHOOK,
        update_allowed=True,
    ),
    ON_END: _text(
        'What happens to this stack at the end of the lease. A snapshot is made before it is '
        'suspended. A stack that was never woken is always deleted.',
        constraints.AllowedValues(['delete', 'suspend', 'snapshot', 'nothing']),
        default='delete',
        update_allowed=True,
    ),
}


def check(terms: Mapping[str, Any]) -> None:
    """Check what no single property can tell.

    A date that is not known yet is left out, and so is "now": what was right when the lease was
    made must not be wrong when its stack is updated later.

    :param terms: the properties; None for what is not said or not known yet
    :raises heat.common.exception.StackValidationFailed: it makes no sense
    """
    for number, each in enumerate(terms[RESERVATIONS] or ()):
        if each is not None and not each.get('resource_type'):
            raise _wrong(f'{RESERVATIONS}[{number}]', 'a resource_type is needed')
        if each is not None and reservations.AMOUNTS in each:
            field = f'{RESERVATIONS}[{number}].{reservations.AMOUNTS}'
            raise _wrong(field, 'only the service that builds a resource may say what it holds')
    start, end, before = (_read(terms[name]) for name in (START, END, BEFORE_END))
    if start and end and end <= start:
        raise _wrong(END, 'the lease must end after its start')
    if before and ((start and before < start) or (end and before > end)):
        raise _wrong(BEFORE_END, 'it must lie between the start and the end of the lease')
    for number, each in enumerate(terms[EVENTS] or ()):
        time = _read(each['time'])
        if time and end and time > end:
            raise _wrong(f'{EVENTS}[{number}]', 'it must not be after the end of the lease')


def _read(text: str | None) -> datetime.datetime | None:
    if not text or text.strip() == 'now':
        return None
    return dates.parse(text, datetime.datetime.max)


def _wrong(name: str, why: str) -> exception.StackValidationFailed:
    return exception.StackValidationFailed(message=f'{name}: {why}.')


def to_send(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the client takes, without the reservations.

    :param terms: some of the properties by their names
    """
    result = {}
    for name, value in terms.items():
        if name in (RESERVATIONS, ON_END):
            continue
        if name == WEBHOOK:
            value = _without_nulls(value)
        elif name in (EVENTS, BEFORE_START):
            value = [dict(each) if name == EVENTS else int(each) for each in value or ()]
        result[_CLIENT.get(name, name)] = value
    return result


def _without_nulls(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {key: each for key, each in value.items() if each} if value else None
