# SPDX-License-Identifier: Apache-2.0
"""The flavors of reservations of capacity, and how the API shows them. Pure.

Each reservation has a private flavor, whose id is that of the reservation, for its servers. What
it gives them is that of the source, the flavor of the request, or given by sizes. A flavor is a
mapping here, with the names of the fields in nova-api.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from climate_common import limits, resource_types

#: The source in the params of a reservation. It may be changed or deleted in Nova.
_SOURCE: Final = '_flavor'
#: Whether the user who created the reservation must not see the extra specs of the source.
_HIDDEN: Final = '_specs_hidden'
_SPECS: Final = 'extra_specs'
#: The fields of the source that are stored, and that Blazar shows.
_FIELDS: Final = (
    *('id', 'name', 'vcpus', 'ram', 'disk', 'swap', 'OS-FLV-EXT-DATA:ephemeral'),
    *('OS-FLV-DISABLED:disabled', 'os-flavor-access:is_public', 'rxtx_factor', _SPECS),
)
#: The fields of a reservation that filter hosts and have the conditions as JSON.
_CONDITIONS: Final = ('hypervisor_properties', 'resource_properties')


def source_params(flavor: Mapping[str, Any], hidden: bool) -> dict[str, Any]:
    """Return the params of a reservation for the flavor of the request.

    :param flavor: as nova-api shows it at microversion 2.61 or later
    :param hidden: whether the user must not see its extra specs
    """
    stored = {_SOURCE: {name: flavor[name] for name in _FIELDS if name in flavor}}
    return {**stored, _HIDDEN: True} if hidden else stored


def source(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the flavor of the request."""
    flavor: Mapping[str, Any] = params[_SOURCE]
    return flavor


def by_sizes(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the flavor of a reservation by sizes."""
    return {
        'vcpus': params[resource_types.VCPUS],
        'ram': params[resource_types.MEMORY_MB],
        'disk': params[resource_types.DISK_GB],
        'OS-FLV-EXT-DATA:ephemeral': params.get('ephemeral_gb', 0),
        'swap': 0,
        _SPECS: params.get(_SPECS, {}),
    }


def view(params: Mapping[str, Any], reservation_id: str) -> dict[str, Any]:
    """Return what Blazar's clients read of a reservation of capacity.

    The flavor is the only one of the three that is created in Nova.
    """
    shown = {'flavor_id': reservation_id, 'aggregate_id': None, 'server_group_id': None}
    return shown | (_view_source(params) if _SOURCE in params else {})


def _view_source(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source in ``resource_properties``; the conditions are in the other field."""
    flavor = source(params)
    conditions = [text for text in map(params.get, _CONDITIONS) if text]
    joined = ''.join(conditions[:1])
    if len(conditions) > 1:
        joined = f'["and", {", ".join(conditions)}]'
    return {
        resource_types.VCPUS: flavor['vcpus'],
        resource_types.MEMORY_MB: flavor['ram'],
        resource_types.DISK_GB: flavor['disk'],
        'hypervisor_properties': joined,
        'resource_properties': json.dumps(
            {**flavor, _SPECS: {}} if params.get(_HIDDEN) else flavor
        ),
    }


def drop_shown(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a request without a source that a response showed.

    Clients send back what they read. A condition is never a JSON object.
    """
    name = _CONDITIONS[1]
    try:
        is_shown = isinstance(limits.decode(values.get(name) or ''), dict)
    except (TypeError, ValueError):
        return values
    return {key: value for key, value in values.items() if key != name} if is_shown else values
