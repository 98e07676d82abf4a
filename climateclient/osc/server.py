# SPDX-License-Identifier: Apache-2.0
"""``openstack server wake up``, for operators."""

import argparse

from osc_lib.command import command

from climateclient.osc import options


class WakeUpServer(command.Command):
    """Start a server that waits in the status RESERVED, before its lease does.

    Nova's policy allows this to administrators and to the lease service only.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='<server>', help='Server to wake up (name or id)')
        parser.add_argument(
            '--all-projects',
            action='store_true',
            help='Look for the name in all projects (administrators; an id needs no search)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from openstack import exceptions

        compute = options.clients(self).compute
        server = compute.find_server(
            parsed_args.server, ignore_missing=False, all_projects=parsed_args.all_projects
        )
        answer = compute.post(f'/servers/{server.id}/action', json={'wake_up': {}})
        exceptions.raise_from_response(answer)
