# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and what they mean together."""

import argparse
import datetime
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import arguments


def clients(cmd: command.Command) -> Any:
    """The clients of the services, by name: ``climate``, ``compute``."""
    return cmd.app.client_manager


def add_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--server',
        metavar='<server>',
        action='append',
        default=[],
        help='Reserve a server that waits in the status RESERVED: its name or id (repeat for '
        'several)',
    )
    parser.add_argument(
        '--reservation',
        metavar='resource_type=<type>,resource_id=<id>[,<key>=<value>...]',
        action='append',
        default=[],
        help='Reserve a resource of any type; a JSON object is taken too (repeat for several)',
    )
    parser.add_argument(
        '--on-end',
        choices=arguments.ON_END,
        help='What happens to the servers given here when the lease ends (default: as the '
        'service is configured)',
    )


def add_before_end(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--before-end',
        '--before-end-date',
        metavar='<time or duration>',
        help='When to notify that the end is near: a time, or so long before the end',
    )


def add_wait(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument('--wait', action='store_true', help=text)
    parser.add_argument(
        '--timeout', metavar='<duration>', help='Wait so long at most (default: for ever)'
    )


def limit(parsed_args: argparse.Namespace) -> datetime.timedelta | None:
    return arguments.duration('--timeout', parsed_args.timeout) if parsed_args.timeout else None


def span(parsed_args: argparse.Namespace) -> tuple[datetime.datetime | str, datetime.datetime]:
    start = moment('--start', parsed_args.start)
    if parsed_args.end:
        return start, arguments.time('--end', parsed_args.end)
    length = arguments.duration('--for', parsed_args.length)
    base = arguments.now() if isinstance(start, str) else start
    return start, base + length


def moment(option: str, text: str) -> datetime.datetime | str:
    """A time; "now" stays "now", for the service's clock is the one that counts."""
    return 'now' if text.strip().lower() == 'now' else arguments.time(option, text)


def new_end(
    parsed_args: argparse.Namespace, end: datetime.datetime
) -> datetime.datetime | str | None:
    """The new end of a lease that ends then; None if it stays."""
    if parsed_args.end:
        return moment('--end', parsed_args.end)
    if parsed_args.extend:
        return end + arguments.duration('--extend', parsed_args.extend)
    if parsed_args.shorten:
        return end - arguments.duration('--shorten', parsed_args.shorten)
    return None


def before_end(
    parsed_args: argparse.Namespace, end: datetime.datetime | str
) -> datetime.datetime | None:
    text = parsed_args.before_end
    if not text:
        return None
    if text[:1].isdigit() and text[-1:] in 'smhdw':
        base = arguments.now() if isinstance(end, str) else end
        return base - arguments.duration('--before-end', text)
    return arguments.time('--before-end', text)


def reservations(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    result = [arguments.reservation(text) for text in parsed_args.reservation]
    on_end = parsed_args.on_end
    servers = [each for each in result if each.get('resource_type') == arguments.SERVER_TYPE]
    if on_end and not servers and not parsed_args.server:
        raise exceptions.CommandError('--on-end is for servers: give --server or --reservation.')
    for each in servers:
        if on_end:
            each.setdefault('on_end', on_end)
    return result


def servers(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """The reservations of the servers given by --server; asks Nova for their ids."""
    if not parsed_args.server:
        return []
    compute = clients(cmd).compute
    more = {'on_end': parsed_args.on_end} if parsed_args.on_end else {}
    return [
        {
            'resource_type': arguments.SERVER_TYPE,
            'resource_id': compute.find_server(name, ignore_missing=False).id,
            **more,
        }
        for name in parsed_args.server
    ]
