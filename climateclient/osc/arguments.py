# SPDX-License-Identifier: Apache-2.0
"""Read the values of options; a wrong one raises CommandError before any request."""

import argparse
import datetime
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from osc_lib import exceptions

from climate_common import dates

T = TypeVar('T')

#: Holds the secret of a webhook, so that no list of processes shows it.
SECRET_VARIABLE = 'CLIMATE_WEBHOOK_SECRET'  # nosec B105 # no password

# A comma separates pairs only where a new key follows: values may hold commas.
_PAIRS = re.compile(r',(?=[A-Za-z_][\w:]*=)')
#: The option -> a value that is right.
_EXAMPLES = {
    '--reservation': '{"resource_type": "physical:host", "min": 1, "max": 2}',
    '--event': 'type=remind,time=+2h',
    '--property': 'min=1,max=2',
}
_INTEGER = re.compile(r'-?\d+')
_NO_FIELDS: Mapping[str, str] = {}
#: The id that is a number: of a VLAN, or of a tunnel.
_NUMBERED = 'segment_id'
#: Properties that are lists; their values have commas between.
_LISTS = ('required_floatingips', 'network_tags')
#: Properties that are true or false, and how they are written.
_BOOLEANS = {'affinity': {'true': True, 'false': False}}


def now() -> datetime.datetime:
    """Return the present in whole seconds: what is computed from it is shown as it is."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def time(option: str, text: str) -> datetime.datetime:
    """Read the time of an option, in the zone of the machine, and return it in UTC."""
    return checked(option, lambda: dates.parse(text, now(), zone=None))


def duration(option: str, text: str) -> datetime.timedelta:
    """Read the duration of an option."""
    return checked(option, lambda: dates.parse_duration(text))


def seconds(option: str, texts: list[str]) -> list[int]:
    """Read durations, several in one text with commas, and return whole seconds."""
    parts = [part for text in texts for part in text.split(',')]
    return [int(duration(option, part).total_seconds()) for part in parts]


def reservation(text: str, or_id: bool = False) -> dict[str, Any]:
    """Read a reservation: ``resource_type=...,resource_id=...,key=value`` or a JSON object.

    Values are read as by :func:`mapping`.

    :param or_id: the ``id`` of an existing reservation is enough
    """
    values = mapping('--reservation', text)
    if 'resource_type' not in values and not (or_id and 'id' in values):
        alternative = ' (or the id of a reservation that is to be changed)' if or_id else ''
        raise exceptions.CommandError(
            f'--reservation {text}: resource_type is missing{alternative}.'
        )
    return values


def event(text: str) -> dict[str, Any]:
    """Read an event: ``type=...,time=...``."""
    given = mapping('--event', text)
    values = {
        'event_type': given.pop('type', None) or given.pop('event_type', None),
        'time': given.pop('time', None) or given.pop('event_date', None),
    }
    missing = ' and '.join(name for name, value in values.items() if not value)
    if given or missing:
        problem = f'{missing} is missing' if missing else f'unknown key {", ".join(given)}'
        raise exceptions.CommandError(f'--event {text}: {problem}; write type=<name>,time=<time>.')
    return values | {'time': time('--event', str(values['time']))}


def sort_keys(text: str, known: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Read ``key[:asc|:desc],...`` and return pairs (key, is descending)."""
    result = []
    for part in text.split(','):
        key, _, direction = part.partition(':')
        if key not in known or direction not in ('', 'asc', 'desc'):
            raise exceptions.CommandError(
                f'--sort {part}: write <key>[:asc|:desc] with a key of {", ".join(known)}.'
            )
        result.append((key, direction == 'desc'))
    return result


def secret(text: str | None, file: str | None) -> str:
    """Return the secret of a webhook: as given, the first line of a file, or of the environment.

    :param file: a path; ``-`` is the standard input
    """
    if file:
        read = sys.stdin.read if file == '-' else pathlib.Path(file).read_text
        try:
            text = read().partition('\n')[0].strip()
        except (OSError, ValueError) as error:
            raise exceptions.CommandError(f'--webhook-secret-file: {error}') from None
    text = text or os.environ.get(SECRET_VARIABLE)
    if not text:
        raise exceptions.CommandError(
            '--webhook: it needs a secret, which signs what is sent: set '
            f'{SECRET_VARIABLE} or give --webhook-secret-file.'
        )
    return text


def mapping(option: str, text: str) -> dict[str, Any]:
    """Read a mapping: ``key=value,...`` or a JSON object.

    Whole numbers become integers, except in ids; properties that are lists become lists, and
    ``affinity`` becomes true or false.
    """
    if text.lstrip().startswith('{'):
        return _json(option, text)
    values: dict[str, Any] = {}
    for pair in _PAIRS.split(text):
        key, equals, value = pair.partition('=')
        if not equals or not key:
            raise exceptions.CommandError(
                f'{option} {text}: "{pair}" is not <key>=<value>. {_example(option)}'
            )
        if key in values:
            raise exceptions.CommandError(f'{option} {text}: {key} is given twice.')
        values[key] = _value(key, value)
    return values


def _value(key: str, text: str) -> Any:
    if key in _LISTS:
        return [each.strip() for each in text.split(',') if each.strip()]
    if key in _BOOLEANS:
        return _BOOLEANS[key].get(text.lower(), text)
    is_number = _INTEGER.fullmatch(text) and (key == _NUMBERED or not key.endswith('id'))
    return int(text) if is_number else text


def _json(option: str, text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except RecursionError:
        raise exceptions.CommandError(f'{option}: the JSON is too deep.') from None
    except json.JSONDecodeError as error:
        raise exceptions.CommandError(
            f'{option}: no JSON object: {error.msg} at character {error.pos + 1}, before '
            f'"{text[error.pos : error.pos + 20]}". {_example(option)}'
        ) from None


def _example(option: str) -> str:
    return f"Example: {option} '{_EXAMPLES[option]}'"


def checked(option: str, read: Callable[[], T]) -> T:
    """Return what a function reads; its ValueError becomes a CommandError with the option."""
    try:
        return read()
    except ValueError as error:
        raise exceptions.CommandError(f'{option}: {error}') from None


def add_extra(parser: argparse.ArgumentParser) -> None:
    """Add the option of extra properties, which :func:`extra` reads."""
    parser.add_argument(
        '--extra',
        metavar='<key>=<value>',
        action='append',
        default=[],
        help='Property that reservations can require (repeat for several)',
    )


def add_extra_to_take(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add the option of extra properties to remove."""
    parser.add_argument(
        '--extra',
        metavar='<key>',
        action='append',
        default=[],
        required=required,
        help='Extra property to remove (repeat for several)',
    )


def extra(texts: Iterable[str], fields: Mapping[str, str] = _NO_FIELDS) -> dict[str, str]:
    """Return extra properties.

    :param fields: name that is no extra property -> the option that says it
    :raises CommandError: one of them is not ``<key>=<value>``, or has such a name
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition('=')
        if not key or not equals:
            raise exceptions.CommandError(f'--extra {text}: write <key>=<value>.')
        if key in fields:
            raise exceptions.CommandError(
                f'--extra {text}: {key} is no extra property: use {fields[key]}.'
            )
        found[key] = value
    return found
