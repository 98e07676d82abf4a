# SPDX-License-Identifier: Apache-2.0
"""Compile the conditions by which a reservation chooses hosts. Pure.

There are two languages. Blazar's is JSON in a text, ``["and", [">=", "$vcpus", "16"], ["or",
...]]``; the readable one is ``vcpus>=16,gpu==True`` beside lists of traits, aggregates and names.
Both name properties of hosts and nothing else. A host that lacks a property does not match,
whatever it is compared with. Numbers compare as numbers, also if they came as texts; a list, as
the traits, is compared by its items.
"""

import json
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from climate_common import limits
from climate_core import exceptions
from climate_core.calendar.model import Shortage

#: The fields of a reservation that this module understands, and what each of them takes.
FIELDS: Final = (
    'hypervisor_properties',
    'network_properties',
    'resource_properties',
    'resources',
    'traits',
    'aggregates',
    'availability_zone',
    'names',
)

# Heat sends null for what its template does not set.
_TEXT_SCHEMA: Final = {'type': ['string', 'null'], 'maxLength': 4096}
_PATTERN: Final = {'pattern': limits.json_pattern(limits.TEXT_PATTERN)}
_TEXTS_SCHEMA: Final = {
    **_PATTERN,
    'type': ['array', 'string', 'null'],
    'items': {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH, **_PATTERN},
    'maxItems': 100,
    'maxLength': 4096,
}
#: The JSON Schema of :data:`FIELDS`.
SCHEMA: Final[Mapping[str, Any]] = {
    'hypervisor_properties': {**_TEXT_SCHEMA, 'description': "Conditions in Blazar's JSON."},
    'resource_properties': {**_TEXT_SCHEMA, 'description': "Conditions in Blazar's JSON."},
    'resources': {**_TEXTS_SCHEMA, 'description': 'Conditions, as vcpus>=16,gpu==True.'},
    'traits': {**_TEXTS_SCHEMA, 'description': 'Traits of the host; those with ! it must lack.'},
    'aggregates': {
        **_TEXTS_SCHEMA,
        'description': 'Names of host aggregates; it must be in none of those with !.',
    },
    'availability_zone': {
        **_TEXT_SCHEMA,
        **_PATTERN,
        'description': 'The availability zone of the host.',
    },
    'names': {**_TEXTS_SCHEMA, 'description': 'It must be one of these hosts.'},
    'pool': {**_TEXT_SCHEMA, **_PATTERN, 'description': 'The pool of the host; by default any.'},
}

_OPERATORS: Final = {
    '==': operator.eq,
    '=': operator.eq,
    '!=': operator.ne,
    '>=': operator.ge,
    '<=': operator.le,
    '>': operator.gt,
    '<': operator.lt,
}
_EQUALITY: Final = frozenset({'==', '=', '!='})
_JUNCTIONS: Final = {'and': all, 'or': any}
#: How deep conditions may be nested.
_MAX_DEPTH: Final = 16
_TRAIT: Final = re.compile(limits.TRAIT_PATTERN)
_LISTS: Final = frozenset({'traits', 'aggregates'})
#: The properties that any user may know of the hosts of their pools.
_SIZES: Final = frozenset({'vcpus', 'memory_mb', 'local_gb'})
_NAMES: Final = ('hypervisor_hostname', 'service_name')


class Examples(NamedTuple):
    """Valid conditions that errors show as examples.

    :param json: conditions in Blazar's JSON
    :param readable: the same in the words of ``resources``
    """

    json: str
    readable: str


HOSTS: Final = Examples(
    'as ["and", [">=", "$vcpus", "16"], ["==", "$gpu", "True"]]', 'as vcpus>=16,gpu==True'
)


class Comparison(NamedTuple):
    """Compare a property with a value; of a list, search the value in it.

    :param value: as :func:`_plain` returns it
    """

    name: str
    sign: str
    value: Any

    def matches(self, properties: Mapping[str, Any]) -> bool:
        if self.name in _LISTS:
            return (self.value in properties.get(self.name, ())) is (self.sign != '!=')
        if properties.get(self.name) is None:
            return False
        have = _plain(properties[self.name])
        if isinstance(have, str) is isinstance(self.value, str):
            return bool(_OPERATORS[self.sign](have, self.value))
        return self.sign == '!='


class OneOf(NamedTuple):
    """Search for one of some properties that has one of some values."""

    names: Sequence[str]
    values: frozenset[str]

    def matches(self, properties: Mapping[str, Any]) -> bool:
        return any(properties.get(name) in self.values for name in self.names)


class Junction(NamedTuple):
    """Join conditions with ``and`` or ``or``."""

    word: str
    parts: Sequence['Condition']

    def matches(self, properties: Mapping[str, Any]) -> bool:
        return _JUNCTIONS[self.word](part.matches(properties) for part in self.parts)


