# SPDX-License-Identifier: Apache-2.0
"""Convert the requests of Blazar's clients to the fields of this API. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.lease.request import prefix_field

#: The fields of the sizes of servers.
_SIZES: Final = frozenset({resource_types.VCPUS, resource_types.MEMORY_MB, resource_types.DISK_GB})
#: Fields that Blazar's command line always sends -> the value of an omitted option
#: (python-blazarclient 4.6.0, v1/shell_commands/leases.py).
_OMITTED = {
    'vcpus': '',
    'memory_mb': '',
    'disk_gb': '',
    'amount': '',
    'affinity': 'None',
    'resource_properties': '',
}
#: Types that are internal -> how requests name them.
_INTERNAL_TYPES = {
    resource_types.SIZES: f'room for servers by their sizes is {resource_types.SERVER}, without a '
    'resource_id',
    resource_types.HELD_FLOATING_IP: f'a floating IP that you have is '
    f'{resource_types.FLOATING_IP}, with its resource_id',
}


def convert_reservations(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert each item of a list with :func:`convert_reservation`; errors name its place."""
    converted = []
    for number, values in enumerate(listed):
        with prefix_field(f'reservations[{number}]'):
            converted.append(convert_reservation(values))
    return converted


def convert_reservation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a reservation of Blazar's clients to the fields of this API.

    Blazar filters resources by ``resource_properties``; the filter ``["==", "$id", "<id>"]`` is
    ``resource_id`` here. Two forms have an internal type: ``virtual:instance`` with sizes and
    without a resource, which is capacity for servers, and ``virtual:floatingip`` with a resource.
    Other fields stay as they are, for the schemas to validate.

    :raises climate_core.exceptions.UnknownResourceType: the request names an internal type
    """
    kind = values.get('resource_type')
    if kind in _INTERNAL_TYPES:
        raise exceptions.UnknownResourceType(
            f'resource_type: {_INTERNAL_TYPES[kind]}, and not {kind}.', field='resource_type'
        )
    if kind == resource_types.NETWORK:
        # Its resource_properties choose a segment.
        return dict(values)
    resource_id = _requested_id(values.get('resource_properties'))
    if 'resource_id' in values:
        held = {'resource_type': resource_types.HELD_FLOATING_IP}
        return {**values, **(held if kind == resource_types.FLOATING_IP else {})}
    if resource_id is None:
        return _by_sizes(values)
    rest = {
        name: value
        for name, value in values.items()
        if name != 'resource_properties' and (name not in _OMITTED or value != _OMITTED[name])
    }
    return {**rest, 'resource_id': resource_id}


def _by_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name for name in _SIZES if values.get(name) not in (None, '')}
    if values.get('resource_type') != resource_types.SERVER or not given:
        return dict(values)
    # Clients send omitted fields as empty strings, Heat sends null.
    sent = {name: value for name, value in values.items() if value is not None and value != ''}
    return {**sent, 'resource_type': resource_types.SIZES}


def _requested_id(text: Any) -> str | None:
    try:
        condition = limits.decode(text)
    except (TypeError, ValueError):
        return None
    match condition:
        case ['=' | '==', '$id', str(resource_id)]:
            return resource_id
    return None
