# SPDX-License-Identifier: Apache-2.0
"""``openstack lease set|unset``."""

import argparse
from typing import Any, Final

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import dates, lease_fields, resource_types
from climateclient.osc import arguments, hosts, options, reservation, resources, shown

#: The generic fields that ``unset`` clears.
_CLEARABLE: Final = tuple(
    field for field in lease_fields.GENERIC if field.name in lease_fields.CLEARABLE
)


class SetLease(shown.ShowOne):
    """Change a lease, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        parser.add_argument('--name', metavar='<name>', help='New name')
        _add_dates(parser)
        options.add_before_end(parser)
        resources.add_resources(parser, or_id=True)
        parser.add_argument(
            '--remove-reservation',
            metavar='<reservation>',
            action='append',
            default=[],
            help='Remove a reservation from the lease and end it: id of the reservation, or id '
            'or name of its resource (repeat for several)',
        )
        options.add_events(parser)
        parser.add_argument(
            '--no-event', action='store_true', help='Remove the events that users added'
        )
        options.add_priority(parser)
        options.add_terms(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import output

        leases = options.leases(self)
        given = [arguments.reservation(text, or_id=True) for text in parsed_args.reservation]
        changes: dict[str, Any] = {
            'name': parsed_args.name,
            'priority': parsed_args.priority,
            'partial': parsed_args.partial or None,
            **options.terms(parsed_args),
        }
        if parsed_args.start:
            changes['start'] = options.moment('--start', parsed_args.start)
        if parsed_args.length:
            changes['duration'] = arguments.duration('--for', parsed_args.length)
        events = [arguments.event(text) for text in parsed_args.event]
        lease = leases.find(parsed_args.lease)
        removed = [
            reservation.select(lease, each, self) for each in parsed_args.remove_reservation
        ]
        end = options.new_end(parsed_args, lease.end_date)
        changes |= {
            'end': end,
            'before_end': options.before_end(parsed_args, _end(lease, changes, end)),
            'events': _events(lease, events, parsed_args.no_event),
            'reservations': _changed(self, lease, given, parsed_args) or None,
        }
        changes = {key: value for key, value in changes.items() if value is not None}
        added = resources.reservations(parsed_args, [each for each in given if 'id' not in each])
        added += resources.named(self, parsed_args)
        if not changes and not added and not removed:
            raise exceptions.CommandError('Nothing to change: give what to set.')
        if changes:
            seen = lease.generation if _depends_on_lease(parsed_args) else None
            lease = leases.update(lease.id, **changes, generation=seen)
        for each in added:
            leases.add_reservation(lease.id, **each)
        for each in removed:
            leases.remove_reservation(lease.id, each.id)
        return output.show(leases.get(lease.id) if added or removed else lease)


class UnsetLease(shown.ShowOne):
    """Remove settings from a lease, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_lease(parser)
        parser.add_argument(
            '--webhook', action='store_true', help='Send no more notifications to the webhook'
        )
        parser.add_argument(
            '--event',
            metavar='<name>',
            action='append',
            default=[],
            help='Remove the events of this type that users added (repeat for several)',
        )
        parser.add_argument(
            '--tell-before-start',
            action='store_true',
            help="Remove the lease's own notifications before the start; the operator's remain",
        )
        for field in _CLEARABLE:
            option = '--' + field.name.replace('_', '-')
            parser.add_argument(option, action='store_true', help=field.description)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Shown:
        from climateclient.osc import output

        leases = options.leases(self)
        lease = leases.find(parsed_args.lease)
        changes: dict[str, Any] = {
            field.name: None for field in _CLEARABLE if getattr(parsed_args, field.name)
        }
        if parsed_args.webhook:
            changes['webhook'] = None
        if parsed_args.tell_before_start:
            changes['before_start'] = []
        seen = None
        if parsed_args.event:
            changes['events'] = _without(lease, parsed_args.event)
            seen = lease.generation
        if not changes:
            raise exceptions.CommandError('Nothing to change: give what to unset.')
        return output.show(leases.update(lease.id, **changes, generation=seen))