Condition = Comparison | OneOf | Junction


class Clause(NamedTuple):
    """A part of a condition, all of whose parts must be met.

    :param text: for users, as a property of a host
    :param field: the field of the request that it stands in
    """

    condition: Condition
    text: str
    field: str

    def describe_shortage(
        self, hosts: Sequence[Mapping[str, Any]], noun: str = 'host'
    ) -> Shortage:
        """Return that no host meets it; of a size also what they have.

        :param hosts: the properties of each, of at least one
        :param noun: what they are, if not hosts
        """
        # A host that only Nova has is none to lease.
        among = ' of the pools' if self.field == 'names' else ''
        text = f'no {noun}{among} has {self.text}'
        compared = self.condition
        if not isinstance(compared, Comparison) or compared.name not in _SIZES:
            return Shortage(text, self.field)
        sizes = [parse_number(host.get(compared.name) or 0) for host in hosts]
        smallest, largest = min(sizes), max(sizes)
        if compared.sign in ('>', '>='):
            extremes = f'the largest has {largest}'
        elif compared.sign in ('<', '<='):
            extremes = f'the smallest has {smallest}'
        else:
            extremes = f'the smallest has {smallest}, the largest {largest}'
        return Shortage(f'{text}; {extremes}', self.field)


class Filter(NamedTuple):
    """All conditions of a reservation on its hosts, joined.

    :param names: the properties that it compares -> the field that names each
    :param noun: what it is about, for users
    """

    names: Mapping[str, str]
    clauses: Sequence[Clause]
    noun: str = 'host'

    def matches(self, properties: Mapping[str, Any]) -> bool:
        """Return whether a host with these properties matches."""
        return all(clause.condition.matches(properties) for clause in self.clauses)

    def find_shortage(self, hosts: Sequence[Mapping[str, Any]]) -> Shortage | None:
        """Return what is requested and no host has; None: some host matches.

        Only sizes of hosts are shown, and no property that the operator set.

        :param hosts: the properties of each, of at least one
        """
        for clause in self.clauses:
            if not any(map(clause.condition.matches, hosts)):
                return clause.describe_shortage(hosts, self.noun)
        if any(map(self.matches, hosts)):
            return None
        texts = ', '.join(clause.text for clause in self.clauses)
        return Shortage(f'no {self.noun} has all of {texts}')


