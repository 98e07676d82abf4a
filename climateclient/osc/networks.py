# SPDX-License-Identifier: Apache-2.0
"""The option ``--network``: networks on segments that the calendar allocates."""

import argparse
from typing import Any, Final

from climate_common import limits, resource_types
from climateclient.osc import specification

#: The key -> the property of the reservation.
_KEYS: Final = {
    'name': 'network_name',
    'description': 'network_description',
    'tag': 'network_tags',
    'network_type': 'network_type',
    'physical_network': 'physical_network',
    'segment': 'segment_id',
}
OPTION: Final = specification.Option(
    '--network',
    resource_types.NETWORK,
    'name=net1,physical_network=physnet1',
    tuple(_KEYS),
    ('tag',),
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    OPTION.add(
        parser,
        'Reserve a network on a dedicated segment; also network_type, segment=<number>, '
        'extra properties of segments as <property><operator><value> such as switch==tor1, '
        'description, and tag=<tag>, which can be repeated (repeat for several)',
    )


def reservations(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservations of the option.

    :raises CommandError: something cannot be read
    """
    return OPTION.reservations(parsed_args, _reservation)


def _reservation(text: str, _name: str | None) -> dict[str, Any]:
    own: list[str] = []
    compared: list[str] = []
    for part in text.split(','):
        found = limits.parse_condition(part)
        is_own = found is None or (found.operator == '=' and found.name in _KEYS)
        (own if is_own else compared).append(part.strip())
    given = OPTION.read(','.join(own), {'name': 'name'})
    made: dict[str, Any] = {_KEYS[key]: value for key, value in given.items()}
    if 'segment' in given:
        made['segment_id'] = OPTION.number(text, 'segment', given['segment'])
    if compared:
        made['resources'] = compared
    return made
