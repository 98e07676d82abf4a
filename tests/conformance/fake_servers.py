# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance`` on the fake cloud."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.context import RequestContext
from climate_core.lease.model import Reservation
from climate_core.plugins.server import end_steps
from climate_core.plugins.server.plugin import ServerPlugin
from tests.conformance.world import World
from tests.support.fakes import nova, settings
from tests.support.fakes.cloud_server import Server

_LEFT = {
    'stop': 'SHUTOFF',
    'shelve': 'SHELVED_OFFLOADED',
    'suspend': 'SUSPENDED',
    'nothing': 'ACTIVE',
}


class FakeServers(World):
    """Servers change when they are looked at, so :meth:`pause` has nothing to do."""

    def __init__(self, server: Server) -> None:
        self.state = server.state
        self.conf = settings.conf(server.url)
        self.conf.register_opts(ServerPlugin.options, group=ServerPlugin.resource_type)
        self.cloud = Cloud(self.conf)
        self.trusts = Trusts(self.cloud)
        self._user = self.context('alice')
        self._stranger = self.context('bob')

    def context(self, name: str) -> RequestContext:
        user = self.state.users[f'{name}-id']
        token = self.state.token(user, user['project_id'], user['roles'], None)
        return RequestContext(
            auth_token=token,
            user_id=user['id'],
            project_id=user['project_id'],
            roles=user['roles'],
        )

    def plugin(self) -> ServerPlugin:
        return ServerPlugin(self.conf, self.cloud)

    def user(self) -> RequestContext:
        return self._user

    def stranger(self) -> RequestContext:
        return self._stranger

    def reservable(self, **wish: Any) -> Mapping[str, Any]:
        server = nova.add(self.state, name=f'vm-{uuid.uuid4().hex[:6]}')
        return {'resource_type': 'virtual:instance', 'resource_id': server['id']}

    def running(self) -> Mapping[str, Any]:
        server = nova.add(self.state, status='ACTIVE', hints={})
        return {'resource_type': 'virtual:instance', 'resource_id': server['id']}

    def wishes(self) -> Sequence[Mapping[str, Any]]:
        return [{'on_end': name} for name, _ in end_steps.CHOICES]

    def awake(self, resource_id: str) -> bool:
        return self.state.servers[resource_id]['status'] == 'ACTIVE'

    def wakes(self, resource_id: str) -> int:
        return self.effects(resource_id).count('wake_up')

    def effects(self, resource_id: str) -> list[str]:
        """What was asked of a server and accepted, in order."""
        entries = [entry for entry in self.state.journal() if entry['id'] == resource_id]
        return [entry['what'] for entry in entries if not entry['what'].startswith('server ')]

    def gone(self, resource_id: str) -> bool:
        return resource_id not in self.state.servers

    def ended(self, reservation: Reservation) -> bool:
        on_end = reservation.params['on_end']
        if on_end in _LEFT:
            server = self.state.servers[reservation.resource_id]
            return bool(server['status'] == _LEFT[on_end] and not server['task_state'])
        images = [
            image
            for image in self.state.images.values()
            if image['server_id'] == reservation.resource_id
        ]
        wanted = ['active'] if on_end == 'create_image' else []
        return self.gone(reservation.resource_id) and [i['status'] for i in images] == wanted

    def pause(self, seconds: float) -> None:
        """The next look is the next step."""

    def clean(self) -> None:
        """There is always room."""

    def destroy(self, resource_id: str) -> None:
        with self.state.lock:
            self.state.drop('servers', resource_id, {'what': 'server lost', 'id': resource_id})
