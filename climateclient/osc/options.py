# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have: how they are added, and how they are read."""

import argparse
import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import dates, lease_fields, limits
from climateclient.osc import arguments

_PROJECT_ID = re.compile(r'[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


def clients(cmd: command.Command) -> Any:
    """Return the clients of the services, by name: ``climate``, ``compute``."""
    return cmd.app.client_manager


def leases(cmd: command.Command) -> Any:
    """Return the calls about leases."""
    return clients(cmd).climate.leases


def add_before_end(parser: argparse.ArgumentParser) -> None:
    """Add the option of the time of the notification before the end."""
    parser.add_argument(
        '--before-end',
        '--before-end-date',
        metavar='<time or duration>',
        help='When to notify before the end: a time, or a duration before the end',
    )


def add_priority(parser: argparse.ArgumentParser) -> None:
    """Add the option of the priority of a lease that waits."""
    parser.add_argument(
        '--priority',
        metavar='<0-9>',
        type=int,
        choices=range(limits.PRIORITY + 1),
        help='Priority in the queue: higher values come first (administrators by default)',
    )


def add_terms(parser: argparse.ArgumentParser) -> None:
    """Add the options of how a lease starts and which notices it has."""
    parser.add_argument(
        '--start-policy',
        choices=('auto', 'manual'),
        help='Whether the lease starts automatically at its start, or the user is notified and '
        'starts it with "openstack lease start"',
    )
    parser.add_argument(
        '--tell-before-start',
        metavar='<duration>[,...]',
        action='append',
        help='Notify these durations before the start: 1h,10m (repeat for several)',
    )
    parser.add_argument(
        '--webhook',
        metavar='<url>',
        help='URL to which the signed notifications of this lease are sent',
    )
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        '--webhook-secret-file',
        metavar='<file>',
        help='File with the secret that signs the notifications, "-" for the standard input '
        f'(default: the variable {arguments.SECRET_VARIABLE})',
    )
    secret.add_argument(
        '--webhook-secret',
        metavar='<secret>',
        help='Secret that signs the notifications; other users of this machine may see it',
    )
    parser.add_argument(
        '--webhook-event',
        metavar='<pattern>',
        action='append',
        help='Send only these notifications to the webhook, such as lease.event.* (repeat for '
        'several)',
    )
    for field in lease_fields.GENERIC:
        parser.add_argument(
            '--' + field.name.replace('_', '-'),
            metavar=None if field.choices else _METAVARS[field.type],
            choices=field.choices or None,
            type=_READERS.get(field.type, str),
            help=field.description,
        )


def _boolean(text: str) -> bool:
    if text not in ('true', 'false'):
        raise argparse.ArgumentTypeError(f'"{text}" must be true or false')
    return text == 'true'


#: A type of a generic field -> how its option shows and reads a value.
_METAVARS: Final = {
    lease_fields.TEXT: '<text>',
    lease_fields.INTEGER: '<integer>',
    lease_fields.BOOLEAN: '<true|false>',
}
_READERS: Final[Mapping[str, Any]] = {
    lease_fields.INTEGER: int,
    lease_fields.BOOLEAN: _boolean,
}


def add_events(parser: argparse.ArgumentParser) -> None:
    """Add the option of events that users name themselves."""
    parser.add_argument(
        '--event',
        metavar='type=<name>,time=<time>',
        action='append',
        default=[],
        help='Send the notification lease.event.<name> at a time (repeat for several)',
    )


def add_lease(parser: argparse.ArgumentParser) -> None:
    """Add the argument of a lease."""
    parser.add_argument('lease', metavar='<lease>', help='Name or id of the lease')


def add_wait(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the options of waiting for a lease.

    :param text: the help of ``--wait``
    """
    parser.add_argument('--wait', action='store_true', help=text)
    parser.add_argument(
        '--timeout', metavar='<duration>', help='Maximum time to wait (default: no limit)'
    )


def limit(parsed_args: argparse.Namespace) -> datetime.timedelta | None:
    """Read how long to wait at most; None: for ever."""
    return arguments.duration('--timeout', parsed_args.timeout) if parsed_args.timeout else None


def terms(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Read what :func:`add_terms` adds, as ``create`` and ``update`` of a lease take it."""
    texts = parsed_args.tell_before_start
    result = {
        'start_policy': parsed_args.start_policy,
        'before_start': arguments.seconds('--tell-before-start', texts) if texts else None,
        'webhook': _webhook(parsed_args),
        **{field.name: getattr(parsed_args, field.name) for field in lease_fields.GENERIC},
    }
    return {key: value for key, value in result.items() if value is not None}


def _webhook(parsed_args: argparse.Namespace) -> dict[str, Any] | None:
    text, file = parsed_args.webhook_secret, parsed_args.webhook_secret_file
    patterns = parsed_args.webhook_event
    if not parsed_args.webhook:
        if text or file or patterns:
            raise exceptions.CommandError('--webhook-...: the URL is missing: give --webhook.')
        return None
    webhook = {'url': parsed_args.webhook, 'secret': arguments.secret(text, file)}
    return webhook | ({'events': patterns} if patterns else {})


def moment(option: str, text: str) -> datetime.datetime | str:
    """Read a time; "now" stays "now", because the service's clock is the one that counts."""
    return 'now' if text.strip().lower() == 'now' else arguments.time(option, text)


def new_end(
    parsed_args: argparse.Namespace, end: datetime.datetime
) -> datetime.datetime | str | None:
    """Read the new end of a lease that ends then; None if it stays."""
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
    """Read the time of the notification before the end: a time, or a duration before the end.

    :param end: the end of the lease; a text is "now"
    """
    text = parsed_args.before_end
    if not text:
        return None
    try:
        duration = dates.parse_duration(text)
    except dates.DurationError:
        return arguments.time('--before-end', text)
    return (arguments.now() if isinstance(end, str) else end) - duration


def project(cmd: command.Command, parsed_args: argparse.Namespace) -> str | None:
    """Return the id of the project that is given or of the user's own; None for all projects."""
    if parsed_args.all_projects:
        return None
    if parsed_args.project:
        return project_id(cmd, parsed_args.project)
    auth_ref = clients(cmd).auth_ref
    return auth_ref.project_id if auth_ref else None


def project_id(cmd: command.Command, name_or_id: str) -> str:
    """Return the id of a project; only a name is looked up in Keystone."""
    if _PROJECT_ID.fullmatch(name_or_id):
        return name_or_id
    identity = clients(cmd).sdk_connection.identity
    return str(identity.find_project(name_or_id, ignore_missing=False).id)


def domain_id(cmd: command.Command, name_or_id: str) -> str:
    """Return the id of a domain; only a name is looked up in Keystone."""
    if _PROJECT_ID.fullmatch(name_or_id):
        return name_or_id
    identity = clients(cmd).sdk_connection.identity
    return str(identity.find_domain(name_or_id, ignore_missing=False).id)
