# SPDX-License-Identifier: Apache-2.0
"""``openstack lease feed create|list|delete``."""

import argparse
from typing import TYPE_CHECKING

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import options, shown

if TYPE_CHECKING:
    from climateclient.feeds import Feed, Feeds


class CreateFeed(shown.ShowOne):
    """Create a URL by which a calendar program reads the leases of the project.

    The URL is shown only once. Everyone with the URL can read the feed: protect it like a
    password.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name', metavar='<name>', help='Name of the feed, such as the device that reads it'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc.output import TimeColumn

        made = _client(self).create(parsed_args.name)
        fields = {
            'id': made.id,
            'name': made.name,
            'created_at': TimeColumn(made.created_at),
            'url': made.url,
        }
        return tuple(fields), tuple(fields.values())


class ListFeed(shown.Lister):
    """List your calendar feeds of the project."""

    def take_action(self, _parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc.output import TimeColumn

        found = _client(self).list()
        return ('ID', 'Name', 'Created At'), [
            (each.id, each.name, TimeColumn(each.created_at)) for each in found
        ]


class DeleteFeed(shown.Command):
    """Delete feeds. Their URLs stop working."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('feed', metavar='<feed>', nargs='+', help='Id or name of a feed')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = _client(self)
        present = client.list()
        for each in [_find(present, name) for name in dict.fromkeys(parsed_args.feed)]:
            client.delete(each)


def _find(present: 'list[Feed]', name_or_id: str) -> str:
    """Return the id of one of the own feeds; one of another user may only be named by its id."""
    named = [each.id for each in present if name_or_id == each.name]
    if any(each.id == name_or_id for each in present) or not named:
        return name_or_id
    if len(named) > 1:
        raise exceptions.CommandError(
            f'{len(named)} feeds are called {name_or_id}: name the one by its id.'
        )
    return named[0]


def _client(cmd: command.Command) -> 'Feeds':
    client: Feeds = options.clients(cmd).climate.feeds
    return client
