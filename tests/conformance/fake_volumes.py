# SPDX-License-Identifier: Apache-2.0
"""``virtual:volume`` on the fake cloud."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from climate_core.lease.model import Reservation
from climate_core.plugins.volume import end_steps
from climate_core.plugins.volume.plugin import VolumePlugin
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes import cinder
from tests.support.fakes.cloud_server import Server

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

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.conf.register_opts(VolumePlugin.options, group=VolumePlugin.resource_type)

    def plugin(self) -> VolumePlugin:
        return VolumePlugin(self.conf, self.cloud)

    def reservable(self, **wish: Any) -> Mapping[str, Any]:
        volume = cinder.add(self.state, name=f'v-{uuid.uuid4().hex[:6]}')
        return {'resource_type': 'virtual:volume', 'resource_id': volume['id']}

    def running(self) -> Mapping[str, Any]:
        volume = cinder.add(self.state, status='available', mark=False)
        return {'resource_type': 'virtual:volume', 'resource_id': volume['id']}

    def wishes(self) -> Sequence[Mapping[str, Any]]:
        return [{'on_end': name} for name, _ in end_steps.CHOICES]

    def awake(self, resource_id: str) -> bool:
        return bool(self.state.volumes[resource_id]['status'] == 'available')

    def wakes(self, resource_id: str) -> int:
        return self.effects(resource_id).count('os-wake_up')

    def effects(self, resource_id: str) -> list[str]:
        """What was asked of a volume and accepted, in order."""
        entries = [entry for entry in self.state.journal() if entry['id'] == resource_id]
        return [entry['what'] for entry in entries if not entry['what'].startswith('volume ')]

    def gone(self, resource_id: str) -> bool:
        return resource_id not in self.state.volumes

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

    def destroy(self, resource_id: str) -> None:
        with self.state.lock:
            self.state.drop('volumes', resource_id, {'what': 'volume lost', 'id': resource_id})
