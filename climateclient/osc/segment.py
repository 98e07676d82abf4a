# SPDX-License-Identifier: Apache-2.0
"""``openstack lease segment ...``: registered network segments, for operators.

A registered segment is a VLAN or a tunnel; users get a network of it. ``openstack network
segment`` has the same noun and the same options for the former.
"""

import argparse
from typing import TYPE_CHECKING, Any, Final

from osc_lib import exceptions
from osc_lib.command import command

from climateclient.osc import (
    arguments,
    extra_properties,
    listing,
    options,
    pool_access,
    ranges,
    shown,
)

if TYPE_CHECKING:
    from climateclient.networks import Networks, NetworkSegment, SegmentDetails


_COLUMNS: Final = ('ID', 'Type', 'Physical Network', 'Segment', 'Reservable', 'Extra')
_LONG: Final = (*_COLUMNS, 'Projects', 'Domains')
#: What a segment has by options of its own.
_FIELDS: Final = {
    'network_type': '--network-type',
    'physical_network': '--physical-network',
    'segment_id': '--segment',
    'segment_range': '--range',
    'reservable': '--disable or --enable',
    'project_ids': '--project',
    'domain_ids': '--domain',
}
#: The places of the id and of the number.
_COUNTED: Final = (0, 3)
_FOR: Final = 'Let only these projects and domains use the segment'


