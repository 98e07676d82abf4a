# SPDX-License-Identifier: Apache-2.0
"""The floating IPs that are set apart for leases: ``client.floatingips``."""

import builtins
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from keystoneauth1 import adapter

from climateclient import exceptions
from climateclient.models import time_of
from climateclient.serialization import read, read_pages, to_path

_PATH = '/floatingips'


@dataclass(frozen=True, slots=True)
class FloatingIp:
    """A floating IP that is set apart; ``reservable`` is whether it takes new promises."""

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


class FloatingIps:
    """The calls about floating IPs; each raises what :mod:`climateclient.exceptions` says."""

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def create(self, network_id: str, address: str) -> FloatingIp:
        """Set an address of an external network apart for leases.

        :raises BadRequest: Neutron may give it to others; ``field`` says what is wrong
        :raises Conflict: it is in use, or set apart already
        """
        body = {'floating_network_id': network_id, 'floating_ip_address': address}
        return read(self._http.post(_PATH, json=body), 'floatingip', FloatingIp.from_dict)

    def create_range(self, network_id: str, first: str, last: str) -> builtins.list[FloatingIp]:
        """Set all addresses from one to another apart, or none; raises as :meth:`create`."""
        body = {'floating_network_id': network_id, 'floating_ip_range': f'{first}-{last}'}
        return read(
            self._http.post(_PATH, json=body),
            'floatingips',
            lambda rows: [FloatingIp.from_dict(row) for row in rows],
        )

    def list(
        self,
        *,
        network_id: str | None = None,
        address: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[FloatingIp]:
        """Yield the floating IPs that are set apart.

        :param limit: so many at most, over all pages of the service
        :param marker: begin after the one with this id
        """
        values = {
            'floating_network_id': network_id,
            'floating_ip_address': address,
            'marker': marker,
        }
        return read_pages(self._http, _PATH, 'floatingips', FloatingIp.from_dict, values, limit)

    def get(self, floatingip_id: str) -> FloatingIp:
        """Return a floating IP by its id.

        :raises NotFound: there is none
        """
        return read(
            self._http.get(_PATH + to_path(floatingip_id)), 'floatingip', FloatingIp.from_dict
        )

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
                f'No floating IP {address_or_id} is set apart for leases.'
            )
        if len(found) > 1:
            listed = ', '.join(f'{each.id} (network {each.floating_network_id})' for each in found)
            raise exceptions.AmbiguousName(
                f'Several networks have {address_or_id}, give an id: {listed}',
                ids=tuple(each.id for each in found),
            )
        return found[0]

    def delete(self, floatingip_id: str) -> None:
        """Take a floating IP away from those for leases; nothing changes in Neutron.

        :raises NotFound: there is none
        :raises Conflict: it is promised to reservations
        """
        self._http.delete(_PATH + to_path(floatingip_id))
