# SPDX-License-Identifier: Apache-2.0
"""Nodes of nova-compute, as Nova and Placement report them, and their properties. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from climate_core.plugins.filters import NODE_FACTS, parse_number

#: The amounts that every host has -> the resource classes of Placement.
_AMOUNTS: Final = {'vcpus': 'VCPU', 'memory_mb': 'MEMORY_MB', 'disk_gb': 'DISK_GB'}
_AMOUNT_NAMES: Final = {each: name for name, each in _AMOUNTS.items()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a nova-compute, as Nova and Placement report it.

    :param capacity: the capacity for its servers, by the names of amounts
    :param details: the facts that have no columns, and other shown details
    """

    hypervisor_hostname: str
    service_name: str
    capacity: Mapping[str, int]
    details: Mapping[str, Any]

    def properties(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties for filters: facts and extra properties, numbers as numbers."""
        names = {
            'hypervisor_hostname': self.hypervisor_hostname,
            'service_name': self.service_name,
        }
        facts = {name: self.details[name] for name in NODE_FACTS if name in self.details}
        return {name: parse_number(value) for name, value in extra.items()} | facts | names


def describe_node(
    hypervisor: Mapping[str, Any],
    service: Mapping[str, Any],
    aggregates: Iterable[str],
    capacity: Mapping[str, int],
    traits: Iterable[str],
    root_traits: Iterable[str] = (),
    divided: Iterable[str] = (),
    units: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Node:
    """Describe a node from responses of Nova and Placement.

    :param hypervisor: as ``/os-hypervisors/detail`` shows it up to microversion 2.87
    :param service: as ``/os-services`` shows it
    :param aggregates: names of its host aggregates
    :param capacity: by resource class: what can be claimed
    :param root_traits: those of its root provider alone
    :param divided: the resource classes that several of its providers have
    :param units: by resource class, the least and the most that one server may have, and the step
        of what is between, where that excludes something
    """
    cpu = hypervisor.get('cpu_info') or {}
    details = {
        'hypervisor_type': hypervisor['hypervisor_type'],
        'hypervisor_version': hypervisor['hypervisor_version'],
        'vcpus': hypervisor['vcpus'],
        'memory_mb': hypervisor['memory_mb'],
        'local_gb': hypervisor['local_gb'],
        'cpu_info': cpu,
        **{f'cpu_{name}': cpu[name] for name in ('arch', 'model', 'vendor') if cpu.get(name)},
        'availability_zone': service.get('zone'),
        'state': hypervisor['state'],
        'status': hypervisor['status'],
        'traits': sorted(traits),
        'aggregates': sorted(aggregates),
        'root_traits': sorted(root_traits),
        'divided': sorted(divided),
        'units': _unit_sizes(units),
    }
    return Node(
        hypervisor_hostname=hypervisor['hypervisor_hostname'],
        service_name=hypervisor['service']['host'],
        capacity=unit_amounts(capacity),
        details=details,
    )


def with_unit_sizes(node: Node, units: Mapping[str, Sequence[int]]) -> Node:
    """Return a node with other limits of the size of a server."""
    return dataclasses.replace(node, details={**node.details, 'units': _unit_sizes(units)})


def _unit_sizes(units: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {_AMOUNT_NAMES.get(name, name): list(each) for name, each in units.items()}


def unit_amounts(capacity: Mapping[str, int]) -> dict[str, int]:
    """Return amounts of a unit; of resource classes that have no amount, by the classes.

    :param capacity: by the resource classes of Placement
    """
    others = {name: each for name, each in capacity.items() if name not in _AMOUNTS.values()}
    return {name: capacity.get(each, 0) for name, each in _AMOUNTS.items()} | others
