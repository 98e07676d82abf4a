# SPDX-License-Identifier: Apache-2.0
"""Read the forms of requests that only clients of Blazar send. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from climate_common import amounts, limits, resource_types
from climate_core import exceptions
from climate_core.lease.errors import prefix_field

#: The fields that give the size of the servers.
_SIZES: Final = frozenset({amounts.VCPUS, amounts.MEMORY_MB, amounts.DISK_GB})
#: Fields of Blazar's reservations that its command line always sends, with what it sends if the
#: user gives nothing (python-blazarclient 4.6.0, v1/shell_commands/leases.py).
_NOTHING = {
    'vcpus': '',
    'memory_mb': '',
    'disk_gb': '',
    'amount': '',
    'affinity': 'None',
    'resource_properties': '',
}
#: Types that are another form of one of the API -> how they are asked for.
_FORMS = {
    resource_types.SIZES: f'room for servers by their sizes is {resource_types.SERVER}, without a '
    'resource_id',
    resource_types.HELD_FLOATING_IP: f'a floating IP that you have is '
    f'{resource_types.FLOATING_IP}, with its resource_id',
}


def convert_reservations(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert each item of a list with :func:`reservation`; errors name its place."""
    found = []
    for number, values in enumerate(listed):
        with prefix_field(f'reservations[{number}]'):
            found.append(convert_reservation(values))
    return found


def convert_reservation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a reservation of Blazar's clients to the fields of our API.

    It sends a filter of resources, ``resource_properties``; the one that names a resource,
    ``["==", "$id", "<id>"]``, is understood as ``resource_id``. A ``virtual:instance`` without one
    that has sizes is room for servers, of a type of its own, and so is a ``virtual:floatingip``
    with one. Everything else stays, to be judged as it is.

    :raises climate_core.exceptions.UnknownResourceType: it names that type itself
    """
    kind = values.get('resource_type')
    if kind in _FORMS:
        raise exceptions.UnknownResourceType(
            f'resource_type: {_FORMS[kind]}, and not {kind}.', field='resource_type'
        )
    if kind == resource_types.NETWORK:
        # It names a segment, and not what is reserved.
        return dict(values)
    wanted = _requested_id(values.get('resource_properties'))
    if 'resource_id' in values:
        held = {'resource_type': resource_types.HELD_FLOATING_IP}
        return {**values, **(held if kind == resource_types.FLOATING_IP else {})}
    if wanted is None:
        return _by_sizes(values)
    rest = {
        name: value
        for name, value in values.items()
        if name != 'resource_properties' and (name not in _NOTHING or value != _NOTHING[name])
    }
    return {**rest, 'resource_id': wanted}


def _by_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name for name in _SIZES if values.get(name) not in (None, '')}
    if values.get('resource_type') != resource_types.SERVER or not given:
        return dict(values)
    # What is not said comes as an empty text, and from Heat as null.
    said = {name: value for name, value in values.items() if value is not None and value != ''}
    return {**said, 'resource_type': resource_types.SIZES}


def _requested_id(text: Any) -> str | None:
    try:
        filtered = limits.decode(text)
    except (TypeError, ValueError):
        return None
    match filtered:
        case ['=' | '==', '$id', str(wanted)]:
            return wanted
    return None
