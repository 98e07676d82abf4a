# SPDX-License-Identifier: Apache-2.0
"""``openstack lease create|list|show|set|delete``."""

import argparse
import datetime
import sys
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climateclient import times
from climateclient.osc import arguments, options

STATUSES = (
    'PENDING',
    'STARTING',
    'ACTIVE',
    'UPDATING',
    'TERMINATING',
    'TERMINATED',
    'DELETING',
    'ERROR',
)
_SORT = {
    'id': 'id',
    'name': 'name',
    'status': 'status',
    'start': 'start_date',
    'end': 'end_date',
    'created': 'created_at',
    'project': 'project_id',
}


class CreateLease(command.ShowOne):
    """Make a lease: reserve resources from a start to an end."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', help='Name of the lease')
        parser.add_argument(
            '--start',
            '--start-date',
            metavar='<time>',
            default='now',
            help=f'When it starts (default: now): {times.TIME_FORMS}',
        )
        end = parser.add_mutually_exclusive_group(required=True)
        end.add_argument('--end', '--end-date', metavar='<time>', help='When it ends')
        end.add_argument(
            '--for',
            dest='length',
            metavar='<duration>',
            help='How long it lasts: 90m, 3h, 2d, 1w, 1d12h (a day is 24 hours)',
        )
        options.add_before_end(parser)
        options.add_resources(parser)
        parser.add_argument(
            '--event',
            metavar='type=<name>,time=<time>',
            action='append',
            default=[],
            help='Send the notification lease.event.<name> at a time (repeat for several)',
        )
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become so')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        start, end = options.span(parsed_args)
        limit = options.limit(parsed_args)
        reservations = options.reservations(parsed_args)
        events = [arguments.event(text) for text in parsed_args.event]
        before_end = options.before_end(parsed_args, end)
        reservations += options.servers(self, parsed_args)
        lease = _leases(self).create(
            parsed_args.name,
            end,
            start,
            reservations=reservations,
            events=events,
            before_end=before_end,
        )
        return _shown(self, parsed_args, lease, limit)


class ListLease(command.Lister):
    """List the leases of the project.

    Tables show times in the local time zone, all other formats as ISO 8601 in UTC.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--status',
            metavar='<status>',
            type=str.upper,
            choices=STATUSES,
            action='append',
            help=f'Only leases of this status (repeat for several): {", ".join(STATUSES)}',
        )
        parser.add_argument('--long', action='store_true', help='Show more columns')
        parser.add_argument(
            '--sort',
            metavar='<key>[:<direction>]',
            default='start:asc',
            help='Sort by keys, separated by commas, each with asc or desc: '
            f'{", ".join(_SORT)} (default: start:asc)',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        from climateclient.osc import output

        keys = arguments.sort_keys(parsed_args.sort, tuple(_SORT))
        leases = _leases(self).list()
        if parsed_args.status:
            leases = [lease for lease in leases if lease.status in parsed_args.status]
        for key, descending in reversed(keys):
            leases.sort(key=lambda lease: _sortable(lease, _SORT[key]), reverse=descending)
        columns = output.LONG if parsed_args.long else output.SHORT
        return columns, [output.row(lease, parsed_args.long) for lease in leases]


class ShowLease(command.ShowOne):
    """Show a lease with its reservations and events.

    The table shows times in the local time zone, all other formats as ISO 8601 in UTC.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('lease', metavar='<lease>', help='Name or id of the lease')
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become so')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        limit = options.limit(parsed_args)
        lease = _leases(self).find(parsed_args.lease)
        return _shown(self, parsed_args, lease, limit)


class SetLease(command.ShowOne):
    """Change a lease, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('lease', metavar='<lease>', help='Name or id of the lease')
        parser.add_argument('--name', metavar='<name>', help='New name')
        parser.add_argument(
            '--start', '--start-date', metavar='<time>', help=f'New start: {times.TIME_FORMS}'
        )
        end = parser.add_mutually_exclusive_group()
        end.add_argument('--end', '--end-date', metavar='<time>', help='New end')
        end.add_argument(
            '--extend',
            '--prolong-for',
            metavar='<duration>',
            help='Let it end later: 90m, 3h, 2d, 1w, 1d12h',
        )
        end.add_argument(
            '--shorten', '--reduce-by', metavar='<duration>', help='Let it end earlier'
        )
        options.add_before_end(parser)
        options.add_resources(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        from climateclient.osc import output

        leases = _leases(self)
        start = options.moment('--start', parsed_args.start) if parsed_args.start else None
        added = options.reservations(parsed_args)
        lease = leases.find(parsed_args.lease)
        end = options.new_end(parsed_args, lease.end_date)
        changes = {
            'name': parsed_args.name,
            'start': start,
            'end': end,
            'before_end': options.before_end(parsed_args, end or lease.end_date),
        }
        added += options.servers(self, parsed_args)
        if any(changes.values()):
            # A change that was computed from what was read must not meet another lease.
            relative = parsed_args.extend or parsed_args.shorten or parsed_args.before_end
            seen = lease.generation if relative else None
            lease = leases.update(lease.id, **changes, generation=seen)
        elif not added:
            raise exceptions.CommandError('Nothing to change: give what to set.')
        for each in added:
            leases.add_reservation(lease.id, **each)
        return output.show(leases.get(lease.id) if added else lease)


class DeleteLease(command.Command):
    """Delete leases; what they hold is ended first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'lease', metavar='<lease>', nargs='+', help='Names or ids of the leases'
        )
        options.add_wait(parser, 'Wait until the leases are gone')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from keystoneauth1.exceptions import ClientException

        limit = options.limit(parsed_args)
        leases = _leases(self)
        deleted, failed = [], 0
        for name in dict.fromkeys(parsed_args.lease):
            try:
                lease = leases.find(name)
                leases.delete(lease.id)
                deleted.append(lease)
            except ClientException as error:
                failed += 1
                self.log.error('%s: %s', name, error)
        if parsed_args.wait:
            failed += sum(not self._gone(lease.id, limit) for lease in deleted)
        if failed:
            total = len(dict.fromkeys(parsed_args.lease))
            raise exceptions.CommandError(f'{failed} of {total} leases could not be deleted.')

    def _gone(self, lease_id: str, limit: datetime.timedelta | None) -> bool:
        from climateclient.osc import wait

        leases = _leases(self)
        try:
            with wait.progress(sys.stderr) as report:
                wait.for_deletion(lambda: leases.get(lease_id), report, limit)
        except exceptions.CommandError as error:
            self.log.error('%s', error)
            return False
        return True


def _shown(
    cmd: command.Command,
    parsed_args: argparse.Namespace,
    lease: Any,
    limit: datetime.timedelta | None,
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    from climateclient.osc import output, wait

    if parsed_args.wait:
        leases = _leases(cmd)
        with wait.progress(sys.stderr) as report:
            lease = wait.for_start(lambda: leases.get(lease.id), report, limit)
    return output.show(lease)


def _leases(cmd: command.Command) -> Any:
    return options.clients(cmd).climate.leases


def _sortable(lease: Any, field: str) -> tuple[bool, Any]:
    value = getattr(lease, field)
    return (value is None, value)
