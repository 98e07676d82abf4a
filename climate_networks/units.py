# SPDX-License-Identifier: Apache-2.0
"""Floating IPs and network segments that operators register for leases. Pure."""

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self

from climate_core import exceptions
from climate_core.plugins import filters

#: The kind of the units of floating IPs.
FLOATING_IP_KIND: Final = 'floating IP'
#: Maximum number of addresses in a request.
MAX_ADDRESSES: Final = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIp:
    """An address of an external network that the calendar allocates to leases.

    :param id: of its unit in the calendar
    :param available: whether it takes new allocations
    """

    id: int
    network_id: str
    subnet_id: str
    address: str
    available: bool
    created_at: datetime

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Create it from the columns of its row and its unit."""
        return cls(**row)


def read_addresses(values: dict[str, Any]) -> tuple[str, list[ipaddress.IPv4Address]]:
    """Return the addresses that a request registers, and the field that has them.

    :param values: ``floating_ip_address``, or ``floating_ip_range`` as ``first-last``
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    field = 'floating_ip_range' if 'floating_ip_range' in values else 'floating_ip_address'
    ends = values[field].split('-') if field == 'floating_ip_range' else [values[field]]
    try:
        first, last = (ipaddress.IPv4Address(each.strip()) for each in (ends[0], ends[-1]))
    except ValueError as exc:
        raise exceptions.BadRequest(
            f'{field}: must be {_ACCEPTED[field]}; {exc}.', field=field
        ) from exc
    if len(ends) != len(_ACCEPTED[field].split('-')) or last < first:
        raise exceptions.BadRequest(
            f'{field}: must be {_ACCEPTED[field]}, the first address not after the last.',
            field=field,
        )
    count = int(last) - int(first) + 1
    if count > MAX_ADDRESSES:
        raise exceptions.BadRequest(
            f'{field}: must have {MAX_ADDRESSES} addresses at most, not {count}. Register '
            'them in parts.',
            field=field,
        )
    return field, [first + number for number in range(count)]


#: What the fields accept.
_ACCEPTED: Final = {
    'floating_ip_address': 'an IPv4 address, as 203.0.113.20',
    'floating_ip_range': 'two IPv4 addresses, as 203.0.113.20-203.0.113.99',
}


def check_address(
    address: ipaddress.IPv4Address, subnets: Sequence[dict[str, Any]], field: str
) -> str:
    """Reject an address that Neutron may give to other projects; return the id of its subnet.

    :param subnets: all of the external network, as Neutron shows them
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    for subnet in subnets:
        network = ipaddress.ip_network(subnet['cidr'])
        if address not in network:
            continue
        if address in (network.network_address, network.broadcast_address):
            raise _reject_address(field, f'{address} is no address of a single host in {network}.')
        if subnet['gateway_ip'] == str(address):
            # Neutron gives it out all the same (neutron 29).
            raise _reject_address(field, f'{address} is the gateway of subnet {subnet["id"]}.')
        for pool in subnet['allocation_pools']:
            first, last = (ipaddress.ip_address(pool[name]) for name in ('start', 'end'))
            if int(first) <= int(address) <= int(last):
                raise _reject_address(
                    field,
                    f'{address} is in the allocation pool {first}-{last} of subnet '
                    f'{subnet["id"]}, from which any project may get it. Remove it from the '
                    'pool first.',
                )
        return str(subnet['id'])
    listed = ', '.join(sorted(each['cidr'] for each in subnets)) or 'none'
    raise _reject_address(field, f'{address} must be in a subnet of the network ({listed}).')


def _reject_address(field: str, text: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(f'{field}: {text}', field=field)


#: The kind of the units of network segments.
SEGMENT_KIND: Final = 'network segment'
#: Key in the progress of a reservation: the id of its network.
NETWORK_ID: Final = 'network_id'
#: Maximum number of segments in a request.
MAX_SEGMENTS: Final = 256
#: The types of networks whose segments have numbers -> the highest of these. The lowest is 1.
NETWORK_TYPES: Final[Mapping[str, int]] = {
    'vlan': 4094,
    'vxlan': 2**24 - 1,
    'geneve': 2**24 - 1,
    'gre': 2**32 - 1,
}
#: The type whose segments are of a physical network; the others go through tunnels.
VLAN: Final = 'vlan'
#: Attributes of a segment that filters accept.
SEGMENT_FACTS: Final = ('network_type', 'physical_network', 'segment_id')
#: Names that the API gives other fields of a segment: no extra property can have one.
_SEGMENT_FIELDS: Final = frozenset(
    {
        *SEGMENT_FACTS,
        'id',
        'network_id',
        'segment_range',
        'reservable',
        'project_ids',
        'domain_ids',
        'generation',
        'created_at',
        'updated_at',
        'values',
        'pool',
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A segment, as Neutron names it.

    :param physical_network: None: the segment goes through tunnels
    :param segment_id: the number of the VLAN, or of the tunnel
    """

    network_type: str
    physical_network: str | None
    segment_id: int

    @classmethod
    def of(cls, unit: Mapping[str, Any]) -> 'Segment':
        """Read what an allocation knows of its unit."""
        return cls(unit['network_type'], unit['physical_network'] or None, unit['segment_id'])

    def __str__(self) -> str:
        where = f' of {self.physical_network}' if self.physical_network else ''
        return f'{self.network_type.upper()} {self.segment_id}{where}'

    @property
    def facts(self) -> dict[str, Any]:
        """Return it by the names that users know."""
        return dataclasses.asdict(self)

    @property
    def pool(self) -> str:
        """Return the pool of its unit."""
        return self.physical_network or self.network_type


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSegment:
    """A segment that the calendar allocates to leases.

    :param id: of its unit in the calendar
    :param available: whether it takes new allocations
    :param extra: the properties that the operator gave it
    :param project_ids: with those of ``domain_ids`` the projects that may reserve it; none of
        both: all
    :param generation: counts the changes by operators
    """

    id: int
    segment: Segment
    available: bool
    extra: Mapping[str, Any]
    project_ids: Sequence[str] = ()
    domain_ids: Sequence[str] = ()
    created_at: datetime
    updated_at: datetime | None = None
    generation: int = 0

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Create it from the columns of its row and its unit."""
        values = dict(row)
        facts = {name: values.pop(name) for name in SEGMENT_FACTS}
        access = values.pop('access') or {}
        return cls(**values, segment=Segment.of(facts), **access)

    def properties(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties that filters match, with these extra ones."""
        return {**extra, **self.segment.facts}


