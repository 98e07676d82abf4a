# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and what they mean together."""

import argparse
import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import durations
from climateclient.osc import arguments, stack_template

_PROJECT_ID = re.compile(r'[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')

_NOUNS = tuple(arguments.NOUNS.items())


def clients(cmd: command.Command) -> Any:
    """The clients of the services, by name: ``climate``, ``compute``."""
    return cmd.app.client_manager


def leases(cmd: command.Command) -> Any:
    """The calls about leases."""
    return clients(cmd).climate.leases


def add_resources(parser: argparse.ArgumentParser, or_id: bool = False) -> None:
    """Options for what a lease holds; with ``or_id`` what it holds can be changed, too."""
    change = '; with id=<id> instead, change a reservation of the lease' if or_id else ''
    parser.add_argument(
        '--server',
        metavar='<server>',
        action='append',
        default=[],
        help='Reserve a server that waits in the status RESERVED: its name or id (repeat for '
        'several)',
    )
    parser.add_argument(
        '--volume',
        metavar='<volume>',
        action='append',
        default=[],
        help='Reserve a volume that waits in the status lease-reserved: its name or id (repeat '
        'for several)',
    )
    parser.add_argument(
        '--stack',
        metavar='<stack>',
        action='append',
        default=[],
        help='Reserve a stack of Heat with servers or volumes that are reserved: its name or id '
        '(repeat for several)',
    )
    stack_template.add(parser)
    parser.add_argument(
        '--reservation',
        metavar='resource_type=<type>,resource_id=<id>[,<key>=<value>...]',
        action='append',
        default=[],
        help='Reserve a resource of any type; a JSON object is taken too (repeat for several)'
        + change,
    )
    add_on_end(
        parser,
        'What happens to what is given here when the lease ends (default: as the service is '
        'configured)' + ('; if none is given, to those that the lease has' if or_id else ''),
    )


def add_on_end(parser: argparse.ArgumentParser, text: str) -> None:
    """Option for what happens at the end; :func:`on_end` says what it means for a resource."""
    words = [f'{noun}: {", ".join(arguments.ON_END[kind])}' for kind, noun in _NOUNS]
    parser.add_argument(
        '--on-end',
        metavar='<action>',
        choices=list(dict.fromkeys(word for kind, _ in _NOUNS for word in arguments.ON_END[kind])),
        action='append',
        default=[],
        help=f'{text}. {"; ".join(words)}. A resource takes the last one that it knows (repeat to '
        'say it for each type)',
    )


def add_before_end(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--before-end',
        '--before-end-date',
        metavar='<time or duration>',
        help='When to notify that the end is near: a time, or so long before the end',
    )


def add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--start-policy',
        choices=('auto', 'manual'),
        help='Whether the lease starts by itself at its start, or the user is told then and '
        'starts it with "openstack lease start"',
    )
    parser.add_argument(
        '--tell-before-start',
        metavar='<duration>[,...]',
        action='append',
        help='Notify so long before the start: 1h,10m (repeat for several)',
    )
    parser.add_argument(
        '--webhook', metavar='<url>', help='Post the notifications of this lease there, signed'
    )
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        '--webhook-secret-file',
        metavar='<file>',
        help='Holds the secret that signs them, "-" for the standard input (default: the variable '
        f'{arguments.SECRET_VARIABLE})',
    )
    secret.add_argument(
        '--webhook-secret',
        metavar='<secret>',
        help='The secret itself; others on this machine may see it',
    )
    parser.add_argument(
        '--webhook-event',
        metavar='<pattern>',
        action='append',
        help='Post only these notifications, like lease.event.* (repeat for several)',
    )


def add_events(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--event',
        metavar='type=<name>,time=<time>',
        action='append',
        default=[],
        help='Send the notification lease.event.<name> at a time (repeat for several)',
    )


