# SPDX-License-Identifier: Apache-2.0
"""Where networks are promised."""

from collections.abc import Callable
from typing import Any

from climate_core.cloud import Cloud
from climate_core.lease import model, views
from climate_networks.operations import NetworkOperations
from climate_networks.plugins.networks import NetworkPlugin
from tests.conformance.promised_world import END as END
from tests.conformance.promised_world import PromisedWorld
from tests.support.fakes import cloud_server

PHYSICAL = 'physnet1'
#: Behind the range that Neutron chooses from.
SEGMENTS = [200, 201, 202]
FIRST, SECOND, THIRD = SEGMENTS


class Networks(PromisedWorld):
    """Three VLANs that are registered, the first on another switch, and a manager."""

    kind = NetworkPlugin

    def __init__(
        self,
        fake: cloud_server.Server,
        url: str,
        connect: Callable[[Cloud], None] = lambda _cloud: None,
    ) -> None:
        super().__init__(fake, url, connect)
        self.operations = NetworkOperations(self.engine.database, self.cloud)
        self.ids = self.register(segment_id=FIRST, extra={'switch': 'tor1'})
        more = f'{SECOND}-{THIRD}'
        self.ids += self.register(segment_range=more, extra={'switch': 'tor2', 'ports': '48'})

    def register(self, **values: Any) -> list[int]:
        values = {'network_type': 'vlan', 'physical_network': PHYSICAL, **values}
        return self.operations.create_networks(self.operator, values)

    def asks(self) -> dict[str, Any]:
        return super().asks() | {'network_name': 'net1'}

    def made(self) -> list[dict[str, Any]]:
        """Return what is in the fake Neutron."""
        return list(self.state.networks.values())

    def numbers(self) -> list[int]:
        return sorted(each['provider:segmentation_id'] for each in self.made())


def shown(lease: model.Lease) -> dict[str, Any]:
    """Return the reservation that a lease shows."""
    (reservation,) = lease.reservations
    return views.reservation_view(reservation)
