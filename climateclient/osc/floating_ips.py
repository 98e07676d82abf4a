# SPDX-License-Identifier: Apache-2.0
"""The option ``--floating-ips``: floating IPs that the calendar allocates."""

import argparse
import functools
from typing import Any, Final

from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import options, specification

OPTION: Final = specification.Option(
    '--floating-ips',
    resource_types.FLOATING_IP,
    'network=public,amount=2',
    ('network', 'amount', 'address'),
    ('address',),
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    OPTION.add(
        parser,
        'Reserve floating IPs that are registered for leases; address=<address> reserves that '
        'address (repeat for several)',
    )


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; asks Neutron for the ids of networks.

    :raises CommandError: something cannot be read, or is not there
    """
    return OPTION.reservations(parsed_args, functools.partial(_reservation, cmd))


def _reservation(cmd: command.Command, text: str, _name: str | None) -> dict[str, Any]:
    given = OPTION.read(text, {'network': 'name or id'})
    find = options.clients(cmd).sdk_connection.network.find_network
    made: dict[str, Any] = {
        'network_id': OPTION.find(text, 'network', given['network'], find),
    }
    if 'amount' in given:
        made['amount'] = OPTION.number(text, 'amount', given['amount'])
    if 'address' in given:
        made['required_floatingips'] = given['address']
    return made
