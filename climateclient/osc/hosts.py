# SPDX-License-Identifier: Apache-2.0
"""The option ``--hosts``: whole hosts that a lease reserves, in a readable form."""

import argparse
import re
from typing import Any, Final

from osc_lib import exceptions

from climate_common import resource_types

_OPTION: Final = '--hosts'
#: What may be said more than once -> the property of the reservation.
_LISTS: Final = {'trait': 'traits', 'aggregate': 'aggregates', 'name': 'names'}
_NUMBERS: Final = ('min', 'max')
_TEXTS: Final = ('availability_zone', 'pool', 'on_end')
_PART = re.compile(r'(?P<key>[\w.:-]+)\s*(?P<operator>>=|<=|!=|==|=|>|<)\s*(?P<value>.*)')
_FORM: Final = (
    'min=<n>,max=<n> and what the hosts must be: <property><operator><value> as vcpus>=16, '
    'trait=<trait>, aggregate=<name or id>, name=<host>, availability_zone=<zone>, pool=<pool>'
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        _OPTION,
        metavar='min=<n>[,max=<n>][,<property><operator><value>...]',
        action='append',
        default=[],
        help=f'Reserve whole hosts: {_FORM} (repeat for several)',
    )


def reservations(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; CommandError says what cannot be read."""
    return [_read(text) for text in parsed_args.hosts]


def kinds(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of each of the reservations."""
    return [{'resource_type': resource_types.HOST} for _ in parsed_args.hosts]


def _read(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {'resource_type': resource_types.HOST}
    compared = []
    for part in filter(None, (each.strip() for each in text.split(','))):
        found = _PART.fullmatch(part)
        if found is None:
            raise exceptions.CommandError(
                f'{_OPTION} {text}: "{part}" is not of the form {_FORM}.'
            )
        key, operator, value = found.group('key', 'operator', 'value')
        if key in _LISTS and operator in ('=', '!='):
            # A trait may be forbidden, as in the extra specs of a flavor.
            values.setdefault(_LISTS[key], []).append(f'!{value}' if operator == '!=' else value)
        elif key in _NUMBERS and operator == '=':
            values[key] = _number(text, key, value)
        elif key in _TEXTS and operator == '=':
            values[key] = value
        else:
            compared.append(f'{key}{operator}{value}')
    return values | ({'resources': ','.join(compared)} if compared else {})


def _number(text: str, key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise exceptions.CommandError(
            f'{_OPTION} {text}: {key} must be an integer, not "{value}".'
        ) from None
