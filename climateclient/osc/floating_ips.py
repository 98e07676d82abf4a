# SPDX-License-Identifier: Apache-2.0
"""The option ``--floating-ips``: floating IPs that the calendar promises."""

import argparse
from typing import Any, Final

from osc_lib.command import command

from climate_common import resource_types
from climateclient.osc import options, specification

_OPTION: Final = specification.Option(
    '--floating-ips', 'network=public,amount=2', ('network', 'amount', 'address'), ('address',)
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        _OPTION.name,
        metavar=_OPTION.metavar,
        action='append',
        default=[],
        help='Reserve floating IPs that are set apart for leases; address=<address> for a certain '
        'one, as often as there are some (repeat for several)',
    )


def kinds(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of each of the reservations."""
    return [{'resource_type': resource_types.FLOATING_IP}] * len(parsed_args.floating_ips)


def reservations(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option; asks Neutron for the ids of networks.

    :raises CommandError: something cannot be read, or is not there
    """
    return [_reservation(cmd, text) for text in parsed_args.floating_ips]


def _reservation(cmd: command.Command, text: str) -> dict[str, Any]:
    given = _OPTION.read(text, {'network': 'name or id'})
    find = options.clients(cmd).sdk_connection.network.find_network
    made: dict[str, Any] = {
        'resource_type': resource_types.FLOATING_IP,
        'network_id': _OPTION.find(text, 'network', given['network'], find),
    }
    if 'amount' in given:
        made['amount'] = _OPTION.number(text, 'amount', given['amount'])
    if 'address' in given:
        made['required_floatingips'] = given['address']
    return made
