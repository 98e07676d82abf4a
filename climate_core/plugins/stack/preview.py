# SPDX-License-Identifier: Apache-2.0
"""Read from Heat's preview of a stack what its servers and volumes will need.

Heat shows each resource with its properties, and what is nested as a list of such
(heat/engine/api.py ``format_stack_preview``). A property that comes from a resource that is not
there yet is null. A resource whose members Heat cannot tell is shown as it is, and counts nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from climate_common import limits, resource_types
from climate_core.lease import model

_SERVER: Final = 'OS::Nova::Server'
_VOLUME: Final = 'OS::Cinder::Volume'


def parts(resources: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return what is made with a stack and needs room, by type.

    :param resources: those of a preview
    :returns: for each server and volume what a reservation keeps that has it made; of one that is
        not known yet only :data:`climate_core.lease.model.UNKNOWN`
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for each in _flat(resources):
        properties = each.get('properties') or {}
        name = str(each.get('resource_name') or each.get('resource_type'))
        if each.get('resource_type') == _SERVER:
            found.setdefault(resource_types.SERVER, []).append(_server(name, properties))
        elif each.get('resource_type') == _VOLUME:
            found.setdefault(resource_types.VOLUME, []).append(_volume(name, properties))
    return found


def _flat(resources: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for each in resources:
        if isinstance(each, Mapping):
            yield each
        elif isinstance(each, list):
            yield from _flat(each)


def _server(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if not _is_name(properties.get('flavor')):
        return {model.UNKNOWN: f'flavor of {name}'}
    wanted: dict[str, Any] = {'flavorRef': properties['flavor']}
    disks = properties.get('block_device_mapping_v2') or properties.get('block_device_mapping')
    if disks and not properties.get('image'):
        # Its root disk takes nothing of its host.
        wanted['block_device_mapping_v2'] = []
    if _is_name(properties.get('availability_zone')):
        wanted['availability_zone'] = properties['availability_zone']
    return {'server': wanted}


def _volume(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if not properties.get('size'):
        return {model.UNKNOWN: f'size of {name}'}
    wanted: dict[str, Any] = {'size': int(properties['size'])}
    if _is_name(properties.get('volume_type')):
        wanted['volume_type'] = properties['volume_type']
    return {'volume': wanted}


def _is_name(value: Any) -> bool:
    """Return whether a property can be the name of something; a longer one is not stored."""
    return isinstance(value, str | int) and 0 < len(str(value)) <= limits.NAME_LENGTH
