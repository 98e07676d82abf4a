# SPDX-License-Identifier: Apache-2.0
"""Options for the projects that may use a pool of hosts, or a segment, and changes of them."""

import argparse
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import options

#: The ids of projects and of domains.
Users = tuple[set[str], set[str]]
#: Attempts to change a pool or a segment while others change it.
_TRIES = 5

T = TypeVar('T')


def add_pool(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the argument of a pool of hosts; return the parser."""
    parser.add_argument('pool', metavar='<pool>', help='Name of the pool')
    return parser


def add_users(parser: argparse.ArgumentParser, text: str) -> argparse.ArgumentParser:
    """Add the options of projects and domains; return the parser.

    :param text: what happens to them, for the help
    """
    for kind in ('project', 'domain'):
        parser.add_argument(
            f'--{kind}',
            metavar=f'<{kind}>',
            action='append',
            default=[],
            help=f'{text}: name or id of a {kind} (repeat for several)',
        )
    return parser


def users(cmd: command.Command, parsed_args: argparse.Namespace) -> Users:
    """Return the ids of the projects and of the domains that are given."""
    projects = {options.project_id(cmd, each) for each in parsed_args.project}
    return projects, {options.domain_id(cmd, each) for each in parsed_args.domain}


def without(present: Any, projects: set[str], domains: set[str], name: str, command: str) -> Users:
    """Return who has access after projects and domains have lost it.

    :param present: the pool or segment, with those who have access now
    :param name: its name in an error
    :param command: the command that sets who has access
    :raises CommandError: one of them has no access, or none would be left
    """
    if not (present.project_ids or present.domain_ids):
        raise exceptions.CommandError(
            f'{name} is for all projects: none can be removed from it. {command} restricts it to '
            'some.'
        )
    for noun, given, known in (
        ('project', projects, present.project_ids),
        ('domain', domains, present.domain_ids),
    ):
        for each in sorted(given - {*known}):
            raise exceptions.CommandError(
                f'{name} is not for the {noun} {each}, only for '
                f'{", ".join(known) or f"no {noun}"}.'
            )
    left = {*present.project_ids} - projects, {*present.domain_ids} - domains
    if not any(left):
        raise exceptions.CommandError(
            'No project would be left, which lets all projects use it: use --all for that.'
        )
    return left


def change(
    cmd: command.Command, name: str, new: Callable[[Any], Users], *, is_new: bool = False
) -> None:
    """Change who may use a pool; concurrent changes are kept.

    :param new: takes the pool, and returns who may
    :param is_new: whether it may be one that is not there yet
    """
    from climateclient.exceptions import NotFound
    from climateclient.host_models import HostPool

    hosts = options.clients(cmd).climate.hosts

    def try_once() -> None:
        try:
            present = hosts.get_pool(name)
        except NotFound:
            if not is_new:
                raise
            present = HostPool(name)
        projects, domains = new(present)
        ids = {'project_ids': projects, 'domain_ids': domains}
        hosts.set_pool(name, **ids, generation=present.generation)

    again(try_once)


def again(try_once: Callable[[], T]) -> T:
    """Do a change of what was read before, again after a concurrent change.

    :param try_once: reads, and raises Conflict if it is not as it was read
    """
    from climateclient.exceptions import Conflict

    for _ in range(_TRIES - 1):
        with contextlib.suppress(Conflict):
            return try_once()
    return try_once()
