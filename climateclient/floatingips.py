# SPDX-License-Identifier: Apache-2.0
"""The floating IPs that are registered for leases: ``client.floatingips``."""

import builtins
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from climateclient import exceptions
from climateclient.models import time_of
from climateclient.registered import Registered


@dataclass(frozen=True, slots=True)
class FloatingIp:
    """A registered floating IP; ``reservable`` is whether it takes new allocations."""

    id: str
    floating_network_id: str
    floating_ip_address: str
    subnet_id: str | None = None
    reservable: bool = True
    created_at: datetime.datetime | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        return cls(
            data['id'],
            data['floating_network_id'],
            data['floating_ip_address'],
            data.get('subnet_id'),
            data.get('reservable', True),
            time_of(data.get('created_at')),
        )


class FloatingIps(Registered[FloatingIp]):
    """The calls about floating IPs; each raises what :mod:`climateclient.exceptions` says."""

    path, noun = '/floatingips', 'floatingip'
    make = FloatingIp.from_dict

    def create(self, network_id: str, address: str) -> FloatingIp:
        """Set an address of an external network apart for leases.

        :raises BadRequest: Neutron may give it to others; ``field`` says what is wrong
        :raises Conflict: it is in use, or already registered
        """
        return self._create({'floating_network_id': network_id, 'floating_ip_address': address})

    def create_range(self, network_id: str, first: str, last: str) -> builtins.list[FloatingIp]:
        """Set all addresses from one to another apart, or none; raises as :meth:`create`."""
        body = {'floating_network_id': network_id, 'floating_ip_range': f'{first}-{last}'}
        return self._create_many(body)

    def list(
        self,
        *,
        network_id: str | None = None,
        address: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[FloatingIp]:
        """Yield the registered floating IPs.

        :param limit: the maximum number, over all pages of the service
        :param marker: begin after the one with this id
        """
        values = {
            'floating_network_id': network_id,
            'floating_ip_address': address,
            'marker': marker,
        }
        return self._list(values, limit)

    def find(self, address_or_id: str) -> FloatingIp:
        """Return a floating IP by its id or its address.

        :raises NotFound: there is none
        :raises AmbiguousName: several networks have the address
        """
        if '.' not in address_or_id:
            return self.get(address_or_id)
        found = [*self.list(address=address_or_id)]
        if not found:
            raise exceptions.FloatingIpNotFound(
                f'No floating IP {address_or_id} is registered for leases.'
            )
        if len(found) > 1:
            listed = ', '.join(f'{each.id} (network {each.floating_network_id})' for each in found)
            raise exceptions.AmbiguousName(
                f'Several networks have {address_or_id}, give an id: {listed}',
                ids=tuple(each.id for each in found),
            )
        return found[0]
