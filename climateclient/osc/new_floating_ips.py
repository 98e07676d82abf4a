# SPDX-License-Identifier: Apache-2.0
"""The option ``--new-floating-ip``: floating IPs that are created with their lease.

Neutron gives each from the pools of its network, with the rights of the user, as ``openstack
floating ip create`` does. If the lease is refused they are deleted again.
"""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import options

_NAME = '--new-floating-ip'


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        _NAME,
        metavar='<network>',
        action='append',
        default=[],
        help='Create a floating IP on an external network and reserve it, so that it ends with '
        'the lease: name or id of the network (repeat for several)',
    )


def list_types(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of each of the reservations."""
    asked = getattr(parsed_args, 'new_floating_ip', ())
    return [{'resource_type': resource_types.HELD_FLOATING_IP} for _ in asked]


def check(parsed_args: argparse.Namespace) -> None:
    """Refuse what cannot be said together.

    :raises CommandError: the command creates no lease, or perhaps one that is there already
    """
    if parsed_args.new_floating_ip and (parsed_args.dry_run or parsed_args.idempotency_key):
        raise exceptions.CommandError(
            f'{_NAME} creates something each time: leave out --dry-run and --idempotency-key, or '
            'create the floating IP before and give --floating-ip.'
        )


@contextlib.contextmanager
def created(
    cmd: command.Command, parsed_args: argparse.Namespace
) -> Iterator[list[dict[str, Any]]]:
    """Create floating IPs, and give their reservations; delete them if the lease is refused.

    Without an answer of the lease service they stay: the lease may have them.

    :raises openstack.exceptions.SDKException: Neutron refuses one of them, or there is no such
        network
    """
    from openstack import exceptions as sdk_exceptions

    from climateclient import exceptions as lease_exceptions

    made: list[Any] = []
    try:
        for name in parsed_args.new_floating_ip:
            network = options.clients(cmd).sdk_connection.network
            network_id = network.find_network(name, ignore_missing=False).id
            made.append(network.create_ip(floating_network_id=network_id))
        yield [
            {'resource_type': resource_types.FLOATING_IP, 'resource_id': str(each.id)}
            for each in made
        ]
    except (lease_exceptions.ApiError, sdk_exceptions.SDKException):
        for each in made:
            options.clients(cmd).sdk_connection.network.delete_ip(each, ignore_missing=True)
        raise
