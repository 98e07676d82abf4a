# SPDX-License-Identifier: Apache-2.0
"""Understand which hosts a reservation wants: pure.

There are two languages. Blazar's is JSON in a text, ``["and", [">=", "$vcpus", "16"], ["or",
...]]``; the readable one is ``vcpus>=16,gpu==True`` beside lists of traits, aggregates and names.
Both name properties of hosts and nothing else. A host
that lacks a property does not match, whatever it is compared with. Numbers compare as numbers,
also if they came as texts; a list, as the traits, is compared by what is in it.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from climate_core import exceptions
from climate_core.lease.hosts import number

#: Tells whether a host with these properties would do.
Matches = Callable[[Mapping[str, Any]], bool]

#: The fields of a reservation that this module understands, and what each of them takes.
FIELDS: Final = (
    'hypervisor_properties',
    'resource_properties',
    'resources',
    'traits',
    'aggregates',
    'availability_zone',
    'names',
)

# Heat sends null for what its template does not say.
_TEXT: Final = {'type': ['string', 'null'], 'maxLength': 4096}
_TEXTS_OR_ONE: Final = {
    'type': ['array', 'string', 'null'],
    'items': {'type': 'string', 'minLength': 1, 'maxLength': 255},
    'maxItems': 100,
    'maxLength': 4096,
}
#: The JSON Schema of :data:`FIELDS`.
SCHEMA: Final[Mapping[str, Any]] = {
    'hypervisor_properties': {**_TEXT, 'description': "Conditions in Blazar's JSON."},
    'resource_properties': {**_TEXT, 'description': "Conditions in Blazar's JSON."},
    'resources': {**_TEXTS_OR_ONE, 'description': 'Conditions, as vcpus>=16,gpu==True.'},
    'traits': {**_TEXTS_OR_ONE, 'description': 'Traits of the host; those with ! it must lack.'},
    'aggregates': {
        **_TEXTS_OR_ONE,
        'description': 'Names of host aggregates; it must be in none of those with !.',
    },
    'availability_zone': {**_TEXT, 'description': 'The availability zone of the host.'},
    'names': {**_TEXTS_OR_ONE, 'description': 'It must be one of these hosts.'},
    'pool': {**_TEXT, 'description': 'The pool of the host; by default any.'},
}

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    '==': operator.eq,
    '=': operator.eq,
    '!=': operator.ne,
    '>=': operator.ge,
    '<=': operator.le,
    '>': operator.gt,
    '<': operator.lt,
}
_EQUALITY: Final = frozenset({'==', '=', '!='})
_JUNCTIONS: Final[Mapping[str, Callable[[Iterable[bool]], bool]]] = {'and': all, 'or': any}
#: How deep conditions may stand in each other.
_DEPTH: Final = 16
_CONDITION: Final = re.compile(r'\s*([^\s<>=!]+)\s*(==|!=|>=|<=|=|>|<)\s*([^<>=!].*?)\s*')
_TRAIT: Final = re.compile(r'[A-Z0-9_]{1,255}')
_LISTS: Final = frozenset({'traits', 'aggregates'})
_JSON: Final = 'as ["and", [">=", "$vcpus", "16"], ["==", "$gpu", "True"]]'
_READABLE: Final = 'as vcpus>=16,gpu==True'


class Filter(NamedTuple):
    """One condition of all that a reservation says about its hosts.

    :param names: the properties that it compares -> the field that names each
    """

    matches: Matches
    names: Mapping[str, str]


def compile_filter(values: Mapping[str, Any]) -> Filter:
    """Make one condition of all that a reservation says about its hosts.

    :param values: of :data:`FIELDS`, those that the reservation has. Lists may come as texts with
        commas; what is empty or None asks for nothing
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    names: dict[str, str] = {}
    conditions = [
        _compile(name, values[name], names)
        for name in FIELDS
        if values.get(name) not in (None, '')
    ]
    return Filter(_all(conditions), names)