def add_lease(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('lease', metavar='<lease>', help='Name or id of the lease')


def add_wait(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument('--wait', action='store_true', help=text)
    parser.add_argument(
        '--timeout', metavar='<duration>', help='Wait so long at most (default: for ever)'
    )


def limit(parsed_args: argparse.Namespace) -> datetime.timedelta | None:
    return arguments.duration('--timeout', parsed_args.timeout) if parsed_args.timeout else None


def terms(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """What :func:`add_terms` adds, as ``create`` and ``update`` of a lease take it."""
    texts = parsed_args.tell_before_start
    result = {
        'start_policy': parsed_args.start_policy,
        'before_start': arguments.seconds('--tell-before-start', texts) if texts else None,
        'webhook': _webhook(parsed_args),
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
    try:
        duration = durations.parse(text)
    except durations.InvalidDuration:
        return arguments.time('--before-end', text)
    return (arguments.now() if isinstance(end, str) else end) - duration


def project(cmd: command.Command, parsed_args: argparse.Namespace) -> str | None:
    """The id of the project that is given or, failing that, of the user's own; None for all."""
    if parsed_args.all_projects:
        return None
    if parsed_args.project:
        return project_id(cmd, parsed_args.project)
    auth_ref = clients(cmd).auth_ref
    return auth_ref.project_id if auth_ref else None


def project_id(cmd: command.Command, name_or_id: str) -> str:
    """The id of a project; only a name is looked up in Keystone."""
    if _PROJECT_ID.fullmatch(name_or_id):
        return name_or_id
    identity = clients(cmd).sdk_connection.identity
    return str(identity.find_project(name_or_id, ignore_missing=False).id)


def reservations(
    parsed_args: argparse.Namespace, given: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The reservations to make of --reservation, with the --on-end that their types know.

    That of a stack that is made from a template is one of them.

    :param given: those of --reservation, if they have been read already
    :raises CommandError: no resource of the command takes an --on-end; a file cannot be read
    """
    if given is None:
        given = [arguments.reservation(text) for text in parsed_args.reservation]
        check_on_end(parsed_args, [*given, *kinds(parsed_args)])
    given = [*given, *stack_template.reservation(parsed_args)]
    return [on_end(parsed_args, each) | each for each in given]


def named(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """The reservations of what is named; asks Nova, Cinder and Heat for their ids."""
    return [
        kind | {'resource_id': _find(cmd, kind, name)} | on_end(parsed_args, kind)
        for kind, name in _named(parsed_args)
    ]


def kinds(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """The types of what --server, --volume, --stack and --stack-template name, in this order."""
    return [kind for kind, _ in _named(parsed_args)] + stack_template.kind(parsed_args)


def _named(parsed_args: argparse.Namespace) -> list[tuple[dict[str, Any], str]]:
    return [
        ({'resource_type': kind}, name)
        for kind, noun in _NOUNS
        for name in getattr(parsed_args, noun)
    ]


def _find(cmd: command.Command, kind: dict[str, Any], name: str) -> str:
    if kind['resource_type'] == arguments.SERVER_TYPE:
        return str(clients(cmd).compute.find_server(name, ignore_missing=False).id)
    sdk = clients(cmd).sdk_connection
    if kind['resource_type'] == arguments.STACK_TYPE:
        # Outputs may cost Heat many calls, and nobody looks at them here.
        found = sdk.orchestration.find_stack(name, ignore_missing=False, resolve_outputs=False)
        return str(found.id)
    return str(sdk.volume.find_volume(name, ignore_missing=False).id)


def on_end(parsed_args: argparse.Namespace, reservation: Mapping[str, Any]) -> dict[str, str]:
    """What --on-end says about a reservation, by its type; nothing if it says nothing."""
    known = arguments.ON_END.get(reservation['resource_type'], ())
    words = [word for word in parsed_args.on_end if word in known]
    return {'on_end': words[-1]} if words else {}


def check_on_end(
    parsed_args: argparse.Namespace, reservations: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse an --on-end that none of the reservations takes.

    :raises CommandError: it says what would take it
    """
    types = {each['resource_type'] for each in reservations}
    for word in parsed_args.on_end:
        takers = [(kind, noun) for kind, noun in _NOUNS if word in arguments.ON_END[kind]]
        if not types & {kind for kind, _ in takers}:
            *others, last = (noun for _, noun in takers)
            nouns = ' or '.join([', '.join(others), last] if others else [last])
            raise exceptions.CommandError(f'--on-end {word}: there is no {nouns} to take it.')