def compile_filter(
    values: Mapping[str, Any], noun: str = 'host', examples: Examples = HOSTS
) -> Filter:
    """Join all conditions of a reservation on its hosts, or its network.

    :param values: of :data:`FIELDS`, those that the reservation has. Lists may come as texts with
        commas; what is empty or None requires nothing
    :param noun: what they choose, if not hosts
    :param examples: of conditions for these
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    clauses: list[Clause] = []
    for field in FIELDS:
        if values.get(field) not in (None, ''):
            clauses += _compile(field, values[field], examples)
    names: dict[str, str] = {}
    for clause in clauses:
        if clause.field not in _LISTS:
            for name in _list_names(clause.condition):
                names.setdefault(name, clause.field)
    return Filter(names, clauses, noun)


def _list_names(condition: Condition) -> Iterator[str]:
    if isinstance(condition, Comparison):
        yield condition.name
    elif isinstance(condition, Junction):
        for part in condition.parts:
            yield from _list_names(part)


def _compile(field: str, value: Any, examples: Examples) -> Sequence[Clause]:
    match field:
        case 'hypervisor_properties' | 'network_properties' | 'resource_properties':
            return _parse_json(field, value, examples)
        case 'resources':
            return [_parse_readable(field, text, examples) for text in _texts(field, value)]
        case 'traits' | 'aggregates':
            return [_parse_item(field, text) for text in _texts(field, value)]
        case 'names':
            hosts = frozenset(_texts(field, value))
            text = f'the name {" or ".join(sorted(hosts))}'
            return [Clause(OneOf(_NAMES, hosts), text, field)]
        case _:
            zone = OneOf((field,), frozenset({value}))
            return [Clause(zone, f'the availability zone {value}', field)]


def _parse_item(field: str, text: str) -> Clause:
    """Return the condition for a name in a list, or with ``!`` before it for its absence."""
    name = text.removeprefix('!').strip()
    if field == 'traits' and not _TRAIT.fullmatch(name):
        raise _bad_request(
            field,
            f'{name!r} must be the name of a trait: 1 to {limits.NAME_LENGTH} capital letters, '
            'digits and "_", as HW_CPU_X86_VMX.',
        )
    if not name:
        raise _bad_request(field, 'must have a name after each "!".')
    is_forbidden = text.startswith('!')
    description = f'{"not the" if is_forbidden else "the"} {field.removesuffix("s")} {name}'
    return Clause(Comparison(field, '!=' if is_forbidden else '==', name), description, field)


def _parse_readable(field: str, text: str, examples: Examples) -> Clause:
    found = limits.parse_condition(text)
    if found is None:
        raise _bad_request(
            field,
            f'{text!r:.80} must be the name of a property, one of {" ".join(_OPERATORS)} and a '
            f'value, {examples.readable}.',
        )
    name, sign, value = found
    return Clause(_compare(field, sign, name, value), f'{name}{sign}{value}', field)


def _parse_json(field: str, text: Any, examples: Examples) -> Sequence[Clause]:
    try:
        tree = limits.decode(text) if isinstance(text, str) else text
    except json.JSONDecodeError as exc:
        place = f'{exc.msg} at character {exc.pos + 1}'
        raise _bad_request(field, f'must be JSON, {examples.json} ({place}).')
    except ValueError as exc:
        raise _bad_request(field, f'must be JSON, {examples.json} ({exc}).')
    if tree is None or tree == []:
        # python-chi sends these for no condition.
        return []
    whole = _compile_node(field, tree, examples, _MAX_DEPTH)
    if isinstance(whole, Junction) and whole.word == 'and':
        pairs = [*zip(tree[1:], whole.parts, strict=True)]
    else:
        pairs = [(tree, whole)]
    return [Clause(condition, _describe_node(node), field) for node, condition in pairs]


def _describe_node(tree: Any) -> str:
    match tree:
        case [str(sign), str(name), value] if sign in _OPERATORS:
            return f'{name.removeprefix("$")}{sign}{value}'
        case _:
            return json.dumps(tree)[:80]


def _compile_node(field: str, tree: Any, examples: Examples, depth: int) -> Condition:
    if depth == 0:
        raise _bad_request(
            field, f'must not be deeper than {_MAX_DEPTH} conditions in each other.'
        )
    match tree:
        case [str(word), *parts] if word in _JUNCTIONS and parts:
            return Junction(
                word, [_compile_node(field, part, examples, depth - 1) for part in parts]
            )
        case [str(sign), str(name), str() | int() | float() as value] if (
            sign in _OPERATORS and name.startswith('$')
        ):
            return _compare(field, sign, name.removeprefix('$'), value)
    text = json.dumps(tree)[:80]
    raise _bad_request(
        field,
        f'{text} must be a condition in JSON, {examples.json}, with and, or and '
        f'{", ".join(_OPERATORS)}.',
    )


def _compare(field: str, sign: str, name: str, value: Any) -> Comparison:
    if name in _LISTS:
        if sign not in _EQUALITY:
            raise _bad_request(
                field, f'{name:.80} is a list: it can only be compared with == and !=.'
            )
        return Comparison(name, sign, str(value))
    plain = _plain(value)
    if name in _SIZES and isinstance(plain, str):
        raise _bad_request(
            field, f'{name:.80} must be compared with a number, not with {value!r:.80}.'
        )
    return Comparison(name, sign, plain)


def _plain(value: Any) -> Any:
    """Return a value as it is compared: a number if it is one, and one text for true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.lower() in ('true', 'false'):
        return value.lower()
    return parse_number(value)


def _texts(field: str, value: Any) -> Sequence[str]:
    """Return the parts of a list, or of a text with commas."""
    parts = value.split(',') if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(each, str) for each in parts):
        raise _bad_request(field, 'must be a text, or a list of texts.')
    found = [each.strip() for each in parts]
    if not all(found):
        raise _bad_request(field, 'must have something between its commas.')
    return found


def _bad_request(field: str, reason: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(f'{field}: {reason}', field=field)


#: The details that filters can name, beside the extra properties.
NODE_FACTS: Final = (
    'hypervisor_hostname',
    'service_name',
    'hypervisor_type',
    'hypervisor_version',
    'vcpus',
    'memory_mb',
    'local_gb',
    'cpu_arch',
    'cpu_model',
    'cpu_vendor',
    'availability_zone',
    'traits',
    'aggregates',
    'root_traits',
    'divided',
    'units',
)


_NUMBER: Final = re.compile(r'[+-]?\d{1,18}(\.\d{1,18})?', re.ASCII)


def parse_number(value: Any) -> Any:
    """Return the number in a text, so that "16" is more than "9"; other values as they are."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    return float(value) if '.' in value else int(value)


def check_extra_names(names: Iterable[str], reserved: Collection[str], source: str) -> None:
    """Reject extra properties with invalid names, or with names of other properties.

    :param reserved: the names of other properties
    :param source: where those come from, as the rest of a sentence
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    for name in names:
        if name in reserved:
            raise exceptions.BadRequest(
                f'{name}: {source}; an extra property must have another name.', field=name
            )
        if not re.fullmatch(limits.PROPERTY_PATTERN, name):
            raise exceptions.BadRequest(
                f'{name}: must begin with a letter and have only letters, digits and "_.:-", 64 '
                'characters at most.',
                field=name,
            )
