# SPDX-License-Identifier: Apache-2.0
"""Options for the resources of a lease: ``--server``, ``--reservation``, ``--on-end`` ..."""

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from climate_common import resource_types
from climateclient import models
from climateclient.osc import (
    arguments,
    floating_ips,
    hosts,
    networks,
    new_floating_ips,
    new_servers,
    new_volumes,
    options,
    stack_template,
)

#: The types of resources that are named by an option, and its name.
_NAMED = {
    resource_types.SERVER: 'server',
    resource_types.VOLUME: 'volume',
    resource_types.STACK: 'stack',
    resource_types.HELD_FLOATING_IP: 'floating IP',
}
#: All types of resources that have an option, as people say them.
NOUNS = {**_NAMED, resource_types.HOST: 'host', resource_types.CAPACITY: 'capacity'}
_LEAVE = ', because the servers must leave hosts that are allocated to other leases'
_WHY = {resource_types.HOST: _LEAVE, resource_types.CAPACITY: _LEAVE}


def add_resources(parser: argparse.ArgumentParser, or_id: bool = False) -> None:
    """Add the options for resources to reserve; with ``or_id`` also to change reservations."""
    change = '; with id=<id> instead, change a reservation of the lease' if or_id else ''
    parser.add_argument(
        '--server',
        metavar='<server>',
        action='append',
        default=[],
        help='Reserve a server in the status RESERVED: its name or id (repeat for several)',
    )
    parser.add_argument(
        '--volume',
        metavar='<volume>',
        action='append',
        default=[],
        help='Reserve a volume in the status lease-reserved: its name or id (repeat for several)',
    )
    parser.add_argument(
        '--stack',
        metavar='<stack>',
        action='append',
        default=[],
        help='Reserve a Heat stack with reserved servers or volumes: its name or id (repeat for '
        'several)',
    )
    parser.add_argument(
        '--floating-ip',
        metavar='<floating-ip>',
        action='append',
        default=[],
        help='Reserve a floating IP of the project, which ends with the lease: its address or id'
        ' (repeat for several)',
    )
    stack_template.add_options(parser)
    new_servers.add_option(parser)
    new_volumes.add_option(parser)
    hosts.add_options(parser)
    floating_ips.add_option(parser)
    networks.add_option(parser)
    parser.add_argument(
        '--reservation',
        metavar='resource_type=<type>,resource_id=<id>[,<key>=<value>...]',
        action='append',
        default=[],
        help='Reserve a resource of any type; accepts a JSON object, too (repeat for several)'
        + change,
    )
    add_on_end(
        parser,
        'End action of the resources of this command (default: as configured in the service)'
        + ('; if none is given, to those that the lease has' if or_id else ''),
    )


