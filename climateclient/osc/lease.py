# SPDX-License-Identifier: Apache-2.0
"""``openstack lease show|start|end|delete``."""

import abc
import argparse
import datetime
import functools
import sys
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import options, several, shown


class ShowLease(shown.ShowOne):
    """Show a lease with its reservations and events.

    The table shows times in the local time zone, all other formats as ISO 8601 in UTC.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become ACTIVE')
        parser.add_argument(
            '--watch',
            action='store_true',
            help='Follow the lease until it is ACTIVE, or an ACTIVE lease until it has ended, '
            'then show it; Ctrl-C and --timeout show it immediately',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        limit = options.limit(parsed_args)
        if parsed_args.watch and parsed_args.wait:
            raise exceptions.CommandError('--watch and --wait: give one of the two.')
        lease = options.leases(self).find(parsed_args.lease)
        if not parsed_args.watch:
            return show_lease(self, parsed_args, lease, limit)
        from climateclient.osc import output, wait

        leases = options.leases(self)
        with wait.progress(sys.stderr) as report:
            followed = wait.watch(lambda: leases.get(lease.id), report, limit)
        return output.show(followed)


class StartLease(shown.ShowOne):
    """Start a lease with the start policy manual, at or after its start."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        options.add_wait(parser, 'Wait until the lease is ACTIVE; fail if it cannot become ACTIVE')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        limit = options.limit(parsed_args)
        leases = options.leases(self)
        lease = leases.start(leases.find(parsed_args.lease).id)
        return show_lease(self, parsed_args, lease, limit)


class _Several(shown.Command):
    """Do the same to several leases, also after a failure with one."""

    done: str
    waited: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'lease', metavar='<lease>', nargs='+', help='Names or ids of the leases'
        )
        options.add_wait(parser, f'Wait until the leases are {self.waited}')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        limit = options.limit(parsed_args)
        leases = options.leases(self)
        names = list(dict.fromkeys(parsed_args.lease))
        begun, failed = several.each(names, lambda name: self._begin(leases, name), self.log)
        if parsed_args.wait:
            finish = functools.partial(self._finish, leases, limit=limit)
            failed += several.each(begun, finish, self.log)[1]
        if failed:
            raise exceptions.CommandError(
                f'{failed} of {len(names)} leases could not be {self.done}.'
            )

    @abc.abstractmethod
    def _begin(self, leases: Any, name: str) -> str:
        """Send the request; return the id of the lease."""

    @abc.abstractmethod
    def _finish(self, leases: Any, lease_id: str, limit: datetime.timedelta | None) -> str:
        """Wait for the outcome; return the id of the lease."""


class EndLease(_Several):
    """End leases now and release their resources; a lease that has not started is cancelled."""

    done, waited = 'ended', 'TERMINATED'

    def _begin(self, leases: Any, name: str) -> str:
        return str(leases.end(leases.find(name).id).id)

    def _finish(self, leases: Any, lease_id: str, limit: datetime.timedelta | None) -> str:
        from climateclient.osc import wait

        with wait.progress(sys.stderr) as report:
            wait.for_end(lambda: leases.get(lease_id), report, limit)
        return lease_id


class DeleteLease(_Several):
    """Delete leases; their reservations are ended first."""

    done, waited = 'deleted', 'gone'

    def _begin(self, leases: Any, name: str) -> str:
        lease_id = str(leases.find(name).id)
        leases.delete(lease_id)
        return lease_id

    def _finish(self, leases: Any, lease_id: str, limit: datetime.timedelta | None) -> str:
        from climateclient.osc import wait

        with wait.progress(sys.stderr) as report:
            wait.for_deletion(lambda: leases.get(lease_id), report, limit)
        return lease_id


def show_lease(
    cmd: command.Command,
    parsed_args: argparse.Namespace,
    lease: Any,
    limit: datetime.timedelta | None,
) -> shown.Shown:
    """Return a lease as ShowOne takes it; with --wait, wait until it is ACTIVE."""
    from climateclient.osc import output, wait

    if parsed_args.wait:
        leases = options.leases(cmd)
        with wait.progress(sys.stderr) as report:
            lease = wait.for_start(lambda: leases.get(lease.id), report, limit)
    return output.show(lease)
