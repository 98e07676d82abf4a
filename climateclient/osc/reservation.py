# SPDX-License-Identifier: Apache-2.0
"""``openstack lease reservation list|add|set|remove``."""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import arguments, options, resources, shown

#: Statuses of a reservation that holds a resource.
LIVE = ('pending', 'active', 'error')


class ListReservation(shown.Lister):
    """List the reservations of a lease, with their resources."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import output

        lease = options.leases(self).find(parsed_args.lease)
        return output.RESERVATIONS, map(output.reservation_row, lease.reservations)


class AddReservation(shown.ShowOne):
    """Add resources to a lease, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        resources.add_resources(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import output

        leases = options.leases(self)
        added = resources.reservations(parsed_args)
        lease = leases.find(parsed_args.lease)
        added += resources.named(self, parsed_args)
        if not added:
            raise exceptions.CommandError(
                'Nothing to add: give --server, --volume, --stack, --stack-template or '
                '--reservation.'
            )
        for each in added:
            leases.add_reservation(lease.id, **each)
        return output.show(leases.get(lease.id))


class SetReservation(shown.ShowOne):
    """Change a reservation of a lease, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        _add_reservation(parser)
        resources.add_on_end(parser, 'End action of the resource')
        parser.add_argument(
            '--property',
            metavar='<key>=<value>[,...]',
            action='append',
            default=[],
            help='Other property of the resource type that users can change; lists have commas, '
            'such as required_floatingips=203.0.113.20,203.0.113.21 (repeat for several)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import output

        params: dict[str, Any] = {}
        for text in parsed_args.property:
            params |= arguments.mapping('--property', text)
        if not params and not parsed_args.on_end:
            raise exceptions.CommandError('Nothing to change: give --on-end or --property.')
        leases = options.leases(self)
        lease = leases.find(parsed_args.lease)
        found = select(lease, parsed_args.reservation, self)
        of_type = {'resource_type': resources.type_of(found)}
        resources.check_on_end(parsed_args, [of_type])
        params |= resources.on_end(parsed_args, of_type)
        return output.reservation(leases.update_reservation(lease.id, found.id, **params))


class RemoveReservation(shown.Command):
    """Remove reservations from a lease and end them; the lease continues."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        _add_reservation(parser, nargs='+')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        leases = options.leases(self)
        lease = leases.find(parsed_args.lease)
        for each in [select(lease, text, self) for text in parsed_args.reservation]:
            leases.remove_reservation(lease.id, each.id)


def select(lease: Any, text: str, cmd: command.Command | None = None) -> Any:
    """Return the live reservation of a lease with this id, or the id or the name of its resource.

    :param cmd: looks a name up, with a few requests; None: only ids are known
    :raises osc_lib.exceptions.CommandError: there is none, or several have a resource of this name
    """
    from climateclient.leases import is_uuid

    live = [each for each in lease.reservations if each.status in LIVE]
    for each in live:
        if text in (each.id, each.resource_id):
            return each
    if cmd and not is_uuid(text):
        named = list(_named(cmd, live, text))
        if len(named) > 1:
            ids = ', '.join(f'{each.id} ({each.resource_type})' for each in named)
            raise exceptions.CommandError(
                f'Lease {lease.name} has several reservations of "{text}". '
                f'Give the id of one: {ids}.'
            )
        if named:
            return named[0]
    known = ', '.join(f'{each.id} ({each.resource_type} {each.resource_id})' for each in live)
    raise exceptions.CommandError(
        f'Lease {lease.name} has no reservation "{text}", only {known or "none"}.'
    )


def _named(cmd: command.Command, live: Iterable[Any], text: str) -> Iterator[Any]:
    """Yield the reservations whose resource has this name."""
    by_type: dict[str, list[Any]] = {}
    for each in live:
        by_type.setdefault(resources.type_of(each), []).append(each)
    for resource_type, same in by_type.items():
        if resources.has_name(resource_type):
            found = resources.find_all(cmd, resource_type, text)
            yield from (each for each in same if each.resource_id in found)


def _add_reservation(parser: argparse.ArgumentParser, **more: Any) -> None:
    parser.add_argument(
        'reservation',
        metavar='<reservation>',
        help='Id of a reservation or of its resource, or name of a server, volume or stack',
        **more,
    )
