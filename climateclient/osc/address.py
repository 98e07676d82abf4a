# SPDX-License-Identifier: Apache-2.0
"""``openstack lease address ...``: floating IPs registered for leases, for operators."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import listing, options, ranges, shown

if TYPE_CHECKING:
    from climateclient.floatingips import FloatingIp, FloatingIps


_COLUMNS: Final = ('ID', 'Address', 'Network', 'Reservable')
#: The places of the id and of the address.
_COUNTED: Final = (0, 1)


class CreateAddress(shown.Lister):
    """Register addresses of an external network for leases, all of them or none.

    They must be in a subnet of it, in no allocation pool, not the gateway, and unused.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_network(parser, required=True)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument('address', metavar='<address>', nargs='?', help='One IPv4 address')
        which.add_argument('--range', metavar='<first>-<last>', help='Range of addresses')
        ranges.add_each(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        network_id, client = _network_id(self, parsed_args), _client(self)
        if parsed_args.range is None:
            return _COLUMNS, [_row(client.create(network_id, parsed_args.address))]
        first, dash, last = parsed_args.range.partition('-')
        if not dash:
            raise exceptions.CommandError(
                f'--range {parsed_args.range}: right would be: --range 203.0.113.20-203.0.113.99'
            )
        made = client.create_range(network_id, first, last)
        return _COLUMNS, ranges.join(parsed_args, map(_row, made), _COUNTED)


class ListAddress(shown.Lister):
    """List the floating IPs that are registered for leases."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_network(parser, required=False)
        listing.add_pages(parser, 'address')
        ranges.add_each(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        network_id = _network_id(self, parsed_args) if parsed_args.network else None
        found = _client(self).list(
            network_id=network_id, limit=parsed_args.limit, marker=parsed_args.marker
        )
        return _COLUMNS, ranges.join(parsed_args, map(_row, found), _COUNTED)


class ShowAddress(shown.ShowOne):
    """Show a floating IP that is registered for leases."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_address(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc.output import TimeColumn

        found = _client(self).find(parsed_args.address)
        columns = ('id', 'address', 'network', 'subnet', 'reservable', 'created_at')
        return columns, (
            found.id,
            found.floating_ip_address,
            found.floating_network_id,
            found.subnet_id,
            found.reservable,
            TimeColumn(found.created_at),
        )


class DeleteAddress(shown.Command):
    """Unregister floating IPs from leases; nothing changes in Neutron.

    A range is two addresses, or two ids. Allocated floating IPs are not removed, and are named.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_address(super().get_parser(prog_name), nargs='+')

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        ranges.delete(_client(self), parsed_args.address, 'addresses', self.log)


def _add_network(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        '--network', metavar='<network>', required=required, help='External network: name or id'
    )


def _add_address(
    parser: argparse.ArgumentParser, nargs: str | None = None
) -> argparse.ArgumentParser:
    parser.add_argument('address', metavar='<address>', nargs=nargs, help='Address or its id')
    return parser


def _client(cmd: command.Command) -> 'FloatingIps':
    client: FloatingIps = options.clients(cmd).climate.floatingips
    return client


def _network_id(cmd: command.Command, parsed_args: argparse.Namespace) -> str:
    find = options.clients(cmd).sdk_connection.network.find_network
    return str(find(parsed_args.network, ignore_missing=False).id)


def _row(one: 'FloatingIp') -> tuple[Any, ...]:
    return one.id, one.floating_ip_address, one.floating_network_id, one.reservable
