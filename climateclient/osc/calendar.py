# SPDX-License-Identifier: Apache-2.0
"""``openstack lease calendar``."""

import argparse
import datetime
import sys
from typing import Any, Final

from climateclient.osc import options, shown

_DAYS: Final = 92


class Calendar(shown.Lister):
    """Show the reservations of the project as a timeline.

    The timeline is in the local time zone, which it names, with a mark at each midnight. A
    terminal shows the days that fit; a pipe or file gets all of them as plain text. All formats
    but tables show times as ISO 8601 in UTC.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--days',
            metavar='<number>',
            type=_days,
            default=7,
            help=f'Number of days from now on, 1 to {_DAYS} (default: 7)',
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            '--hosts',
            dest='of_hosts',
            action='store_true',
            help='Show the hosts and their allocations instead of leases (administrators)',
        )
        which.add_argument(
            '--all-projects', action='store_true', help="All projects' leases (administrators)"
        )
        return parser

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Draw on a terminal, where there are colours; write plain text elsewhere."""
        if parsed_args.formatter != 'table' or not self.app.stdout.isatty():
            code: int = super().produce_output(parsed_args, column_names, data)
            return code
        from climateclient.osc import calendar_output as output

        output.draw(column_names, data, self.app.stdout)
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import calendar_output as output

        calendar = options.clients(self).climate.calendar
        since = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
        span = output.Span(since, since + datetime.timedelta(days=parsed_args.days))
        is_table, on_terminal = parsed_args.formatter == 'table', self.app.stdout.isatty()
        if parsed_args.of_hosts:
            hosts = list(calendar.hosts(since=span.since, until=span.until))
            if is_table:
                return output.HOSTS, output.hosts(hosts, span, on_terminal)
            return output.HOSTS_LONG, output.hosts_long(hosts)
        every = parsed_args.all_projects or None
        bars = list(calendar.bars(since=span.since, until=span.until, all_projects=every))
        if not bars:
            print(f'Nothing is reserved in these {parsed_args.days} days.', file=sys.stderr)
        if is_table:
            if legend := output.legend(bars, on_terminal):
                print(legend, file=sys.stderr)
            return output.LEASES, output.leases(bars, span, on_terminal)
        return output.LEASES_LONG, output.leases_long(bars)


def _days(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _DAYS:
        raise ValueError(text)
    return number


_days.__name__ = f'number from 1 to {_DAYS}'  # the words of argparse for a wrong value
