# SPDX-License-Identifier: Apache-2.0
"""``openstack lease usage|limits|plugins``."""

import argparse
import sys

from osc_lib.command import command

from climate_common import dates
from climateclient.osc import arguments, options, shown


class Usage(shown.Lister):
    """Show the reserved and the used hours of a period.

    Tables have a row for each amount that is not zero; all other formats have one row for each
    project, or each week and project with --planned, with all amounts.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--start', metavar='<time>', help=f'Start of the period: {dates.FORMS}'
        )
        parser.add_argument('--end', metavar='<time>', help='End of the period')
        parser.add_argument(
            '--planned',
            action='store_true',
            help='Show each week, by default from 4 weeks ago until 8 weeks ahead, with the '
            'future usage of granted leases',
        )
        _add_project(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import output

        start, end = (
            arguments.time(option, text) if text else None
            for option, text in (('--start', parsed_args.start), ('--end', parsed_args.end))
        )
        rows = options.clients(self).climate.usage(
            start,
            end,
            project_id=_project(self, parsed_args),
            planned=parsed_args.planned or None,
        )
        planned = parsed_args.planned
        if parsed_args.formatter == 'table':
            amounts = [row for each in rows for row in output.usage_amounts(each, planned)]
            if not amounts:
                print('Nothing was reserved in this period.', file=sys.stderr)
            return output.usage_amount_names(planned), amounts
        return output.usage_names(planned), [output.usage(each, planned) for each in rows]


class Limits(shown.Lister):
    """Show the limits and the usage of reservations of the project (-1: unlimited)."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_project(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        rows = options.clients(self).climate.limits(project_id=_project(self, parsed_args))
        return ('Resource', 'Limit', 'Used'), [(each.name, each.limit, each.used) for each in rows]


class Plugins(shown.Lister):
    """List the resource types that can be reserved."""

    def take_action(self, _parsed_args: argparse.Namespace) -> shown.Rows:
        rows = options.clients(self).climate.plugins()
        columns = ('Resource type', 'Title', 'Description')
        return columns, [(each.resource_type, each.title, each.description) for each in rows]


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--project', metavar='<project>', help='Another project (name or id; administrators)'
    )


def _project(cmd: command.Command, parsed_args: argparse.Namespace) -> str | None:
    return options.project_id(cmd, parsed_args.project) if parsed_args.project else None
