# SPDX-License-Identifier: Apache-2.0
"""Validate values against JSON Schemas; errors name the invalid field in words of users."""

import base64
import functools
import ipaddress
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Final

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError, best_match
from oslo_utils import uuidutils

from climate_common import limits
from climate_core import exceptions

_FORMATS = jsonschema.FormatChecker(formats=())


@_FORMATS.checks('uuid')
def _is_uuid(value: object) -> bool:
    """Accept only the form with dashes: ids are compared as strings."""
    return not isinstance(value, str) or (len(value) == 36 and uuidutils.is_uuid_like(value))


@_FORMATS.checks('ipv4', raises=ValueError)
def _is_ipv4(value: object) -> bool:
    if isinstance(value, str):
        ipaddress.IPv4Address(value)
    return True


@_FORMATS.checks('ip', raises=ValueError)
def _is_ip(value: object) -> bool:
    if isinstance(value, str):
        # Nova accepts no scope, as in fe80::1%eth0.
        return not getattr(ipaddress.ip_address(value), 'scope_id', None)
    return True


@_FORMATS.checks('base64', raises=ValueError)
def _is_base64(value: object) -> bool:
    if isinstance(value, str):
        base64.b64decode(value)
    return True


@_FORMATS.checks('printable')
def _is_printable(value: object) -> bool:
    """Accept what Nova calls printable (nova/api/validation/parameter_types.py)."""
    return not isinstance(value, str) or all(
        character < '\uffff'
        and (character.isprintable() or unicodedata.category(character) == 'Zs')
        for character in value
    )


@_FORMATS.checks('printable-name')
def _is_printable_name(value: object) -> bool:
    return _is_printable(value) and (not isinstance(value, str) or value == value.strip())


#: Rules that examine every part of a value -> the rule that limits its size. A value that is too
#: large is not examined further: a list in a request may have a million items.
_LIMITED_BY = {
    'items': 'maxItems',
    'uniqueItems': 'maxItems',
    'additionalProperties': 'maxProperties',
    'propertyNames': 'maxProperties',
    'pattern': 'maxLength',
    'format': 'maxLength',
}
#: Number of errors of a value from which the best match is reported.
_MAX_ERRORS = 100


