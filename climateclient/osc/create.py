# SPDX-License-Identifier: Apache-2.0
"""``openstack lease create``."""

import argparse
from typing import Any

from osc_lib import exceptions

from climate_common import dates, limits
from climateclient.osc import arguments, lease, new_floating_ips, options, resources, shown


class CreateLease(shown.ShowOne):
    """Create a lease: reserve resources from a start to an end."""

    _refused = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', help='Name of the lease')
        parser.add_argument(
            '--start',
            '--start-date',
            metavar='<time>',
            default='now',
            help=f'Start (default: now): {dates.FORMS}',
        )
        end = parser.add_mutually_exclusive_group(required=True)
        end.add_argument('--end', '--end-date', metavar='<time>', help='End')
        end.add_argument(
            '--for',
            dest='length',
            metavar='<duration>',
            help=f'Duration: {dates.DURATION_FORMS}',
        )
        options.add_before_end(parser)
        resources.add_resources(parser)
        new_floating_ips.add_option(parser)
        options.add_events(parser)
        _add_kind(parser)
        options.add_priority(parser)
        parser.add_argument(
            '--preemptible',
            action='store_true',
            help='Let other leases preempt this one: it loses its hosts, its capacity or its '
            'servers, and is queued until capacity is sufficient again',
        )
        options.add_terms(parser)
        parser.add_argument(
            '--idempotency-key',
            metavar='<key>',
            help='Key of this request: a repeated command with the same key creates no second '
            'lease (times must be absolute)',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Only show whether the lease would be granted; if not, show why and from when '
            'it would be, with exit status 1',
        )
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become ACTIVE')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        limit = options.limit(parsed_args)
        if parsed_args.dry_run and (parsed_args.wait or parsed_args.idempotency_key):
            raise exceptions.CommandError(
                '--dry-run makes no lease: leave out --wait and --idempotency-key.'
            )
        new_floating_ips.check(parsed_args)
        properties = self._properties(parsed_args)
        leases = options.leases(self)
        if not parsed_args.dry_run:
            with new_floating_ips.created(self, parsed_args) as added:
                properties['reservations'] += [
                    resources.on_end(parsed_args, each) | each for each in added
                ]
                made = leases.create(
                    parsed_args.name, idempotency_key=parsed_args.idempotency_key, **properties
                )
            return lease.show_lease(self, parsed_args, made, limit)
        from climateclient.osc import output

        result = leases.dry_run(parsed_args.name, **properties)
        self._refused = not (result.granted or result.waits)
        return output.dry_run(result, parsed_args.kind)

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self._refused)

    def _properties(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the properties of the lease, as ``create`` and ``dry_run`` take them."""
        start = options.moment('--start', parsed_args.start)
        properties: dict[str, Any] = {'start': start}
        if parsed_args.end:
            end = properties['end'] = arguments.time('--end', parsed_args.end)
        else:
            length = properties['duration'] = arguments.duration('--for', parsed_args.length)
            base = arguments.now() if isinstance(start, str) else start
            end = arguments.checked('--for', lambda: dates.add_duration(base, length))
        properties |= options.terms(parsed_args) | _kind(parsed_args)
        properties['before_end'] = options.before_end(parsed_args, end)
        properties['events'] = [arguments.event(text) for text in parsed_args.event]
        reservations = resources.reservations(parsed_args)
        properties['reservations'] = reservations + resources.named(self, parsed_args)
        return properties


def _add_kind(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--kind',
        choices=limits.KINDS,
        help='Kind of the lease. If capacity is insufficient, the request is rejected '
        '(immediate, scheduled), the lease is queued (retry; for hosts, capacity, floating '
        'IPs, networks, new servers and new volumes), or shared hosts are drained '
        '(best_effort; only for hosts)',
    )
    parser.add_argument(
        '--best-effort-timeout',
        metavar='<seconds>',
        type=int,
        help='Maximum number of seconds to drain hosts for a lease of the kind best_effort',
    )
    parser.add_argument(
        '--max-retries',
        metavar='<number>',
        type=int,
        help='Maximum number of retries of a lease of the kind retry',
    )


def _kind(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Read the kind of the lease, and whether it is preemptible, as far as it is given."""
    given: dict[str, Any] = {'kind': parsed_args.kind} if parsed_args.kind else {}
    if parsed_args.preemptible:
        given['preemptible'] = True
    only = {
        'max_retries': ('retry', '--max-retries: only a lease of --kind retry waits.'),
        'priority': ('retry', '--priority: only a lease of --kind retry waits.'),
        'best_effort_timeout': (
            'best_effort',
            '--best-effort-timeout: hosts are only drained for a lease of --kind best_effort.',
        ),
    }
    for name, (kind, error) in only.items():
        value = getattr(parsed_args, name)
        if value is None:
            continue
        if parsed_args.kind != kind:
            raise exceptions.CommandError(error)
        given[name] = value
    return given