def add_on_end(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option for the end of resources, which :func:`on_end` reads."""
    words = [
        f'{noun}: {", ".join(resource_types.ON_END[resource_type])}'
        for resource_type, noun in NOUNS.items()
    ]
    parser.add_argument(
        '--on-end',
        metavar='<action>',
        choices=list(
            dict.fromkeys(
                word
                for resource_type, _ in NOUNS.items()
                for word in resource_types.ON_END[resource_type]
            )
        ),
        action='append',
        default=[],
        help=f'{text}. {"; ".join(words)}. The last action that a resource type has applies to it'
        ' (repeat for several types)',
    )


def reservations(
    parsed_args: argparse.Namespace, given: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the reservations of --reservation and --stack-template, with their --on-end.

    :param given: those of --reservation, if they have been read already
    :raises CommandError: no resource of the command takes an --on-end; a file cannot be read
    """
    if given is None:
        given = [arguments.reservation(text) for text in parsed_args.reservation]
        check_on_end(parsed_args, [*given, *list_types(parsed_args)])
    given = [*given, *stack_template.reservation(parsed_args)]
    return [on_end(parsed_args, each) | each for each in given]


def named(cmd: command.Command, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of all options with names; asks the services for ids."""
    found = [
        {
            'resource_type': resource_types.api_name(resource_type),
            'resource_id': find(cmd, resource_type, name),
        }
        for resource_type, name in _named(parsed_args)
    ]
    found += hosts.reservations(cmd, parsed_args)
    found += floating_ips.reservations(cmd, parsed_args)
    found += networks.reservations(parsed_args)
    found += new_servers.reservations(cmd, parsed_args)
    found += new_volumes.reservations(cmd, parsed_args)
    return [on_end(parsed_args, each) | each for each in found]


def list_types(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the types of the resources that the options name, in order."""
    made = stack_template.list_types(parsed_args) + hosts.list_types(parsed_args)
    for each in (floating_ips, networks, new_servers, new_volumes):
        made += each.OPTION.list_types(parsed_args)
    made += new_floating_ips.list_types(parsed_args)
    return [{'resource_type': each} for each, _ in _named(parsed_args)] + made


def on_end(parsed_args: argparse.Namespace, reservation: Mapping[str, Any]) -> dict[str, str]:
    """Return the last --on-end that the type of a reservation knows; nothing if there is none."""
    known = resource_types.ON_END.get(_type_of_ends(reservation), ())
    words = [word for word in parsed_args.on_end if word in known]
    return {'on_end': words[-1]} if words else {}


def check_on_end(
    parsed_args: argparse.Namespace, reservations: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse an --on-end that none of the reservations takes.

    :raises CommandError: it says what would take it, and what those that there are take
    """
    types = {_type_of_ends(each) for each in reservations}
    known = ''.join(_taken(resource_type) for resource_type in NOUNS if resource_type in types)
    for word in parsed_args.on_end:
        takers = [
            (resource_type, noun)
            for resource_type, noun in NOUNS.items()
            if word in resource_types.ON_END[resource_type]
        ]
        if not types & {resource_type for resource_type, _ in takers}:
            *others, last = (noun for _, noun in takers)
            nouns = ' or '.join([', '.join(others), last] if others else [last])
            raise exceptions.CommandError(
                f'--on-end {word}: there is no {nouns} to take it.{known}'
            )


def _taken(resource_type: str) -> str:
    noun, (*words, last) = NOUNS[resource_type], resource_types.ON_END[resource_type]
    return (
        f' {noun[0].upper()}{noun[1:]}: {", ".join(words)} or {last}{_WHY.get(resource_type, "")}.'
    )


def type_of(reservation: models.Reservation) -> str:
    """Return the type of a reservation, which differs for floating IPs that existed before."""
    resource_type = reservation.resource_type
    if resource_type == resource_types.FLOATING_IP and 'on_end' in reservation.params:
        return resource_types.HELD_FLOATING_IP
    return resource_type


def _type_of_ends(reservation: Mapping[str, Any]) -> str:
    """Return the type whose ends a reservation can have, see :func:`resource_types.api_name`."""
    resource_type = str(reservation['resource_type'])
    if resource_type == resource_types.FLOATING_IP and 'resource_id' in reservation:
        return resource_types.HELD_FLOATING_IP
    by_sizes = resource_type == resource_types.SERVER and resource_types.VCPUS in reservation
    return resource_types.CAPACITY if by_sizes else resource_type


def _named(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    return [
        (resource_type, name)
        for resource_type, noun in _NAMED.items()
        for name in getattr(parsed_args, noun.lower().replace(' ', '_'))
    ]


def find(cmd: command.Command, resource_type: str, name: str) -> str:
    """Return the id of a resource of a type that :func:`has_name`; asks its service.

    :raises openstack.exceptions.SDKException: none has this name or id, or several have it
    """
    if resource_type == resource_types.SERVER:
        return str(options.clients(cmd).compute.find_server(name, ignore_missing=False).id)
    sdk = options.clients(cmd).sdk_connection
    if resource_type == resource_types.STACK:
        # Outputs may cost Heat many calls, and nobody looks at them here.
        found = sdk.orchestration.find_stack(name, ignore_missing=False, resolve_outputs=False)
        return str(found.id)
    if resource_type == resource_types.HELD_FLOATING_IP:
        # Its name is its address.
        return str(sdk.network.find_ip(name, ignore_missing=False).id)
    return str(sdk.volume.find_volume(name, ignore_missing=False).id)


def find_all(cmd: command.Command, resource_type: str, name: str) -> set[str]:
    """Return the ids of all resources of a type that :func:`has_name` and have this name."""
    from openstack import exceptions as sdk_exceptions

    clients = options.clients(cmd)
    if resource_type == resource_types.SERVER:
        listed = clients.compute.servers(name=name)
    elif resource_type == resource_types.VOLUME:
        listed = clients.sdk_connection.volume.volumes(name=name)
    else:
        # No project has two stacks or addresses of one name.
        with contextlib.suppress(sdk_exceptions.NotFoundException):
            return {find(cmd, resource_type, name)}
        return set()
    return {str(each.id) for each in listed if each.name == name}


def has_name(resource_type: str) -> bool:
    """Return whether the service of a type of resources knows them by names."""
    return resource_type in _NAMED