def _within_limit(rule: str) -> Callable[..., Iterator[ValidationError]]:
    check_all, limit = jsonschema.Draft202012Validator.VALIDATORS[rule], _LIMITED_BY[rule]

    def check_limited(
        validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        if limit not in schema or not isinstance(value, Sized) or len(value) <= schema[limit]:
            yield from check_all(validator, allowed, value, schema)

    return check_limited


_Validator = validators.extend(
    jsonschema.Draft202012Validator, {rule: _within_limit(rule) for rule in _LIMITED_BY}
)


@functools.lru_cache(maxsize=128)
def _validator(schema: str) -> Any:
    return _Validator(json.loads(schema), format_checker=_FORMATS)


def _with_integers(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert 2.0 to 2 where the schema has an integer: JSON has one type of numbers."""
    if isinstance(value, float) and value.is_integer():
        json_types = schema.get('type', ())
        return int(value) if 'integer' in json_types and 'number' not in json_types else value
    if isinstance(value, dict) and 'properties' in schema:
        known = schema['properties']
        return {name: _with_integers(item, known.get(name, {})) for name, item in value.items()}
    if isinstance(value, list) and 'items' in schema:
        return [_with_integers(item, schema['items']) for item in value]
    return value


_DECIMAL: Final = re.compile(r'-?[0-9]{1,18}')


def convert_numbers(
    values: Mapping[str, Any], properties: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return values with numbers that are texts, and texts that are numbers, in their own types.

    Clients of Blazar send ``"amount": "2"``, and the id of a flavor as a number. Values that fit
    no type stay as they are, for the schema to reject.

    :param properties: JSON Schemas of the values by name; values without one stay as they are
    """
    return {name: _convert(value, properties.get(name, {})) for name, value in values.items()}


def _convert(value: Any, schema: Mapping[str, Any]) -> Any:
    allowed = schema.get('type', ())
    types = {allowed} if isinstance(allowed, str) else {*allowed}
    if isinstance(value, str) and types & {'integer', 'string'} == {'integer'}:
        return int(value) if _DECIMAL.fullmatch(value) else value
    if isinstance(value, int) and types & {'integer', 'number', 'string'} == {'string'}:
        return value if isinstance(value, bool) else str(value)
    return value


def check(value: Any, schema: Mapping[str, Any], within: str = '') -> Any:
    """Validate a value; return it with 2.0 as 2 where the schema has an integer.

    :param within: the place of the value in the body, as ``reservations[0]``
    :raises climate_core.exceptions.BadRequest: naming the invalid field
    """
    errors = _validator(json.dumps(schema, sort_keys=True)).iter_errors(value)
    error = best_match(itertools.islice(errors, _MAX_ERRORS))
    if error is not None:
        path, reason = _explain(error)
        field = _join(within, path)
        if 'propertyNames' in error.absolute_schema_path:
            reason = f'the key {error.instance!r:.80} {reason}'
        raise exceptions.BadRequest(f'{field}: {reason}' if field else reason, field=field or None)
    return _with_integers(value, schema)


def _explain(error: ValidationError) -> tuple[list[str | int], str]:
    """Return the path of the invalid field, and why it is invalid."""
    path = list(error.absolute_path)
    rule, allowed = str(error.validator), error.validator_value
    if rule == 'required':
        missing = next(name for name in allowed if name not in error.instance)
        return [*path, missing], 'is missing.'
    if rule == 'additionalProperties':
        known = error.schema.get('properties', {})
        extra = next(name for name in error.instance if name not in known)
        return [*path, extra], f'is not known here. Known are {", ".join(sorted(known))}.'
    if rule == 'oneOf':
        names = [name for choice in allowed for name in choice['required']]
        path.append(next((n for n in reversed(names) if n in error.instance), names[0]))
    if rule == 'pattern' and allowed in _PATTERN_WORDS:
        return path, f'must be {_PATTERN_WORDS[allowed]}.'
    if rule == 'pattern' and 'description' in error.schema:
        return path, f'is not valid: {error.schema["description"]}'
    words = _ALLOWED_WORDS.get(rule, str)(allowed)
    reason = _SENTENCES.get(rule, 'is not valid.').format(error.instance, words)
    if rule == 'enum' and 'description' in error.schema:
        # The meaning of the values may explain why there are no others.
        reason += f' {error.schema["description"]}'
    return path, reason


def _types(allowed: str | Sequence[str]) -> str:
    names = [allowed] if isinstance(allowed, str) else allowed
    return ' or '.join(_ARTICLES.get(name, name) for name in names)


_ARTICLES = {
    'string': 'a string',
    'integer': 'an integer',
    'number': 'a number',
    'boolean': 'true or false',
    'array': 'a list',
    'object': 'an object',
}
_FORMAT_WORDS = {
    'uuid': 'a UUID with dashes',
    'ipv4': 'an IPv4 address, as 203.0.113.20',
    'ip': 'an IPv4 or IPv6 address',
    'base64': 'a text in base64',
    'printable': 'a text of printable characters up to U+FFFE',
    'printable-name': 'a text of printable characters up to U+FFFE, without blanks at its ends',
}
_KEY = f'1 to {limits.NAME_LENGTH} ASCII letters, digits, blanks, "-", "_", "." {{}}'
#: Patterns -> the strings that match them.
_PATTERN_WORDS = {
    limits.json_pattern(pattern): words
    for pattern, words in (
        (limits.NAME_PATTERN, limits.NAME),
        (limits.PROJECT_PATTERN, 'the id of a project'),
        (limits.PROPERTY_PATTERN, 'the name of a property, as availability_zone'),
        (limits.TEXT_PATTERN, 'a text without control characters'),
        (limits.STORED_PATTERN, 'a text without NUL and surrogates'),
        (limits.SERVER_KEY_PATTERN, _KEY.format('and ":"')),
        (limits.VOLUME_KEY_PATTERN, _KEY.format('":" and "/"')),
        (limits.WEBHOOK_EVENT_PATTERN, 'a type of notifications, or a pattern as "lease.event.*"'),
    )
}
#: Rules -> a function that formats the allowed value.
_ALLOWED_WORDS: dict[str, Callable[[Any], str]] = {
    'type': _types,
    'enum': lambda allowed: ', '.join(
        'null' if value is None else str(value) for value in allowed
    ),
    'format': lambda allowed: _FORMAT_WORDS[allowed],
    'oneOf': lambda allowed: ', '.join(name for choice in allowed for name in choice['required']),
}
#: Rules -> why a value (0) is invalid that is not the allowed one (1).
_SENTENCES = {
    'type': 'must be {1}.',
    'enum': 'must be one of {1}.',
    'format': 'must be {1}.',
    'pattern': 'has characters that are not allowed.',
    'minLength': 'must not be empty.',
    'maxLength': 'must not be longer than {1} characters.',
    'minimum': 'must be at least {1}.',
    'maximum': 'must be at most {1}.',
    'minItems': 'must not be empty.',
    'maxItems': 'must not have more than {1} entries.',
    'uniqueItems': 'must not have the same entry twice.',
    'not': '{0!r:.80} is used by the service itself.',
    'oneOf': 'exactly one of {1} is needed.',
}


def _join(within: str, path: Iterable[str | int]) -> str:
    joined = within
    for step in path:
        if isinstance(step, int):
            joined += f'[{step}]'
        else:
            joined += f'{"." if joined else ""}{step:.80}'
    return joined