class CreateSegment(shown.Lister):
    """Register network segments for leases, all of them or none.

    No network may use one of them, and they must be outside the ranges of Neutron.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_kind(parser, 'vlan')
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            '--segment', metavar='<segment>', type=int, help='Number of a VLAN, or of a tunnel'
        )
        which.add_argument('--range', metavar='<first>-<last>', help='Range of segments')
        arguments.add_extra(parser)
        pool_access.add_users(parser, _FOR)
        parser.add_argument(
            '--disable', action='store_true', help='Exclude the segment from allocations'
        )
        ranges.add_each(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        projects, domains = pool_access.users(self, parsed_args)
        details: SegmentDetails = {
            'reservable': not parsed_args.disable,
            'project_ids': sorted(projects),
            'domain_ids': sorted(domains),
            'extra': arguments.extra(parsed_args.extra, _FIELDS),  # nosec B610 # no model of Django
        }
        network_type, physical = parsed_args.network_type, parsed_args.physical_network
        client = _client(self)
        if parsed_args.range is None:
            made = [client.create(network_type, parsed_args.segment, physical, **details)]
        else:
            made = client.create_range(
                network_type, *_ends(parsed_args.range), physical, **details
            )
        return _COLUMNS, ranges.join(parsed_args, map(_row, made), _COUNTED)


class ListSegment(shown.Lister):
    """List the network segments that are registered for leases."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_kind(parser)
        listing.add_pages(parser, 'segment')
        ranges.add_each(parser)
        parser.add_argument(
            '--long',
            action='store_true',
            help='Show also the projects and domains that may use each segment (administrators)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        found = _client(self).list(
            network_type=parsed_args.network_type,
            physical_network=parsed_args.physical_network,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        columns, row = (_LONG, _long_row) if parsed_args.long else (_COLUMNS, _row)
        return columns, ranges.join(parsed_args, map(row, found), _COUNTED)


class ShowSegment(shown.ShowOne):
    """Show a network segment that is registered for leases."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_segment(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        return _show(_client(self).find(parsed_args.segment))


class SetSegment(shown.ShowOne):
    """Change a network segment that is registered for leases.

    A disabled segment gets no new allocations; its present ones remain.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _add_segment(super().get_parser(prog_name))
        arguments.add_extra(parser)
        pool_access.add_users(
            parser, 'Let this project or domain use the segment; without others, only this one'
        )
        state = parser.add_mutually_exclusive_group()
        state.add_argument(
            '--disable', action='store_true', help='Exclude the segment from new allocations'
        )
        state.add_argument(
            '--enable', action='store_true', help='Include the segment in allocations again'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        users = pool_access.users(self, parsed_args)
        return pool_access.again(lambda: self._change(parsed_args, *users))

    def _change(
        self, parsed_args: argparse.Namespace, projects: set[str], domains: set[str]
    ) -> shown.Shown:
        client = _client(self)
        present = client.find(parsed_args.segment)
        details: dict[str, Any] = {}
        if projects or domains:
            details['project_ids'] = sorted(projects | {*present.project_ids})
            details['domain_ids'] = sorted(domains | {*present.domain_ids})
            details['generation'] = present.generation
        if parsed_args.disable or parsed_args.enable:
            details['reservable'] = parsed_args.enable
        if parsed_args.extra:
            details['extra'] = arguments.extra(parsed_args.extra, _FIELDS)  # nosec B610 # no model of Django
        if not details:
            raise exceptions.CommandError(
                'Nothing to change: give --extra, --project, --domain, --disable or --enable.'
            )
        return _show(client.update(present.id, **details))


class UnsetSegment(shown.ShowOne):
    """Remove extra properties, projects or domains from a network segment."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = _add_segment(super().get_parser(prog_name))
        arguments.add_extra_to_take(parser)
        pool_access.add_users(parser, 'Stop this project or domain from using the segment')
        parser.add_argument('--all', action='store_true', help='Let all projects use the segment')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        users = pool_access.users(self, parsed_args)
        return pool_access.again(lambda: self._change(parsed_args, *users))

    def _change(
        self, parsed_args: argparse.Namespace, projects: set[str], domains: set[str]
    ) -> shown.Shown:
        client = _client(self)
        present = client.find(parsed_args.segment)
        details: dict[str, Any] = {'extra': dict.fromkeys(parsed_args.extra)}
        if parsed_args.all:
            details |= {'project_ids': [], 'domain_ids': []}
        elif projects or domains:
            name = f'The segment {parsed_args.segment}'
            left = pool_access.without(
                present, projects, domains, name, 'openstack lease segment set'
            )
            details |= {'project_ids': sorted(left[0]), 'domain_ids': sorted(left[1])}
            details['generation'] = present.generation
        elif not parsed_args.extra:
            raise exceptions.CommandError(
                'Nothing to remove: give --extra, --project, --domain or --all.'
            )
        return _show(client.update(present.id, **details))


class DeleteSegment(shown.Command):
    """Unregister network segments from leases; nothing changes in Neutron.

    A range is <physical network>:<first>-<last>, <type>:<first>-<last>, or two ids. Allocated
    segments are not removed, and are named.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _add_segment(super().get_parser(prog_name), nargs='+')

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        ranges.delete(_client(self), parsed_args.segment, 'segments', self.log)


class ListProperty(extra_properties.ListProperty):
    """List the extra properties of network segments, which reservations can require."""

    calls = 'networks'


class SetProperty(extra_properties.SetProperty):
    """Show or hide an extra property of network segments."""

    calls = 'networks'


def _add_kind(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    usual = f' (default: {default})' if default else ''
    parser.add_argument(
        '--network-type',
        metavar='<type>',
        default=default,
        choices=('vlan', 'vxlan', 'geneve', 'gre'),
        help=f'Type of the segments: vlan, vxlan, geneve or gre{usual}',
    )
    parser.add_argument(
        '--physical-network',
        metavar='<name>',
        help='Physical network of the VLANs, by its name in Neutron',
    )


def _add_segment(
    parser: argparse.ArgumentParser, nargs: str | None = None
) -> argparse.ArgumentParser:
    parser.add_argument(
        'segment',
        metavar='<segment>',
        nargs=nargs,
        help='Id of a segment, or <physical network>:<number>, or <type>:<number> of a tunnel',
    )
    return parser


def _ends(text: str) -> tuple[int, int]:
    """Return the ends of a range; CommandError if it is none."""
    first, _, last = text.partition('-')
    if not (first.strip().isdecimal() and last.strip().isdecimal()):
        raise exceptions.CommandError(f'--range {text}: right would be: --range 100-199')
    return int(first), int(last)


def _client(cmd: command.Command) -> 'Networks':
    client: Networks = options.clients(cmd).climate.networks
    return client


def _row(one: 'NetworkSegment') -> tuple[Any, ...]:
    from climateclient.osc.host_output import JsonColumn

    extra = JsonColumn(dict(one.extra))
    where = one.physical_network, one.segment_id
    return one.id, one.network_type, *where, one.reservable, extra


def _long_row(one: 'NetworkSegment') -> tuple[Any, ...]:
    from climateclient.osc.host_output import LinesColumn

    return *_row(one), LinesColumn(one.project_ids), LinesColumn(one.domain_ids)


def _show(one: 'NetworkSegment') -> shown.Shown:
    from climateclient.osc.host_output import JsonColumn, LinesColumn
    from climateclient.osc.output import TimeColumn

    fields = {
        'id': one.id,
        'network_type': one.network_type,
        'physical_network': one.physical_network,
        'segment_id': one.segment_id,
        'reservable': one.reservable,
        'project_ids': LinesColumn(one.project_ids),
        'domain_ids': LinesColumn(one.domain_ids),
        'extra': JsonColumn(dict(one.extra)),
        'created_at': TimeColumn(one.created_at),
        'updated_at': TimeColumn(one.updated_at),
    }
    return tuple(fields), tuple(fields.values())
