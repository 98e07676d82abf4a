# SPDX-License-Identifier: Apache-2.0
"""The option ``--new-volume``: volumes that the lease service makes for a lease."""

import argparse
import functools
from typing import Any, Final

from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import options, specification

#: Keys that stand for themselves in the body of POST /volumes.
_SAME: Final = ('name', 'availability_zone', 'description')
OPTION: Final = specification.Option(
    '--new-volume',
    resource_types.VOLUME,
    'size=10,type=ssd,count=2',
    ('size', *_SAME, 'type', 'image', 'snapshot', 'source', 'count'),
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    OPTION.add(
        parser,
        'Create volumes of this size in GiB for the lease, all or none; also name (default:'
        ' that of the lease), image, snapshot, source (a volume), availability_zone, '
        'description (repeat for several)',
    )


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; asks the services for ids.

    :raises CommandError: something cannot be read, or is not there
    """
    return OPTION.reservations(parsed_args, functools.partial(_volume, cmd))


def _volume(cmd: command.Command, text: str, name: str | None) -> dict[str, Any]:
    given = OPTION.read(text, {'size': 'GiB'} if name else {'size': 'GiB', 'name': 'name'})
    volume: dict[str, Any] = {'name': name}
    volume |= {key: given[key] for key in _SAME if key in given}
    volume |= {
        key: OPTION.number(text, key, given[key]) for key in ('size', 'count') if key in given
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
            volume[field] = OPTION.find(text, key, given[key], find())
    return {'volume': volume}
