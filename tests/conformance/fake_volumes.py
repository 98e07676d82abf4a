# SPDX-License-Identifier: Apache-2.0
"""``virtual:volume`` on the fake cloud."""

import uuid
from collections.abc import Mapping
from typing import Any

from climate_core.lease.model import Reservation
from climate_core.plugins.volume import VolumePlugin
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes import cinder
from tests.support.fakes.state import Record

#: End action -> (status of the volume that is left, backups, snapshots)
_LEFT = {
    'delete': (None, 0, 0),
    'backup': (None, 1, 0),
    'snapshot': ('available', 0, 1),
    'detach': ('available', 0, 0),
    'nothing': ('available', 0, 0),
}


class FakeVolumes(FakeServers):
    """Volumes change when they are looked at, as servers do."""

    plugin_class = VolumePlugin
    kind = 'volume'

    def add(self, **fields: Any) -> Record:
        return cinder.add(self.state, **{'name': f'v-{uuid.uuid4().hex[:6]}', **fields})

    def running(self) -> Mapping[str, Any]:
        volume = cinder.add(self.state, status='available', mark=False)
        return {'resource_type': 'virtual:volume', 'resource_id': volume['id']}

    def awake(self, resource_id: str) -> bool:
        return bool(self.table[resource_id]['status'] == 'available')

    def wakes(self, resource_id: str) -> int:
        return self.effects(resource_id).count('os-wake_up')

    def ended(self, reservation: Reservation) -> bool:
        volume = self.state.volumes.get(reservation.resource_id)
        return (
            volume and volume['status'],
            self._copies('backups', reservation),
            self._copies('snapshots', reservation),
        ) == _LEFT[reservation.params['on_end']]

    def _copies(self, table: str, reservation: Reservation) -> int:
        copies = [
            copy
            for copy in getattr(self.state, table).values()
            if copy['volume_id'] == reservation.resource_id
        ]
        assert {copy['status'] for copy in copies} <= {'available'}
        return len(copies)