def read_segments(values: Mapping[str, Any]) -> tuple[str, list[Segment]]:
    """Return the segments that a request registers, and the field that has their numbers.

    :param values: ``network_type``, ``physical_network`` for VLANs, and ``segment_id``, or
        ``segment_range`` as ``first-last``
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    network_type, physical_network = values['network_type'], values.get('physical_network')
    if network_type == VLAN and not physical_network:
        raise exceptions.BadRequest(
            'physical_network: must be given: a vlan is of a physical network.',
            field='physical_network',
        )
    if network_type != VLAN and physical_network:
        raise exceptions.BadRequest(
            f'physical_network: must be left out: a {network_type} goes through tunnels.',
            field='physical_network',
        )
    field = 'segment_range' if 'segment_range' in values else 'segment_id'
    numbers = _read_segment_ids(field, str(values[field]), NETWORK_TYPES[network_type])
    return field, [Segment(network_type, physical_network or None, each) for each in numbers]


def _read_segment_ids(field: str, text: str, highest: int) -> range:
    ends = [each.strip() for each in text.split('-')]
    right = f'two numbers from 1 to {highest}, as 100-199, the first not after the last'
    if field == 'segment_id':
        right = f'a number from 1 to {highest}'
    fine = all(each.isascii() and each.isdigit() and len(each) < 11 for each in ends)
    first, last = (int(ends[0]), int(ends[-1])) if fine else (0, 0)
    if len(ends) != (1 if field == 'segment_id' else 2) or not 1 <= first <= last <= highest:
        raise exceptions.BadRequest(f'{field}: must be {right}.', field=field)
    if last - first >= MAX_SEGMENTS:
        raise exceptions.BadRequest(
            f'{field}: must have {MAX_SEGMENTS} segments at most, not {last - first + 1}. '
            'Register them in parts.',
            field=field,
        )
    return range(first, last + 1)


def find_range(
    segment: Segment, ranges: Iterable[Mapping[str, Any]], project_id: str
) -> Mapping[str, Any] | None:
    """Return the range from which Neutron chooses a segment for other projects; None: none does.

    A segment in a range of the service project is chosen for no other project.

    :param ranges: network segment ranges, as Neutron shows them
    :param project_id: of the service
    """
    found = [
        each
        for each in ranges
        if each['network_type'] == segment.network_type
        and (each['physical_network'] or None) == segment.physical_network
        and each['minimum'] <= segment.segment_id <= each['maximum']
    ]
    if any(not each['shared'] and each['project_id'] == project_id for each in found):
        return None
    return next(iter(found), None)


def describe_range(segment: Segment, segment_range: Mapping[str, Any], project_id: str) -> str:
    """Explain to operators that Neutron chooses a segment from a range for other projects."""
    return (
        f'{segment} is in the network segment range {segment_range["minimum"]}-'
        f'{segment_range["maximum"]} ({segment_range["id"]}), from which Neutron chooses for '
        'other projects. Remove it from that range, or add it to one that is not shared, of the '
        f'project {project_id}.'
    )


def check_segment_properties(extra: Mapping[str, Any]) -> None:
    """Reject extra properties with invalid names, or with names of other fields.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    filters.check_extra_names(
        extra, _SEGMENT_FIELDS, 'is what the segment is, or what the API shows of it'
    )
