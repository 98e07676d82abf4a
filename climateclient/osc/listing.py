# SPDX-License-Identifier: Apache-2.0
"""``openstack lease list|history``."""

import argparse
from typing import Any

from climateclient.osc import arguments, options, shown

STATUSES = (
    'WAITING',
    'IN_PROGRESS',
    'PENDING',
    'STARTING',
    'ACTIVE',
    'TERMINATING',
    'TERMINATED',
    'DELETING',
    'ERROR',
    'TIMEDOUT',
)
_SORT = {
    'id': 'id',
    'name': 'name',
    'status': 'status',
    'start': 'start_date',
    'end': 'end_date',
    'created': 'created_at',
    'updated': 'updated_at',
    'project': 'project_id',
}
#: The keys of --sort: short names, and those of the service.
_KEYS = {**_SORT, **{name: name for name in _SORT.values()}}
_SHORT = ('id', 'name', 'status', 'start_date', 'end_date')


class ListLease(shown.Lister):
    """List the leases of the project.

    Tables show times in the local time zone, all other formats as ISO 8601 in UTC.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_filters(parser)
        _add_projects(parser)
        parser.add_argument('--long', action='store_true', help='Show more columns')
        parser.add_argument(
            '--sort',
            metavar='<key>[:<direction>]',
            default='start:asc',
            help='Sort by keys, separated by commas, each with asc or desc: '
            f'{", ".join(_SORT)} (default: start:asc)',
        )
        add_pages(parser, 'lease')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import output

        keys = arguments.sort_keys(parsed_args.sort, tuple(_KEYS))
        leases = options.leases(self).list(
            status=parsed_args.status,
            name=parsed_args.name,
            resource_type=parsed_args.resource_type,
            resource_id=parsed_args.resource_id,
            since=_time(parsed_args, 'since', '--from'),
            until=_time(parsed_args, 'until', '--until'),
            deleted=parsed_args.deleted or None,
            project_id=options.project(self, parsed_args),
            sort=[f'{_KEYS[key]}:{"desc" if descending else "asc"}' for key, descending in keys],
            limit=parsed_args.limit,
            marker=parsed_args.marker,
            fields=None if parsed_args.long else _SHORT,
        )
        columns = output.LONG if parsed_args.long else output.SHORT
        return columns, [output.row(lease, parsed_args.long) for lease in leases]


class HistoryLease(shown.Lister):
    """Show the history of a lease: changes with their users, events, and the results of events.

    The history of a deleted lease is stored for a while.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        parser.add_argument('--long', action='store_true', help='Show more columns')
        add_pages(parser, 'entry')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.leases import is_uuid
        from climateclient.osc import output

        leases = options.leases(self)
        lease_id = parsed_args.lease
        if not is_uuid(lease_id):
            lease_id = leases.find(lease_id, deleted=True).id
        entries = leases.history(lease_id, limit=parsed_args.limit, marker=parsed_args.marker)
        columns = output.HISTORY_LONG if parsed_args.long else output.HISTORY
        return columns, [output.entry(each, parsed_args.long) for each in entries]


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--status',
        metavar='<status>',
        type=str.upper,
        choices=STATUSES,
        action='append',
        help=f'Only leases of this status (repeat for several): {", ".join(STATUSES)}',
    )
    parser.add_argument('--name', metavar='<name>', help='Only leases of this name')
    parser.add_argument(
        '--resource-type', metavar='<type>', help='Only leases with a reservation of this type'
    )
    parser.add_argument(
        '--resource-id', metavar='<id>', help='Only leases with a reservation of this resource'
    )
    parser.add_argument(
        '--from',
        dest='since',
        metavar='<time>',
        help='Only leases that end after this time',
    )
    parser.add_argument(
        '--until', metavar='<time>', help='Only leases that start before this time'
    )
    parser.add_argument('--deleted', action='store_true', help='List deleted leases')


def _add_projects(parser: argparse.ArgumentParser) -> None:
    projects = parser.add_mutually_exclusive_group()
    projects.add_argument(
        '--project',
        metavar='<project>',
        help="Another project's leases (name or id; administrators)",
    )
    projects.add_argument(
        '--all-projects', action='store_true', help="All projects' leases (administrators)"
    )


def add_pages(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the options of a list that has pages."""
    parser.add_argument(
        '--limit',
        metavar='<number>',
        type=_positive,
        help='Maximum number of results (default: all)',
    )
    parser.add_argument(
        '--marker', metavar='<id>', help=f'Show the results after the {what} with this id'
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_positive.__name__ = 'positive number'  # the words of argparse for a wrong value


def _time(parsed_args: argparse.Namespace, name: str, option: str) -> Any:
    text = getattr(parsed_args, name)
    return arguments.time(option, text) if text else None
