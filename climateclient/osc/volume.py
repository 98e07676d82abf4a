# SPDX-License-Identifier: Apache-2.0
"""``openstack volume wake up``, for operators."""

import argparse

from osc_lib.command import command

from climateclient.osc import options


class WakeUpVolume(command.Command):
    """Make a volume that waits in the status lease-reserved, before its lease does.

    Cinder's policy allows this to administrators and to the lease service only.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volume', metavar='<volume>', help='Volume to wake up (name or id)')
        parser.add_argument(
            '--all-projects',
            action='store_true',
            help='Look for the name in all projects (administrators; an id needs no search)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from openstack import exceptions

        cinder = options.clients(self).sdk_connection.volume
        volume = cinder.find_volume(
            parsed_args.volume, ignore_missing=False, all_projects=parsed_args.all_projects
        )
        answer = cinder.post(f'/volumes/{volume.id}/action', json={'os-wake_up': {}})
        exceptions.raise_from_response(answer)
