# SPDX-License-Identifier: Apache-2.0
"""The option ``--new-volume``: volumes that the lease service makes for a lease."""

import argparse
from typing import Any, Final

from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import options, specification

#: Keys that stand for themselves in the body of POST /volumes.
_SAME: Final = ('name', 'availability_zone', 'description')
_OPTION: Final = specification.Option(
    '--new-volume',
    'size=10,type=ssd,count=2',
    ('size', *_SAME, 'type', 'image', 'snapshot', 'source', 'count'),
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        _OPTION.name,
        dest='new_volume',
        metavar=_OPTION.metavar,
        action='append',
        default=[],
        help='Have volumes made for the lease, all or none, of so many GiB; also name (default: '
        'that of the lease), image, snapshot, source (a volume), availability_zone, description '
        '(repeat for several)',
    )


def kinds(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of each of the reservations."""
    return [{'resource_type': resource_types.VOLUME}] * len(parsed_args.new_volume)


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; asks the services for ids.

    :raises CommandError: something cannot be read, or is not there
    """
    name = getattr(parsed_args, 'name', None)
    return [
        {'resource_type': resource_types.VOLUME, 'volume': _volume(cmd, text, name)}
        for text in parsed_args.new_volume
    ]


def _volume(cmd: command.Command, text: str, name: str | None) -> dict[str, Any]:
    given = _OPTION.read(text, {'size': 'GiB'} if name else {'size': 'GiB', 'name': 'name'})
    volume: dict[str, Any] = {'name': name}
    volume |= {key: given[key] for key in _SAME if key in given}
    volume |= {
        key: _OPTION.number(text, key, given[key]) for key in ('size', 'count') if key in given
    }
    if 'type' in given:
        # Cinder takes its name as well as its id.
        volume['volume_type'] = given['type']
    sdk = options.clients(cmd).sdk_connection
    finders = {
        'image': ('imageRef', lambda: sdk.image.find_image),
        'snapshot': ('snapshot_id', lambda: sdk.volume.find_snapshot),
        'source': ('source_volid', lambda: sdk.volume.find_volume),
    }
    for key, (field, find) in finders.items():
        if key in given:
            volume[field] = _OPTION.find(text, key, given[key], find())
    return volume
