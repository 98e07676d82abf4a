# SPDX-License-Identifier: Apache-2.0
"""The option ``--new-server``: servers that the lease service makes for a lease."""

import argparse
import base64
import functools
import pathlib
from typing import Any, Final

from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import hosts, options, specification

#: Keys that stand for themselves in the body of POST /servers.
_SAME: Final = ('name', 'key_name', 'availability_zone', 'description')
_LISTS: Final = ('network', 'security_group')
OPTION: Final = specification.Option(
    '--new-server',
    resource_types.SERVER,
    'flavor=m1.small,image=cirros,network=shared,count=3',
    (*_SAME, 'flavor', 'image', *_LISTS, 'count', 'user_data', 'server_group'),
    _LISTS,
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    OPTION.add(
        parser,
        'Create servers for the lease, all or none; also name (default: that of the lease),'
        ' key_name, security_group, availability_zone, description, user_data=<file> and '
        'server_group; network=none for no network (repeat for several)',
    )


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; asks the services for ids.

    :raises CommandError: something cannot be read, or is not there
    """
    return OPTION.reservations(parsed_args, functools.partial(_server, cmd))


def _server(cmd: command.Command, text: str, name: str | None) -> dict[str, Any]:
    needed = {'flavor': 'name or id'} | ({} if name else {'name': 'name'})
    given = OPTION.read(text, needed)
    server: dict[str, Any] = {'name': name}
    server |= {key: given[key] for key in _SAME if key in given}
    server['flavorRef'] = hosts.flavor_id(cmd, OPTION.name, text, given['flavor'])
    sdk = options.clients(cmd).sdk_connection
    if 'image' in given:
        server['imageRef'] = OPTION.find(text, 'image', given['image'], sdk.image.find_image)
    if networks := given.get('network'):
        words = networks[0] if networks in (['none'], ['auto']) else None
        find = sdk.network.find_network
        server['networks'] = words or [
            {'uuid': OPTION.find(text, 'network', each, find)} for each in networks
        ]
    if groups := given.get('security_group'):
        server['security_groups'] = [{'name': each} for each in groups]
    if 'count' in given:
        server['count'] = OPTION.number(text, 'count', given['count'])
    if 'server_group' in given:
        group = OPTION.find(
            text, 'server_group', given['server_group'], sdk.compute.find_server_group
        )
        server['scheduler_hints'] = {'group': group}
    if 'user_data' in given:
        server['user_data'] = _file(text, given['user_data'])
    return {'server': server}


def _file(text: str, name: str) -> str:
    try:
        return base64.b64encode(pathlib.Path(name).read_bytes()).decode()
    except OSError as error:
        raise OPTION.wrong(text, f'user_data: {error}') from error
