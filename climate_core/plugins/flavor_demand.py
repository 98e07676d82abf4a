# SPDX-License-Identifier: Apache-2.0
"""Read what nova-scheduler requests from Placement for a server of a flavor. Pure.

The rules are those of nova/scheduler/utils.py (ResourceRequest) and of the filters after it. Extra
specs that only these filters evaluate, as the CPUs of one NUMA node, are rejected: the calendar
counts what Placement counts.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from climate_common import lanes, limits, resource_types
from climate_core import exceptions
from climate_core.cloud import servers

#: Resource classes -> the names of amounts that the calendar has for them; others keep theirs.
_AMOUNT_NAMES: Final = {
    'VCPU': resource_types.VCPUS,
    'MEMORY_MB': resource_types.MEMORY_MB,
    'DISK_GB': resource_types.DISK_GB,
}
_EXTRA_SPEC: Final = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)')
_TRAIT: Final = re.compile(limits.TRAIT_PATTERN)
_VALUES: Final = ('required', 'forbidden')

_WHOLE_HOSTS: Final = 'Reserve whole hosts (physical:host) for such servers'
_NUMA: Final = f'which CPUs and memory of a NUMA node are free is not known. {_WHOLE_HOSTS}'
_DEVICE: Final = f'which devices are free is not known. {_WHOLE_HOSTS}'
_FILTER: Final = (
    'it is compared with hosts by filters of nova-scheduler after Placement. Request such hosts '
    'by a trait of the flavor (trait:CUSTOM_...: required)'
)
#: Extra specs, or how their names begin if they end with ``*`` -> why they are rejected.
_UNSUPPORTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            'hw:numa_*',
            'hw:mem_page_size',
            'hw:cpu_dedicated_mask',
            'hw:cpu_realtime*',
            'hw:cpu_thread_policy',
            'hw:emulator_threads_policy',
        ),
        _NUMA,
    ),
    **dict.fromkeys(
        (
            'pci_passthrough:*',
            'hw:pci_numa_affinity_policy',
            'hw:pmem',
            'hw:mem_encryption*',
            'accel:*',
        ),
        _DEVICE,
    ),
    **dict.fromkeys(('capabilities:*', 'aggregate_instance_extra_specs:*'), _FILTER),
    **dict.fromkeys(
        (
            'hw:tpm_*',
            'os:secure_boot',
            'hw:maxphysaddr_*',
            'hw:virtio_packed_ring',
            'hw:ephemeral_encryption*',
            'hw:sound_model',
        ),
        f'which hosts can do that is not known. {_WHOLE_HOSTS}',
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorDemand:
    """The demand of one server of a flavor: the amounts it takes, and what its host must be.

    :param piece: amounts by their names; of resource classes that have none, by the classes
    :param required: traits of the root provider
    :param forbidden: traits that no provider of the host may have
    """

    piece: Mapping[str, int]
    required: frozenset[str]
    forbidden: frozenset[str]


def read_demand(flavor: Mapping[str, Any]) -> FlavorDemand:
    """Return what is requested from the calendar for a server of a flavor.

    :param flavor: as nova-api shows it at microversion 2.61 or later, with ``extra_specs``
    :raises climate_core.exceptions.BadRequest: it cannot be reserved; naming the extra spec
    """
    requested: dict[str, int] = {}
    traits: dict[str, set[str]] = {value: set() for value in _VALUES}
    groups: dict[str, set[str]] = {}
    specs = {
        name: str(value)
        for name, value in flavor['extra_specs'].items()
        if name not in lanes.MARKS
    }
    for name, value in specs.items():
        _check(name, value)
        found = _EXTRA_SPEC.fullmatch(name)
        if not found:
            continue
        prefix, group, what = found.groups()
        if prefix == 'trait':
            _check_trait(name, value, group, what)
            traits[value].add(what)
            continue
        amount = _amount(name, value)
        requested[what] = requested.get(what, 0) + amount
        if group and amount:
            groups.setdefault(group, set()).add(name)
    _check_groups(groups, specs.get('group_policy'))
    if 'PCPU' in requested:
        # Nova adds no VCPU to a flavor that sets any of these.
        requested.setdefault('VCPU', 0)
    taken = {_AMOUNT_NAMES.get(each, each): amount for each, amount in requested.items()}
    return FlavorDemand(
        {name: each for name, each in (servers.read_flavor_sizes(flavor) | taken).items() if each},
        frozenset(traits['required']),
        frozenset(traits['forbidden']),
    )


def _check(name: str, value: str) -> None:
    """Reject an extra spec by which Nova chooses hosts and that the calendar cannot evaluate."""
    for refused, reason in _UNSUPPORTED.items():
        if name == refused or (refused.endswith('*') and name.startswith(refused[:-1])):
            raise _reject(name, reason)
    if name == 'hw:cpu_policy' and value != 'shared':
        raise _reject(name, _NUMA)
    if ':' not in name and name != 'group_policy':
        raise _reject(name, _FILTER)


def _check_trait(name: str, value: str, group: str | None, trait: str) -> None:
    if group:
        raise _reject(name, f'which provider of a host has it is not known. {_WHOLE_HOSTS}')
    if value not in _VALUES or not _TRAIT.fullmatch(trait):
        raise _reject(
            name, 'it must be trait:<name of a trait>, and its value "required" or "forbidden"'
        )


def _amount(name: str, value: str) -> int:
    try:
        amount = int(value)
    except ValueError:
        amount = -1
    if not 0 <= amount < 2**31:
        raise _reject(name, f'its value must be a number of 0 or more, not {value!r:.80}')
    if name.endswith(':PCPU') and amount:
        raise _reject(name, _NUMA)
    return amount


def _check_groups(groups: Mapping[str, set[str]], policy: str | None) -> None:
    """Reject groups that mean more than their sum: one provider for several, or another for each.

    :param groups: the extra specs of each
    """
    for names in groups.values():
        if len(names) > 1:
            raise _reject(
                min(names),
                'a group with several resource classes must be of one provider. Give each class a '
                'separate group, or none',
            )
    if len(groups) > 1 and policy != 'none':
        raise _reject('group_policy', 'with several groups it must be "none"')


def _reject(name: str, reason: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(
        'flavor_id: capacity for servers of this flavor cannot be reserved because of its extra '
        f'spec {name}: {reason}.',
        field='flavor_id',
    )
