# SPDX-License-Identifier: Apache-2.0
"""``openstack lease host ...``: the hosts of the pools, for operators."""

import argparse
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import dates
from climateclient.osc import arguments, extra_properties, listing, options, pool_access, shown


class CreateHost(shown.ShowOne):
    """Add a host to a pool. It must have no servers, unless it is shared or drained."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            metavar='<name>',
            help='Name of the node in "openstack hypervisor list", or of its nova-compute if '
            'that has a single node',
        )
        _add_details(parser)
        parser.add_argument(
            '--disable',
            action='store_true',
            default=None,
            help='Exclude the host from allocations',
        )
        servers = parser.add_mutually_exclusive_group()
        servers.add_argument(
            '--empty',
            action='store_true',
            default=None,
            help='Drain the host: migrate its servers to other hosts; it gets allocations when '
            'it has none left',
        )
        servers.add_argument(
            '--shared',
            action='store_true',
            default=None,
            help='Share the host: ordinary servers run on it until a lease needs it. A host '
            'aggregate that Nova isolates for the pools must not contain it, or no ordinary'
            ' server is scheduled to it',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import host_output

        details = _details(parsed_args, parsed_args.disable)
        _check_reason(parsed_args)
        details.update(shared=parsed_args.shared, empty=parsed_args.empty)
        host = _hosts(self).create(parsed_args.name, **details)
        return host_output.show(host)


class ListHost(shown.Lister):
    """List the hosts of the pools."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--pool', metavar='<pool>', help='Only hosts of this pool')
        parser.add_argument('--service', metavar='<name>', help='Only nodes of this nova-compute')
        state = parser.add_mutually_exclusive_group()
        state.add_argument(
            '--enabled', action='store_true', help='Only hosts that get allocations'
        )
        state.add_argument('--disabled', action='store_true', help='Only disabled hosts')
        parser.add_argument('--long', action='store_true', help='Show more columns')
        listing.add_pages(parser, 'host')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import host_output

        wanted = parsed_args.enabled or (False if parsed_args.disabled else None)
        hosts = _hosts(self).list(
            pool=parsed_args.pool,
            service_name=parsed_args.service,
            reservable=wanted,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        columns = host_output.LONG if parsed_args.long else host_output.SHORT
        return columns, [host_output.row(each, parsed_args.long) for each in hosts]


class ShowHost(shown.ShowOne):
    """Show a host and the reservations that it is allocated to."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_host(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        return _with_reservations(self, _hosts(self).find(parsed_args.host))


class SetHost(shown.ShowOne):
    """Change a host, and show it with the reservations that it is allocated to.

    A disabled host gets no new allocations; its present ones remain.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _add_host(super().get_parser(prog_name))
        _add_details(parser)
        state = parser.add_mutually_exclusive_group()
        state.add_argument(
            '--disable', action='store_true', help='Exclude the host from new allocations'
        )
        state.add_argument(
            '--enable', action='store_true', help='Include the host in allocations again'
        )
        power = parser.add_mutually_exclusive_group()
        power.add_argument(
            '--keep-on',
            action='store_true',
            help='Keep the host powered on; power it on if it is off',
        )
        power.add_argument(
            '--let-sleep',
            action='store_true',
            help='Power the host off while no lease needs it, if power management is configured',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        disabled = parsed_args.disable or (False if parsed_args.enable else None)
        details = _details(parsed_args, disabled)
        if parsed_args.keep_on or parsed_args.let_sleep:
            details['kept_on'] = parsed_args.keep_on
        if not details:
            raise exceptions.CommandError(
                'Nothing to change: give --pool, --extra, --disable, --enable, --reason, '
                '--keep-on or --let-sleep.'
            )
        _check_reason(parsed_args)
        hosts = _hosts(self)
        return _with_reservations(self, hosts.update(hosts.find(parsed_args.host).id, **details))


class UnsetHost(shown.ShowOne):
    """Remove extra properties from a host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _add_host(super().get_parser(prog_name))
        arguments.add_extra_to_take(parser, required=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import host_output

        hosts = _hosts(self)
        extra = dict.fromkeys(parsed_args.extra)
        return host_output.show(hosts.update(hosts.find(parsed_args.host).id, extra=extra))


class DeleteHost(shown.Command):
    """Remove hosts from their pools; ordinary servers can be scheduled to them again."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_host(super().get_parser(prog_name), nargs='+')

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        hosts = _hosts(self)
        for each in [hosts.find(name) for name in dict.fromkeys(parsed_args.host)]:
            hosts.delete(each.id)


class ListAllocation(shown.Lister):
    """List the allocations of hosts to reservations."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--lease', metavar='<lease>', help='Only this lease (name or id)')
        parser.add_argument('--reservation', metavar='<id>', help='Only this reservation')
        listing.add_pages(parser, 'host')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import host_output

        lease = parsed_args.lease
        found = _hosts(self).allocations(
            lease_id=options.leases(self).find(lease).id if lease else None,
            reservation_id=parsed_args.reservation,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        return host_output.ALLOCATIONS, host_output.allocations(found)


class ShowAllocation(shown.Lister):
    """Show the reservations that a host is allocated to."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_host(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import host_output

        hosts = _hosts(self)
        found = hosts.allocation(hosts.find(parsed_args.host).id)
        return host_output.ALLOCATIONS, host_output.allocations([found])


class Usage(shown.Lister):
    """Show the hours of a period in which hosts were powered off, and the saved energy."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--start', metavar='<time>', help=f'Start of the period: {dates.FORMS}'
        )
        parser.add_argument('--end', metavar='<time>', help='End of the period')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import host_output

        start, end = (
            arguments.time(option, text) if text else None
            for option, text in (('--start', parsed_args.start), ('--end', parsed_args.end))
        )
        return host_output.USAGE, map(host_output.usage_row, _hosts(self).usage(start, end))


class ListProperty(extra_properties.ListProperty):
    """List the extra properties of hosts, which reservations can require."""

    calls = 'hosts'


class SetProperty(extra_properties.SetProperty):
    """Show or hide an extra property of hosts."""

    calls = 'hosts'


class ListPool(shown.Lister):
    """List the pools of hosts, and the projects and domains that may use them."""

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:  # noqa: ARG002
        from climateclient.osc import host_output

        return host_output.POOLS, [host_output.pool_row(each) for each in _hosts(self).pools()]


class ShowPool(shown.ShowOne):
    """Show a pool of hosts, and the projects and domains that may use it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return pool_access.add_pool(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        from climateclient.osc import host_output

        pool = _hosts(self).get_pool(parsed_args.pool)
        return host_output.POOLS, host_output.pool_row(pool)


class SetPool(shown.Command):
    """Restrict a pool of hosts to projects, or to all projects of domains."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return pool_access.add_users(
            pool_access.add_pool(super().get_parser(prog_name)),
            'Let this project or domain use the pool',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        projects, domains = pool_access.users(self, parsed_args)
        if not projects and not domains:
            raise exceptions.CommandError('At least one --project or --domain is needed.')

        def add(present: Any) -> pool_access.Users:
            return projects | {*present.project_ids}, domains | {*present.domain_ids}

        pool_access.change(self, parsed_args.pool, add, is_new=True)


class UnsetPool(shown.Command):
    """Remove projects or domains from those that may use a pool of hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = pool_access.add_users(
            pool_access.add_pool(super().get_parser(prog_name)),
            'Stop this project or domain from using the pool',
        )
        parser.add_argument('--all', action='store_true', help='Let all projects use the pool')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        projects, domains = pool_access.users(self, parsed_args)

        def remove(present: Any) -> pool_access.Users:
            if parsed_args.all:
                return set(), set()
            name = f'The pool {parsed_args.pool}'
            return pool_access.without(
                present, projects, domains, name, 'openstack lease host pool set'
            )

        pool_access.change(self, parsed_args.pool, remove)


class DeletePool(shown.Command):
    """Delete a pool without hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return pool_access.add_pool(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _hosts(self).delete_pool(parsed_args.pool)


def _hosts(cmd: command.Command) -> Any:
    return options.clients(cmd).climate.hosts


def _add_host(parser: argparse.ArgumentParser, **more: Any) -> argparse.ArgumentParser:
    parser.add_argument(
        'host',
        metavar='<host>',
        help='Id of a host, or the name of its node or of its nova-compute',
        **more,
    )
    return parser


def _add_details(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--pool', metavar='<pool>', help='Pool of the host (default: default)')
    arguments.add_extra(parser)
    parser.add_argument(
        '--reason', metavar='<text>', help='Reason for --disable, which requires it'
    )


def _details(parsed_args: argparse.Namespace, disabled: bool | None) -> dict[str, Any]:
    """Return what is given, as ``create`` and ``update`` of a host take it."""
    given = {
        'pool': parsed_args.pool,
        'disabled': disabled,
        'disabled_reason': parsed_args.reason,
        'extra': arguments.extra(parsed_args.extra) or None,  # nosec B610 # no model of Django
    }
    return {name: value for name, value in given.items() if value is not None}


def _check_reason(parsed_args: argparse.Namespace) -> None:
    if parsed_args.disable and not parsed_args.reason:
        raise exceptions.CommandError(
            "--disable: --reason is missing, for example --reason 'a new disk'"
        )


def _with_reservations(cmd: command.Command, host: Any) -> shown.Shown:
    from climateclient.exceptions import Forbidden
    from climateclient.osc import host_output

    try:
        return host_output.show(host, _hosts(cmd).allocation(host.id).reservations)
    except Forbidden:
        # Who may see the host may not see whose it is.
        return host_output.show(host)
