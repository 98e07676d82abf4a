# SPDX-License-Identifier: Apache-2.0
"""The common base of ``openstack server wake up`` and ``openstack volume wake up``."""

import abc
import argparse
from typing import Any, ClassVar

from climateclient.osc import options, shown


class WakeUp(shown.Command):
    """Wake a resource up before the start of its lease."""

    noun: ClassVar[str]
    #: The name of the action in the API of its service.
    action: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            self.noun,
            metavar=f'<{self.noun}>',
            help=f'{self.noun.capitalize()} to start (name or id)',
        )
        parser.add_argument(
            '--all-projects',
            action='store_true',
            help='Search the name in all projects (administrators; not needed for an id)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from openstack import exceptions

        service = self.service(options.clients(self))
        found = getattr(service, f'find_{self.noun}')(
            getattr(parsed_args, self.noun),
            ignore_missing=False,
            all_projects=parsed_args.all_projects,
        )
        answer = service.post(f'/{self.noun}s/{found.id}/action', json={self.action: {}})
        exceptions.raise_from_response(answer)

    @abc.abstractmethod
    def service(self, clients: Any) -> Any:
        """Return openstacksdk's proxy of the service of the resource."""
