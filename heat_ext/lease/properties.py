# SPDX-License-Identifier: Apache-2.0
"""The properties of a lease in a template, and the request that they become.

Names and meaning are those of ``POST /v1/leases``.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from heat.common import exception
from heat.engine import constraints, properties

from climate_common import dates, lease_fields, limits, resource_types
from heat_ext.lease import reservations

NAME, START, END, DURATION = 'name', 'start_date', 'end_date', 'duration'
BEFORE_END, BEFORE_START, POLICY = 'before_end_date', 'before_start', 'start_policy'
EVENTS, RESERVATIONS, WEBHOOK, ON_END = 'events', 'reservations', 'webhook', 'on_end'
KIND, MAX_RETRIES, TIMEOUT = 'kind', 'max_retries', 'best_effort_timeout'
PREEMPTIBLE, PRIORITY = 'preemptible', 'priority'
#: The kind of a lease that holds its stack.
IMMEDIATE = 'immediate'
#: Set at the creation; an update of the stack may not change them.
FIXED = frozenset(
    field.name
    for field in lease_fields.FIELDS
    if field.name != 'id' and field.set_by & {'create', 'update'} == {'create'}
)

#: The arguments of the client that differ from the names of the properties.
_ARGUMENTS = {START: 'start', END: 'end', BEFORE_END: 'before_end'}

_S = properties.Schema
_DATE = constraints.CustomConstraint('climate.date')


def _text(description: str, *checks: Any, **more: Any) -> properties.Schema:
    return _S(_S.STRING, description, constraints=list(checks), **more)


_EVENT = _S(
    _S.MAP,
    'An event at which the lease sends a notification.',
    schema={
        'event_type': _text(
            'The name of the event.',
            constraints.AllowedPattern(
                f'{limits.EVENT_TYPE_PATTERN}$',
                'A name in lower case, with no ".error" or ".stop" at its end.',
            ),
            required=True,
        ),
        'time': _text('When the notification is sent.', _DATE, required=True),
    },
)
_WEBHOOK = {
    'url': _text('An http or https URL without credentials.', required=True),
    'secret': _text(
        'The key that signs each request. It is never shown.',
        constraints.Length(min=limits.SHORTEST_SECRET, max=limits.LONGEST_SECRET),
        required=True,
    ),
    'events': _S(
        _S.LIST,
        'Patterns of the types of notifications to send, as "lease.event.*". Default: all of '
        'them.',
        schema=_S(_S.STRING),
    ),
}

#: A type of a field -> the type of its property.
_TYPES = {
    lease_fields.TEXT: _S.STRING,
    lease_fields.CHOICE: _S.STRING,
    lease_fields.DATE: _S.STRING,
    lease_fields.DURATION: _S.STRING,
    lease_fields.INTEGER: _S.INTEGER,
    lease_fields.BOOLEAN: _S.BOOLEAN,
}
#: Another name of a property.
_ABSENT = frozenset({'before_end_notification'})
_DEFAULTS = {START: 'now', POLICY: 'auto', KIND: IMMEDIATE, PREEMPTIBLE: False}
#: What a template must know beside the description of a field.
_NOTES = {
    START: ' It can be changed before the start.',
    END: ' Exactly one of end_date and duration must be set.',
    BEFORE_END: ' Default: an option of the lease service.',
    POLICY: ' It can be changed before the start.',
    KIND: ' One of another kind than immediate does not hold its stack, and must have '
    'reservations of hosts or capacity. The resource is complete when the lease is granted.',
    PRIORITY: ' It is for the kind retry. By default only administrators may set it. '
    'A change has no effect when the lease is granted.',
    PREEMPTIBLE: ' It is for the kind scheduled.',
}


def _property(field: lease_fields.Field) -> properties.Schema:
    checks: list[Any] = []
    if field.choices:
        checks.append(constraints.AllowedValues(list(field.choices)))
    elif field.type == lease_fields.DATE:
        checks.append(_DATE)
    elif field.type == lease_fields.DURATION:
        checks.append(constraints.CustomConstraint('climate.duration'))
    elif field.type == lease_fields.INTEGER:
        checks.append(constraints.Range(field.minimum, field.maximum))
    elif field.type == lease_fields.TEXT:
        checks.append(constraints.Length(max=field.maximum))
    fixed = ' It cannot be changed.' if field.name in FIXED else ''
    return _S(
        _TYPES[field.type],
        f'{field.description}{_NOTES.get(field.name, "")}{fixed}',
        constraints=checks,
        default=_DEFAULTS.get(field.name),
        update_allowed=True,
    )


SCHEMA: dict[str, properties.Schema] = {
    **{
        field.name: _property(field)
        for field in lease_fields.set_by(lease_fields.CREATE)
        if field.type in _TYPES and field.name not in _ABSENT
    },
    NAME: _text(
        'The name of the lease. Default: the names of the stack and of the resource.',
        constraints.Length(min=1, max=limits.NAME_LENGTH),
        update_allowed=True,
    ),
    BEFORE_START: _S(
        _S.LIST,
        'How many seconds before the start the lease sends a notification; a list. It can be '
        'changed before the start.',
        schema=_S(_S.INTEGER, constraints=[constraints.Range(1, limits.LONGEST_START_NOTICE)]),
        constraints=[constraints.Length(max=limits.START_NOTICES)],
        default=[],
        update_allowed=True,
    ),
    EVENTS: _S(
        _S.LIST,
        'Events in addition to those that every lease has.',
        schema=_EVENT,
        constraints=[constraints.Length(max=limits.EVENTS)],
        default=[],
        update_allowed=True,
    ),
    RESERVATIONS: _S(
        _S.LIST,
        'What the lease reserves besides this stack: each a resource_type, usually the '
        'resource_id of an existing resource, and the parameters of that type. A virtual:stack '
        'may have a name and a template instead of a resource_id, the template as a text '
        '(get_file). Servers and volumes of this stack are not listed here: they join the lease '
        'by their hints.',
        schema=_S(_S.MAP, 'One resource.'),
        constraints=[constraints.Length(max=limits.RESERVATIONS)],
        default=[],
        update_allowed=True,
    ),
    WEBHOOK: _S(
        _S.MAP,
        'Where the lease sends its notifications.',
        schema=_WEBHOOK,
        update_allowed=True,
    ),
    ON_END: _text(
        'What happens to this stack at the end of the lease. "snapshot" takes a snapshot and then '
        'suspends the stack. A stack that was never started is always deleted.',
        constraints.AllowedValues(list(resource_types.ON_END[resource_types.STACK])),
        default='delete',
        update_allowed=True,
    ),
}


def validate(given: Mapping[str, Any]) -> None:
    """Check what depends on several properties.

    A date that heat does not know yet is left out, and so is one that counts from now: what was
    valid when the lease was created must not fail when its stack is updated later.

    :param given: the properties; None for what is not set or not known yet
    :raises heat.common.exception.StackValidationFailed: with the property and what must be set
    """
    for number, each in enumerate(given[RESERVATIONS] or ()):
        if each is not None and not each.get('resource_type'):
            raise _invalid(f'{RESERVATIONS}[{number}].resource_type', 'must be set')
        if each is not None and reservations.AMOUNTS in each:
            field = f'{RESERVATIONS}[{number}].{reservations.AMOUNTS}'
            raise _invalid(field, 'must be left out; the service that builds the resource sets it')
        for made in ('server', 'volume'):
            if each is not None and made in each:
                # An update could not tell which of those of the lease they are.
                told = f'must be left out; write the {made}s into the template'
                raise _invalid(f'{RESERVATIONS}[{number}].{made}', told)
    _validate_kind(given)
    start, end, before_end = (_parse(given[name]) for name in (START, END, BEFORE_END))
    if start and end and end <= start:
        raise _invalid(END, f'must be after {START} ({given[START]:.80})')
    if before_end and ((start and before_end < start) or (end and before_end > end)):
        raise _invalid(BEFORE_END, f'must be from {START} to {END}')
    for number, each in enumerate(given[EVENTS] or ()):
        time = _parse(each['time'])
        if time and end and time > end:
            raise _invalid(
                f'{EVENTS}[{number}].time', f'must not be after {END} ({given[END]:.80})'
            )


def _validate_kind(given: Mapping[str, Any]) -> None:
    kind = given[KIND] or IMMEDIATE
    for name, only in (
        (MAX_RETRIES, 'retry'),
        (PRIORITY, 'retry'),
        (TIMEOUT, 'best_effort'),
    ):
        if given[name] is not None and kind != only:
            raise _invalid(name, f'is for a lease of the {KIND} {only}')
    if given[PREEMPTIBLE] and kind != 'scheduled':
        raise _invalid(PREEMPTIBLE, f'is for a lease of the {KIND} scheduled')
    if kind != IMMEDIATE and given[ON_END] not in (None, 'delete'):
        raise _invalid(ON_END, f'must be left out: a lease of the {KIND} {kind} has no stack')
    if kind != IMMEDIATE and given[RESERVATIONS] == []:
        raise _invalid(RESERVATIONS, f'a lease of the {KIND} {kind} needs hosts or capacity')


def _parse(text: str | None) -> datetime.datetime | None:
    if not text or dates.is_relative(text):
        return None
    return dates.parse(text, datetime.datetime.now(datetime.UTC))


def _invalid(field: str, rule: str) -> exception.StackValidationFailed:
    return exception.StackValidationFailed(message=f'{field}: {rule}.')


def to_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the client, without the reservations.

    :param given: some of the properties by their names
    """
    result = {}
    for name, value in given.items():
        if name in (RESERVATIONS, ON_END) or (name == KIND and value == IMMEDIATE):
            continue
        if name == PREEMPTIBLE and not value:
            continue
        if name == WEBHOOK:
            value = _without_nulls(value)
        elif name in (EVENTS, BEFORE_START):
            value = [dict(each) if name == EVENTS else int(each) for each in value or ()]
        result[_ARGUMENTS.get(name, name)] = value
    return result


def _without_nulls(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {key: each for key, each in value.items() if each} if value else None
