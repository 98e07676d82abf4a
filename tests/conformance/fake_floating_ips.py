# SPDX-License-Identifier: Apache-2.0
"""``virtual:floatingip`` with a ``resource_id`` on the fake cloud: it never sleeps."""

import itertools
from collections.abc import Mapping
from typing import Any

from climate_core.lease.model import Reservation
from climate_networks.cloud import mark
from climate_networks.plugins.floatingips import HeldFloatingIpPlugin
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes import neutron
from tests.support.fakes.state import Record

_NUMBERS = itertools.count(1)


class FakeFloatingIps(FakeServers):
    """One of a lease of another kind cannot be reserved."""

    plugin_class = HeldFloatingIpPlugin
    kind = 'floatingip'
    sleeps = False

    def add(self, **fields: Any) -> Record:
        number = next(_NUMBERS)
        address = f'203.0.{113 + number // 200}.{number % 200}'
        forwarded = {'port_id': neutron.PORT, 'port_forwardings': ['one', 'two']}
        return neutron.add(self.state, floating_ip_address=address, **forwarded, **fields)

    def running(self) -> Mapping[str, Any]:
        made = self.add(description=mark('another'))
        return {'resource_type': 'virtual:floatingip', 'resource_id': made['id']}

    def awake(self, resource_id: str) -> bool:
        return resource_id in self.table

    def wakes(self, resource_id: str) -> int:
        return 0

    def ended(self, reservation: Reservation) -> bool:
        kept = reservation.params['on_end'] == 'nothing'
        return (reservation.resource_id in self.table) == kept
