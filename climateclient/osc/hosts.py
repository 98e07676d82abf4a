# SPDX-License-Identifier: Apache-2.0
"""The options ``--hosts`` and ``--capacity``: hosts, or shares of them, in a readable form."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import limits, resource_types
from climateclient.osc import options

HOSTS: Final = '--hosts'
CAPACITY: Final = '--capacity'
#: The keys that may be repeated -> the property of the reservation.
_LISTS: Final = {
    'trait': 'traits',
    'aggregate': 'aggregates',
    'name': 'names',
    'share_with': 'share_with',
}
#: The option -> a value that is right.
_EXAMPLES: Final = {
    HOSTS: 'min=1,max=2,vcpus>=16',
    '--servers': 'flavor=m1.small,count=3',
    CAPACITY: 'flavor=m1.small,amount=10,affinity=false',
}
_FILTERS: Final = (
    'requirements for the hosts: <property><operator><value> such as vcpus>=16, '
    'trait=<trait>, aggregate=<name>, name=<host>, availability_zone=<zone>, pool=<pool>; '
    'share_with=<project id>; matching=open for new servers of the project without a hint, '
    'which are deleted at the end; on_end=migrate, grace=<seconds> for the servers on the '
    'hosts at the end'
)


def _integer(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f'must be an integer, not "{value}"') from None


def _boolean(value: str) -> bool:
    known = {'true': True, 'false': False}
    if value.lower() not in known:
        raise ValueError(f'must be true or false, not "{value}"')
    return known[value.lower()]


#: The key -> how its value is read.
_Keys = Mapping[str, Callable[[str], Any]]
_COMMON: Final[_Keys] = {
    'availability_zone': str,
    'pool': str,
    'matching': str,
    'on_end': str,
    'grace': _integer,
}
_OF_HOSTS: Final[_Keys] = {'min': _integer, 'max': _integer, **_COMMON}
_SIZES: Final[_Keys] = dict.fromkeys(resource_types.SERVER_UNITS[1:], _integer)
_OF_CAPACITY: Final[_Keys] = {
    'flavor': str,
    'amount': _integer,
    'affinity': _boolean,
    **_COMMON,
}
_OF_SERVERS: Final[_Keys] = {'flavor': str, 'count': _integer}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        HOSTS,
        metavar='min=<n>[,max=<n>][,<property><operator><value>...]',
        action='append',
        default=[],
        help=f'Reserve whole hosts; also {_FILTERS} (repeat for several)',
    )
    parser.add_argument(
        CAPACITY,
        metavar='flavor=<flavor>,amount=<n>[,affinity=<true or false>...]',
        action='append',
        default=[],
        help='Reserve capacity for servers of a flavor, or of the size '
        'vcpus=<n>,memory_mb=<MiB>,disk_gb=<GiB>; affinity=true puts all on one host, '
        f'affinity=false each on another; also {_FILTERS} (repeat for several)',
    )


def list_types(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of each of the reservations."""
    found = [resource_types.HOST] * len(parsed_args.hosts)
    found += [resource_types.CAPACITY] * len(parsed_args.capacity)
    return [{'resource_type': each} for each in found]


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the options; asks Nova for the ids of flavors.

    :raises CommandError: something cannot be read
    """
    read = [(resource_types.HOST, _read(HOSTS, text, _OF_HOSTS)) for text in parsed_args.hosts]
    for text in parsed_args.capacity:
        values = _read(CAPACITY, text, {**_OF_CAPACITY, **_SIZES})
        sizes = [each for each in _SIZES if each in values]
        if 'flavor' not in values:
            read.append((resource_types.SERVER, _by_sizes(text, values)))
            continue
        if sizes:
            raise exceptions.CommandError(
                f'{CAPACITY} {text}: {sizes[0]} is the size of a server without a flavor, and the '
                'flavor has its own: leave one of them out. What a host must have is written as '
                f'{sizes[0]}>=<n>.'
            )
        found = flavor_id(cmd, CAPACITY, text, values.pop('flavor'))
        read.append((resource_types.CAPACITY, {'flavor_id': found, **values}))
    return [{'resource_type': resource_type, **values} for resource_type, values in read]


def servers(cmd: command.Command, option: str, text: str) -> dict[str, Any]:
    """Return a reservation of servers that are not made yet; asks Nova for the id of the flavor.

    :raises CommandError: something cannot be read
    """
    values = _read(option, text, _OF_SERVERS, with_filters=False)
    if 'flavor' not in values:
        raise exceptions.CommandError(f'{option} {text}: flavor=<name or id> is missing.')
    found = flavor_id(cmd, option, text, values.pop('flavor'))
    server = {'flavorRef': found, **values}
    return {'resource_type': resource_types.SERVER, 'server': server}


def flavor_id(cmd: command.Command, option: str, text: str, name: str) -> str:
    """Return the id of a flavor that an option names; CommandError if there is none."""
    flavor = options.clients(cmd).compute.find_flavor(name)
    if flavor is None:
        raise exceptions.CommandError(
            f'{option} {text}: flavor: there is no flavor "{name}" that you may use.'
        )
    found: str = flavor.id
    return found


def _by_sizes(text: str, values: dict[str, Any]) -> dict[str, Any]:
    missing = _SIZES.keys() - values.keys()
    if missing == _SIZES.keys():
        raise exceptions.CommandError(
            f'{CAPACITY} {text}: flavor=<name or id> is missing, or all of {", ".join(_SIZES)} '
            'in its place.'
        )
    if missing:
        raise exceptions.CommandError(
            f'{CAPACITY} {text}: {min(missing)}=<n> is missing: without a flavor all of '
            f'{", ".join(_SIZES)} are needed.'
        )
    return values


def _read(option: str, text: str, keys: _Keys, with_filters: bool = True) -> dict[str, Any]:
    """Return the properties of a reservation that an option says.

    :param keys: what it may have
    :param with_filters: whether it may also say what hosts must be
    :raises CommandError: something cannot be read
    """
    if not text.strip(' ,'):
        raise exceptions.CommandError(
            f"{option} is empty. Example: {option} '{_EXAMPLES[option]}'"
        )
    values: dict[str, Any] = {}
    compared = []
    for number, part in enumerate((each.strip() for each in text.split(',')), start=1):
        if not part:
            continue
        found = limits.parse_condition(part)
        if found is None:
            raise exceptions.CommandError(
                f'{option} {text}: part {number}, "{part}", is not <key>=<value> or '
                f"<property><operator><value>. Example: {option} '{_EXAMPLES[option]}' "
                '(with the quotation marks, or the shell reads > and < itself)'
            )
        key, operator, value = found
        if not with_filters and (key not in keys or operator != '='):
            known = ', '.join(f'{each}=<value>' for each in keys)
            raise exceptions.CommandError(
                f'{option} {text}: "{part}" is not one of {known}. Example: '
                f"{option} '{_EXAMPLES[option]}'"
            )
        if key in values and operator == '=':
            raise exceptions.CommandError(f'{option} {text}: {key} is given twice.')
        if key in _LISTS and operator in ('=', '!='):
            # The API writes a forbidden trait with "!" in front.
            values.setdefault(_LISTS[key], []).append(f'!{value}' if operator == '!=' else value)
        elif key in keys and operator == '=':
            try:
                values[key] = keys[key](value)
            except ValueError as error:
                raise exceptions.CommandError(f'{option} {text}: {key} {error}.') from None
        else:
            compared.append(f'{key}{operator}{value}')
    return values | ({'resources': ','.join(compared)} if compared else {})
