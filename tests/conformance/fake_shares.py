# SPDX-License-Identifier: Apache-2.0
"""``virtual:share``, which a test package adds, on the fake cloud."""

from collections.abc import Mapping
from typing import Any

from climate_core.lease.model import Reservation
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes.cloud_server import Server
from tests.support.fakes.share_plugin import manila
from tests.support.fakes.share_plugin.plugin import SharePlugin
from tests.support.fakes.state import Record


class FakeShares(FakeServers):
    """Shares are started by a rule of access."""

    plugin_class = SharePlugin
    kind = 'share'

    def __init__(self, server: Server) -> None:
        manila.start(server)
        super().__init__(server)

    def add(self, **fields: Any) -> Record:
        return manila.add(self.state, **fields)

    def running(self) -> Mapping[str, Any]:
        return {'resource_id': self.add(rules=[{'access_to': '192.0.2.1'}])['id']}

    def awake(self, resource_id: str) -> bool:
        share = self.table[resource_id]
        return bool(share['rules']) and share['access_rules_status'] == 'active'

    def wakes(self, resource_id: str) -> int:
        return self.effects(resource_id).count('allow_access')

    def ended(self, reservation: Reservation) -> bool:
        kept = reservation.params['on_end'] == 'nothing'
        return (reservation.resource_id in self.table) == kept