def _compile(field: str, value: Any, names: dict[str, str]) -> Matches:
    match field:
        case 'hypervisor_properties' | 'resource_properties':
            return _of_json(field, value, names)
        case 'resources':
            return _all(_readable(field, each, names) for each in _texts(field, value))
        case 'traits' | 'aggregates':
            return _all(_required(field, each) for each in _texts(field, value))
        case 'names':
            hosts = frozenset(_texts(field, value))
            return lambda properties: (
                properties.get('hypervisor_hostname') in hosts
                or properties.get('service_name') in hosts
            )
        case _:
            return lambda properties: properties.get(field) == value


def _all(conditions: Iterable[Matches]) -> Matches:
    every = list(conditions)
    return lambda properties: all(matches(properties) for matches in every)


def _required(field: str, text: str) -> Matches:
    """Return the condition for a name in a list, or with ``!`` before it for its absence."""
    name = text.removeprefix('!').strip()
    if field == 'traits' and not _TRAIT.fullmatch(name):
        raise _wrong(
            field, f'{name!r} is no trait: capital letters, digits and "_", as HW_CPU_X86_VMX.'
        )
    if not name:
        raise _wrong(field, 'must have a name behind each "!".')
    return _listed(field, name, not text.startswith('!'))


def _listed(field: str, name: str, wanted: bool) -> Matches:
    return lambda properties: (name in properties.get(field, ())) is wanted


def _readable(field: str, text: str, names: dict[str, str]) -> Matches:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise _wrong(field, f'{text!r} is no condition. Write conditions {_READABLE}.')
    name, sign, value = found.groups()
    return _condition(field, sign, name, value, names)


def _of_json(field: str, text: Any, names: dict[str, str]) -> Matches:
    try:
        tree = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        raise _wrong(field, f'is not JSON. Write it {_JSON}.')
    return _node(field, tree, names, _DEPTH)


def _node(field: str, tree: Any, names: dict[str, str], depth: int) -> Matches:
    if depth == 0:
        raise _wrong(field, f'must not be deeper than {_DEPTH} conditions in each other.')
    match tree:
        case [str(junction), *parts] if junction in _JUNCTIONS and parts:
            join = _JUNCTIONS[junction]
            nodes = [_node(field, part, names, depth - 1) for part in parts]
            return lambda properties: join(matches(properties) for matches in nodes)
        case [str(sign), str(name), str() | int() | float() as value] if (
            sign in _OPERATORS and name.startswith('$')
        ):
            return _condition(field, sign, name.removeprefix('$'), value, names)
    told = json.dumps(tree)[:80]
    raise _wrong(
        field,
        f'{told} is no condition. Write it {_JSON}, with and, or and {", ".join(_OPERATORS)}.',
    )


def _condition(field: str, sign: str, name: str, value: Any, names: dict[str, str]) -> Matches:
    names.setdefault(name, field)
    if name in _LISTS:
        if sign not in _EQUALITY:
            raise _wrong(field, f'{name} is a list: it can only be compared with == and !=.')
        return _listed(name, str(value), sign != '!=')
    wanted, compare = _plain(value), _OPERATORS[sign]

    def matches(properties: Mapping[str, Any]) -> bool:
        if properties.get(name) is None:
            return False
        have = _plain(properties[name])
        if isinstance(have, str) is isinstance(wanted, str):
            return compare(have, wanted)
        return sign == '!='

    return matches


def _plain(value: Any) -> Any:
    """Return a value as it is compared: a number if it is one, and one text for true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.lower() in ('true', 'false'):
        return value.lower()
    return number(value)


def _texts(field: str, value: Any) -> Sequence[str]:
    """Return the parts of a list, or of a text with commas."""
    parts = value.split(',') if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(each, str) for each in parts):
        raise _wrong(field, 'must be a text, or a list of texts.')
    found = [each.strip() for each in parts]
    if not all(found):
        raise _wrong(field, 'must have something between its commas.')
    return found


def _wrong(field: str, reason: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(f'{field}: {reason}', field=field)
