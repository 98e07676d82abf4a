# SPDX-License-Identifier: Apache-2.0
"""The values that the lease service returns about hosts. All times are timezone-aware, in UTC."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from climateclient.models import time_of


@dataclass(frozen=True, slots=True)
class HostPool:
    """A pool of hosts, and which projects, or projects of which domains, may use it.

    Without any of both all may. ``generation`` counts the changes of that.
    """

    name: str
    hosts: int = 0
    project_ids: tuple[str, ...] = ()
    domain_ids: tuple[str, ...] = ()
    generation: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        return cls(
            data['name'],
            data.get('hosts', 0),
            tuple(data.get('project_ids', ())),
            tuple(data.get('domain_ids', ())),
            data.get('generation', 0),
        )


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a pool: what Nova and Placement say of it, and what the operator adds.

    ``reservable`` is whether it gets new allocations. ``vcpus``, ``memory_mb`` and ``local_gb``
    are the size of the machine, ``capacity`` is what shares of it can have. ``lanes`` is how
    many leases have room on it at once. ``shared`` is whether ordinary servers may run there while
    no lease has it. ``state`` and ``status`` are those of its nova-compute. ``power`` is whether
    the host is switched off until a lease needs it: awake, falling_asleep, asleep or waking;
    ``kept_on`` is whether an operator keeps it from that.
    ``extra`` holds the properties that the operator gave it.
    """

    id: str
    hypervisor_hostname: str
    service_name: str
    reservable: bool
    pool: str | None = None
    disabled_reason: str | None = None
    hypervisor_type: str | None = None
    hypervisor_version: int | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    local_gb: int | None = None
    availability_zone: str | None = None
    state: str | None = None
    status: str | None = None
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    lanes: int | None = None
    shared: bool = False
    power: str = 'awake'
    kept_on: bool = False
    cpu_info: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        names = {each.name for each in dataclasses.fields(cls)} - {'extra'}
        own = {name: value for name, value in body.items() if name in names and value is not None}
        read = {
            'created_at': time_of(body.get('created_at')),
            'updated_at': time_of(body.get('updated_at')),
            'traits': tuple(body.get('traits') or ()),
            'aggregates': tuple(body.get('aggregates') or ()),
            'cpu_info': json.loads(body.get('cpu_info') or '{}'),
            'extra': {name: value for name, value in body.items() if name not in names},
        }
        return cls(**{**own, **read})


@dataclass(frozen=True, slots=True)
class HostUsage:
    """For how many hours of a period a host was switched off, and the energy that saved.

    ``saved_kwh`` is None where it is not known.
    """

    hypervisor_hostname: str
    start: datetime.datetime | None
    end: datetime.datetime | None
    asleep_hours: float
    saved_kwh: float | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            body['hypervisor_hostname'],
            time_of(body['start']),
            time_of(body['end']),
            body['asleep_hours'],
            body.get('saved_kwh'),
        )


@dataclass(frozen=True, slots=True)
class HostReservation:
    """A reservation that a host is allocated to, in the time of its lease."""

    id: str
    lease_id: str
    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    lease_name: str = ''

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            id=body['id'],
            lease_id=body['lease_id'],
            start_date=time_of(body.get('start_date')),
            end_date=time_of(body.get('end_date')),
            lease_name=body.get('lease_name') or '',
        )


@dataclass(frozen=True, slots=True)
class HostAllocation:
    """The reservations that a host is allocated to, in the order of their starts."""

    host_id: str
    reservations: tuple[HostReservation, ...] = ()
    hypervisor_hostname: str = ''

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            host_id=body['resource_id'],
            reservations=tuple(map(HostReservation.from_dict, body.get('reservations') or ())),
            hypervisor_hostname=body.get('hypervisor_hostname') or '',
        )


@dataclass(frozen=True, slots=True)
class HostProperty:
    """An extra property of hosts or of network segments, and the values that they have.

    ``private`` is whether users may not see it.
    """

    name: str
    private: bool = False
    values: tuple[Any, ...] = ()

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        return cls(
            name=body['property'],
            private=bool(body.get('private')),
            values=tuple(body.get('values') or ()),
        )
