# SPDX-License-Identifier: Apache-2.0
"""``openstack lease create``."""

import argparse
import datetime
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import dates
from climateclient.osc import arguments, lease, options

Shown = tuple[tuple[str, ...], tuple[Any, ...]]


class CreateLease(command.ShowOne):
    """Make a lease: reserve resources from a start to an end."""

    _refused = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', help='Name of the lease')
        parser.add_argument(
            '--start',
            '--start-date',
            metavar='<time>',
            default='now',
            help=f'When it starts (default: now): {dates.FORMS}',
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
        options.add_events(parser)
        options.add_terms(parser)
        parser.add_argument(
            '--idempotency-key',
            metavar='<key>',
            help='Known to the service: giving the same command with the same key again makes no '
            'second lease (times must be absolute)',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Only say whether the lease would be granted, and if not, why and from when; the '
            'exit status is 1 then',
        )
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become so')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        limit = options.limit(parsed_args)
        if parsed_args.dry_run and (parsed_args.wait or parsed_args.idempotency_key):
            raise exceptions.CommandError(
                '--dry-run makes no lease: leave out --wait and --idempotency-key.'
            )
        wanted = self._wanted(parsed_args)
        leases = options.leases(self)
        if not parsed_args.dry_run:
            made = leases.create(
                parsed_args.name, idempotency_key=parsed_args.idempotency_key, **wanted
            )
            return lease.shown(self, parsed_args, made, limit)
        from climateclient.osc import output

        check = leases.check(parsed_args.name, **wanted)
        self._refused = not check.granted
        return output.check(check)

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self._refused)

    def _wanted(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """What the lease is to be, as ``create`` and ``check`` take it."""
        start = options.moment('--start', parsed_args.start)
        wanted: dict[str, Any] = {'start': start}
        if parsed_args.end:
            end = wanted['end'] = arguments.time('--end', parsed_args.end)
        else:
            length = wanted['duration'] = arguments.duration('--for', parsed_args.length)
            end = _later(arguments.now() if isinstance(start, str) else start, length)
        wanted |= options.terms(parsed_args)
        wanted['before_end'] = options.before_end(parsed_args, end)
        wanted['events'] = [arguments.event(text) for text in parsed_args.event]
        reservations = options.reservations(parsed_args)
        wanted['reservations'] = reservations + options.named(self, parsed_args)
        return wanted


def _later(start: datetime.datetime, length: datetime.timedelta) -> datetime.datetime:
    try:
        return start + length
    except OverflowError:
        raise exceptions.CommandError('--for: the lease would end after the year 9999.') from None
