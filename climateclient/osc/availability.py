# SPDX-License-Identifier: Apache-2.0
"""``openstack lease availability``."""

import argparse
import sys

from osc_lib import exceptions

from climate_common import dates
from climateclient.osc import arguments, floating_ips, hosts, networks, options, shown

_SERVERS = '--servers'
_NOTHING = (
    'No time with sufficient capacity was found. Use --to to search more than 30 days; openstack '
    'lease create --dry-run with the same options, and with --new-server for --servers, shows the '
    'insufficient resource.'
)


class Availability(shown.Lister):
    """Show the earliest times for a lease of hosts, capacity, floating IPs or networks.

    Times of servers on the hosts of all projects are expected, and not guaranteed. Nothing is
    allocated: the next request may reserve the same capacity.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        hosts.add_options(parser)
        floating_ips.add_option(parser)
        networks.add_option(parser)
        parser.add_argument(
            _SERVERS,
            metavar='flavor=<flavor>[,count=<n>]',
            action='append',
            default=[],
            help='Servers of a flavor on the hosts of all projects: the times are expected, and '
            'not guaranteed (repeat for several)',
        )
        parser.add_argument(
            '--for',
            dest='length',
            metavar='<duration>',
            required=True,
            help=f'Duration of the lease: {dates.DURATION_FORMS}',
        )
        parser.add_argument(
            '--from',
            dest='since',
            metavar='<time>',
            help=f'Earliest start (default: now; not in the past): {dates.FORMS}',
        )
        parser.add_argument(
            '--to',
            dest='until',
            metavar='<time>',
            help='Latest end (default: 30 days after --from)',
        )
        parser.add_argument(
            '--limit', metavar='<number>', type=int, help='Maximum number of results'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import output

        since, until = (
            arguments.time(option, text) if text else None
            for option, text in (('--from', parsed_args.since), ('--to', parsed_args.until))
        )
        length = arguments.duration('--for', parsed_args.length)
        wanted = hosts.reservations(self, parsed_args)
        wanted += floating_ips.reservations(self, parsed_args)
        wanted += networks.reservations(parsed_args)
        wanted += [hosts.servers(self, _SERVERS, text) for text in parsed_args.servers]
        if not wanted:
            raise exceptions.CommandError(
                f'Name the resources to reserve, with {hosts.HOSTS}, {hosts.CAPACITY}, '
                f'--floating-ips, --network or {_SERVERS}.'
            )
        found = options.clients(self).climate.availability(
            wanted, length, since=since, until=until, limit=parsed_args.limit
        )
        if not found:
            print(_NOTHING, file=sys.stderr)
        return ('Start', 'End', 'Guaranteed'), [
            (
                output.EarliestColumn(each.start_date),
                output.TimeColumn(each.end_date),
                each.guaranteed,
            )
            for each in found
        ]