def _add_dates(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--start', '--start-date', metavar='<time>', help=f'New start: {dates.FORMS}'
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument('--end', '--end-date', metavar='<time>', help='New end')
    end.add_argument(
        '--for',
        dest='length',
        metavar='<duration>',
        help='New duration, from the start of the lease',
    )
    end.add_argument(
        '--extend',
        '--prolong-for',
        metavar='<duration>',
        help=f'Move the end later by this duration: {dates.DURATION_FORMS}',
    )
    parser.add_argument(
        '--partial',
        action='store_true',
        help='Extend the reservations that can be extended; the others end at the previous end '
        'of the lease',
    )
    end.add_argument(
        '--shorten',
        '--reduce-by',
        metavar='<duration>',
        help='Move the end earlier by this duration',
    )


def _depends_on_lease(parsed_args: argparse.Namespace) -> bool:
    """Tell whether a change is computed from the lease as it was read."""
    return bool(
        parsed_args.extend
        or parsed_args.shorten
        or parsed_args.before_end
        or parsed_args.event
        or parsed_args.on_end
    )


def _end(lease: Any, changes: dict[str, Any], end: Any) -> Any:
    """Return when the lease will end."""
    if 'duration' not in changes:
        return end or lease.end_date
    start = changes.get('start', lease.start_date)
    return (arguments.now() if isinstance(start, str) else start) + changes['duration']


def _changed(
    cmd: command.Command,
    lease: Any,
    given: list[dict[str, Any]],
    parsed_args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Return the changes of the reservations that the lease has.

    --on-end alone is for all that the lease has; beside new resources it is for those.
    """
    changed = [_with_type(cmd, lease, each) for each in given if 'id' in each]
    new = [each for each in given if 'id' not in each] + resources.list_types(parsed_args)
    if parsed_args.on_end and not changed and not new:
        live = [each for each in lease.reservations if each.status in reservation.LIVE]
        changed = [{'resource_type': resources.type_of(each), 'id': each.id} for each in live]
    resources.check_on_end(parsed_args, [*changed, *new])
    changed = [resources.on_end(parsed_args, each) | each for each in changed]
    for each in changed:
        del each['resource_type']
    return [each for each in changed if len(each) > 1]


def _with_type(cmd: command.Command, lease: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Add to what is given for a reservation of the lease its id and its type.

    The flavor of capacity is sent by its id, so that the service says what can be changed.
    """
    found = reservation.select(lease, given['id'])
    values = given | {'id': found.id, 'resource_type': resources.type_of(found)}
    if found.resource_type == resource_types.CAPACITY and 'flavor' in values:
        name = values.pop('flavor')
        text = f'id={found.id},flavor={name}'
        values['flavor_id'] = hosts.flavor_id(cmd, '--reservation', text, name)
    return values


def _events(lease: Any, given: list[dict[str, Any]], alone: bool) -> list[dict[str, Any]] | None:
    """Return the new events, after those that users gave before unless ``alone``."""
    if not given and not alone:
        return None
    return [*([] if alone else _given(lease)), *given]


def _without(lease: Any, types: list[str]) -> list[dict[str, Any]]:
    events = _given(lease)
    known = {each['event_type'] for each in events}
    for each in types:
        if each not in known:
            raise exceptions.CommandError(
                f'--event {each}: the lease has no such event to come, only '
                f'{", ".join(sorted(known)) or "none"}.'
            )
    return [each for each in events if each['event_type'] not in types]


def _given(lease: Any) -> list[dict[str, Any]]:
    """Return the events that users gave and that are to come."""
    return [
        {'event_type': each.event_type, 'time': each.time}
        for each in lease.events
        if each.is_by_user and each.status == 'UNDONE'
    ]
