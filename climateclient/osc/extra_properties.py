# SPDX-License-Identifier: Apache-2.0
"""Share the commands about extra properties of hosts and of network segments."""

import argparse
from collections.abc import Iterable
from typing import Any, ClassVar

from climateclient.osc import options, shown


class ListProperty(shown.Lister):
    """List extra properties; a subclass says of what, and has its calls."""

    #: The name of these in the client.
    calls: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--all',
            action='store_true',
            help='List also properties that are hidden from users (administrators)',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        from climateclient.osc import host_output

        found = _calls(self).properties(private=parsed_args.all)
        return host_output.PROPERTIES, [host_output.property_row(each) for each in found]


class SetProperty(shown.Command):
    """Say whether users may see an extra property; a subclass says of what, and has its calls."""

    #: The name of these in the client.
    calls: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('property', metavar='<property>', help='Name of the property')
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument('--private', action='store_true', help='Hide the property from users')
        which.add_argument('--public', action='store_true', help='Show the property to users')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _calls(self).set_property(parsed_args.property, private=parsed_args.private)


def _calls(cmd: ListProperty | SetProperty) -> Any:
    return getattr(options.clients(cmd).climate, cmd.calls)
