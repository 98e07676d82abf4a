# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools, and what demands look at: pure.

A host is one node of a nova-compute. What Nova and Placement say of it are its details; what the
operator adds are its extra properties. Both are flat, so that a filter can name each of them.
"""

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from climate_core import exceptions

#: The kind of the units of hosts.
KIND: Final = 'host'
DEFAULT_POOL: Final = 'default'
#: The reason of a shared host that an operator has disabled without one.
DISABLED: Final = 'The host is disabled.'
#: The reason of a host that was refused to be taken out when that was done in part.
STAYING: Final = 'The host was not taken out of its pool: it has servers.'


class State(enum.StrEnum):
    """What is done with a host, or was found of it. It takes promises only if it is ENROLLED."""

    #: It is put into its pool.
    ENROLLING = 'enrolling'
    #: That failed, and it could not be given back yet.
    NOT_ENROLLED = 'not_enrolled'
    ENROLLED = 'enrolled'
    #: Its nova-compute is down, or it is up again and not empty yet.
    FAILED = 'failed'
    #: Its servers leave it: for a lease if it is a shared host, else so that it is in its pool.
    EMPTYING = 'emptying'
    #: A shared host is given back to ordinary servers.
    RETURNING = 'returning'
    #: It is taken out of its pool.
    LEAVING = 'leaving'


#: Why a host takes no promises in a state, unless that says more.
_REASONS: Final = {
    State.ENROLLING: 'The host is being enrolled.',
    State.NOT_ENROLLED: 'The host could not be enrolled.',
    State.RETURNING: 'The host is being given back to ordinary servers.',
    State.LEAVING: 'The host is being taken out of its pool.',
}

#: The details that filters can name, beside the extra properties.
FACTS: Final = (
    'hypervisor_hostname',
    'service_name',
    'hypervisor_type',
    'hypervisor_version',
    'vcpus',
    'memory_mb',
    'local_gb',
    'cpu_arch',
    'cpu_model',
    'cpu_vendor',
    'availability_zone',
    'traits',
    'aggregates',
    'root_traits',
    'divided',
    'units',
)
#: What the API shows of a host, or its clients send, by other means than an extra property.
OWN_FIELDS: Final = frozenset(
    {
        *FACTS,
        'id',
        'name',
        'pool',
        'reservable',
        'disabled',
        'disabled_reason',
        'capacity',
        'lanes',
        'shared',
        'empty',
        'cpu_info',
        'status',
        'state',
        'trust_id',
        'created_at',
        'updated_at',
        'values',
    }
)
#: The name of an extra property.
PROPERTY_PATTERN: Final = r'[A-Za-z][A-Za-z0-9_.:-]{0,63}'

#: Amounts of a unit that every host has -> the resource classes of Placement.
_AMOUNTS: Final = {'vcpus': 'VCPU', 'memory_mb': 'MEMORY_MB', 'disk_gb': 'DISK_GB'}
_NAMES: Final = {each: name for name, each in _AMOUNTS.items()}
_NUMBER: Final = re.compile(r'[+-]?\d{1,18}(\.\d{1,18})?', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What Nova and Placement know of one node.

    :param capacity: what its servers can have of it, by the names of amounts
    :param details: the facts that are no columns of their own, and what else is shown
    """

    hypervisor_hostname: str
    service_name: str
    capacity: Mapping[str, int]
    details: Mapping[str, Any]

    def properties(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Return what filters see: the facts and the extra properties, numbers as numbers."""
        names = {
            'hypervisor_hostname': self.hypervisor_hostname,
            'service_name': self.service_name,
        }
        facts = {name: self.details[name] for name in FACTS if name in self.details}
        return {name: number(value) for name, value in extra.items()} | facts | names


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A pool of hosts.

    :param hosts: how many it has
    :param project_ids: with those of ``domain_ids`` the projects that may use it; none: all
    :param generation: counts the changes of who may use it
    """

    name: str
    hosts: int
    project_ids: Sequence[str] = ()
    domain_ids: Sequence[str] = ()
    generation: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host(Known):
    """A host of a pool.

    :param id: of its unit in the calendar
    :param available: whether it takes new promises
    :param provider_id: the root provider in Placement
    :param lane_ids: its lanes in Placement, in the order of their numbers
    :param extra: the properties that the operator gave it, as they were given
    :param disabled_reason: what its operator said when it was disabled, or why it failed
    :param emptied_for: the id of the lease for which its servers leave it
    :param takes_ordinary: whether ordinary servers may run on a shared host now, because no lease
        has it; None: it is not shared, and they may not
    """

    id: int
    pool: str
    available: bool
    provider_id: str
    lane_ids: tuple[str, ...]
    extra: Mapping[str, Any]
    state: State = State.ENROLLED
    disabled_reason: str | None = None
    emptied_for: str | None = None
    takes_ordinary: bool | None = None
    created_at: datetime
    updated_at: datetime | None = None

    @property
    def reason(self) -> str | None:
        """Return why it takes no promises; None: it takes some, or the reason is not known."""
        match self.state:
            case State.ENROLLED:
                return self.disabled_reason
            case State.FAILED:
                return f'Failed: {self.disabled_reason}'
            case State.EMPTYING if self.emptied_for is not None:
                return f'The host is being emptied for lease {self.emptied_for}'
            case State.EMPTYING:
                return f'The host is being emptied. {self.disabled_reason or ""}'.strip()
        return _REASONS[self.state]

    @property
    def is_leaving(self) -> bool:
        """Return whether it is being taken out of its pool."""
        return self.state is State.LEAVING

    @property
    def is_new(self) -> bool:
        """Return whether its enrolment has not ended, or has failed."""
        return self.is_emptied or self.state in (State.ENROLLING, State.NOT_ENROLLED)

    @property
    def is_emptied(self) -> bool:
        """Return whether its servers leave it so that it is in its pool."""
        return self.state is State.EMPTYING and self.emptied_for is None

    @property
    def is_kept(self) -> bool:
        """Return whether ordinary servers are to be kept off it."""
        given_back = (State.RETURNING, State.LEAVING, State.NOT_ENROLLED)
        return not self.takes_ordinary and self.state not in given_back

    @property
    def is_enabled(self) -> bool:
        """Return whether it takes promises, now or once no ordinary servers run there."""
        enabled = self.state is State.ENROLLED and self.disabled_reason is None
        return self.available or (bool(self.takes_ordinary) and enabled)

    @property
    def is_returning(self) -> bool:
        """Return whether it is being given back to ordinary servers."""
        return self.state is State.RETURNING

    @property
    def is_shared(self) -> bool:
        """Return whether ordinary servers may run there while no lease has it."""
        return self.takes_ordinary is not None

    @property
    def failed(self) -> bool:
        """Return whether it takes no promises because it failed, not because it is disabled."""
        return self.state is State.FAILED

    def knows(self, known: Known) -> bool:
        """Tell whether it is as Nova and Placement know it."""
        return all(
            getattr(self, each.name) == getattr(known, each.name)
            for each in dataclasses.fields(Known)
        )


def describe(
    hypervisor: Mapping[str, Any],
    service: Mapping[str, Any],
    aggregates: Iterable[str],
    capacity: Mapping[str, int],
    traits: Iterable[str],
    root_traits: Iterable[str] = (),
    divided: Iterable[str] = (),
    units: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Known:
    """Build what is known of a node from the answers of Nova and Placement.

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
        'units': _units(units),
    }
    return Known(
        hypervisor_hostname=hypervisor['hypervisor_hostname'],
        service_name=hypervisor['service']['host'],
        capacity=amounts(capacity),
        details=details,
    )


def with_units(known: Known, units: Mapping[str, Sequence[int]]) -> Known:
    """Return what is known of a node, with how much of it one server may have."""
    return dataclasses.replace(known, details={**known.details, 'units': _units(units)})


def _units(units: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {_NAMES.get(name, name): list(each) for name, each in units.items()}


def amounts(capacity: Mapping[str, int]) -> dict[str, int]:
    """Return amounts of a unit; of resource classes that have no amount, by the classes.

    :param capacity: by the resource classes of Placement
    """
    others = {name: each for name, each in capacity.items() if name not in _AMOUNTS.values()}
    return {name: capacity.get(each, 0) for name, each in _AMOUNTS.items()} | others


def number(value: Any) -> Any:
    """Return the number that a text is, so that "16" is more than "9"; else the value as it is."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    return float(value) if '.' in value else int(value)


def check_reason(reason: str | None, available: bool) -> None:
    """Refuse a reason for which a host is disabled if it is not.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    if available and reason:
        raise exceptions.BadRequest(
            'disabled_reason: goes with disabled: true, or with a host that is disabled.',
            field='disabled_reason',
        )


def check_not_emptied(host: Host) -> None:
    """Refuse to change a host while its servers leave it for a lease.

    :raises climate_core.exceptions.HostChanging: they do
    """
    if host.emptied_for is not None:
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} is being emptied for lease {host.emptied_for}. Wait '
            'for that, or end the lease.'
        )


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extra properties whose names are no names, or those of something else.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    for name in extra:
        if name in OWN_FIELDS:
            raise exceptions.BadRequest(
                f'{name}: comes from Nova or Placement; an extra property must have another name.',
                field=name,
            )
        if not re.fullmatch(PROPERTY_PATTERN, name):
            raise exceptions.BadRequest(
                f'{name}: must begin with a letter and have only letters, digits and "_.:-", 64 '
                'characters at most.',
                field=name,
            )
