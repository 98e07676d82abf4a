# SPDX-License-Identifier: Apache-2.0
"""Floating IPs that are set apart for leases. Pure."""

import dataclasses
import ipaddress
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from climate_core import exceptions

#: The kind of the units of floating IPs.
KIND: Final = 'floating IP'
#: So many addresses are set apart by one request at most.
MOST: Final = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIp:
    """An address of an external network that is promised to leases.

    :param id: of its unit in the calendar
    :param available: whether it takes new promises
    """

    id: int
    network_id: str
    subnet_id: str
    address: str
    available: bool
    created_at: datetime


def read_addresses(values: dict[str, Any]) -> tuple[str, list[ipaddress.IPv4Address]]:
    """Return the addresses of a request to set some apart, and the field that has them.

    :param values: ``floating_ip_address``, or ``floating_ip_range`` as ``first-last``
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    field = 'floating_ip_range' if 'floating_ip_range' in values else 'floating_ip_address'
    ends = values[field].split('-') if field == 'floating_ip_range' else [values[field]]
    try:
        first, last = (ipaddress.IPv4Address(each.strip()) for each in (ends[0], ends[-1]))
    except ValueError as exc:
        raise exceptions.BadRequest(
            f'{field}: must be {_RIGHT[field]}; {exc}.', field=field
        ) from exc
    if len(ends) != len(_RIGHT[field].split('-')) or last < first:
        raise exceptions.BadRequest(
            f'{field}: must be {_RIGHT[field]}, the first address not after the last.', field=field
        )
    count = int(last) - int(first) + 1
    if count > MOST:
        raise exceptions.BadRequest(
            f'{field}: must have {MOST} addresses at most, not {count}. Set them apart in parts.',
            field=field,
        )
    return field, [first + number for number in range(count)]


#: What would be right.
_RIGHT: Final = {
    'floating_ip_address': 'an IPv4 address, as 203.0.113.20',
    'floating_ip_range': 'two IPv4 addresses, as 203.0.113.20-203.0.113.99',
}


def check_address(
    address: ipaddress.IPv4Address, subnets: Sequence[dict[str, Any]], field: str
) -> str:
    """Refuse an address that Neutron may give to others; return the id of its subnet.

    :param subnets: all of the external network, as Neutron shows them
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    for subnet in subnets:
        network = ipaddress.ip_network(subnet['cidr'])
        if address not in network:
            continue
        if address in (network.network_address, network.broadcast_address):
            raise _refused(field, f'{address} is no address of a single host in {network}.')
        if subnet['gateway_ip'] == str(address):
            # Neutron gives it out all the same (neutron 29).
            raise _refused(field, f'{address} is the gateway of subnet {subnet["id"]}.')
        for pool in subnet['allocation_pools']:
            first, last = (ipaddress.ip_address(pool[name]) for name in ('start', 'end'))
            if int(first) <= int(address) <= int(last):
                raise _refused(
                    field,
                    f'{address} is in the allocation pool {first}-{last} of subnet '
                    f'{subnet["id"]}, from which anybody may get it. Take it out of the pool '
                    'first.',
                )
        return str(subnet['id'])
    listed = ', '.join(sorted(each['cidr'] for each in subnets)) or 'none'
    raise _refused(field, f'{address} must be in a subnet of the network ({listed}).')


def _refused(field: str, text: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(f'{field}: {text}', field=field)
