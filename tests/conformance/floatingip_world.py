# SPDX-License-Identifier: Apache-2.0
"""Where floating IPs are promised."""

from collections.abc import Callable
from typing import Any

from climate_core.cloud import Cloud
from climate_core.lease import model, views
from climate_networks.operations import FloatingIpOperations
from climate_networks.plugins.floatingips import FloatingIpPlugin
from tests.conformance.promised_world import END as END
from tests.conformance.promised_world import PromisedWorld
from tests.support.fakes import cloud_server, neutron

ADDRESSES = ['203.0.113.20', '203.0.113.21', '203.0.113.22']
FIRST, SECOND, THIRD = ADDRESSES


class Addresses(PromisedWorld):
    """Three floating IPs that are registered, and a manager.

    :param network_id: of the external network
    """

    kind = FloatingIpPlugin

    def __init__(
        self,
        fake: cloud_server.Server,
        url: str,
        network_id: str = neutron.PUBLIC,
        connect: Callable[[Cloud], None] = lambda _cloud: None,
    ) -> None:
        super().__init__(fake, url, connect)
        self.network_id = network_id
        self.operations = FloatingIpOperations(self.engine.database, self.cloud)
        self.ids = self.register(floating_ip_range=f'{FIRST}-{THIRD}')

    def register(self, **values: Any) -> list[int]:
        values = {'floating_network_id': self.network_id, **values}
        return self.operations.create_floatingips(self.operator, values)

    def asks(self) -> dict[str, Any]:
        return super().asks() | {'network_id': self.network_id}

    def set(self, address: str, **fields: Any) -> None:
        """Change what Neutron has of a floating IP."""
        found = next(e for e in self.made() if e['floating_ip_address'] == address)
        self.state.put('floatingips', found | fields, {'what': 'is', 'id': found['id']})

    def made(self) -> list[dict[str, Any]]:
        return list(self.state.floatingips.values())

    def in_neutron(self) -> list[str]:
        return sorted(each['floating_ip_address'] for each in self.made())


def shown(lease: model.Lease) -> list[str]:
    """Return the addresses that a lease shows."""
    (reservation,) = lease.reservations
    addresses: list[str] = views.reservation_view(reservation)['floatingips']
    return addresses
