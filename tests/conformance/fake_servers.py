# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance`` on the fake cloud."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.context import RequestContext
from climate_core.lease.model import Reservation
from climate_core.plugins.own_service_plugin import OwnServicePlugin
from climate_core.plugins.server import ServerPlugin
from tests.conformance.world import LEFT_SERVERS, PluginWorld
from tests.support.fakes import nova, settings
from tests.support.fakes.cloud_server import Server
from tests.support.fakes.state import Record


class FakeServers(PluginWorld):
    """Servers change when they are looked at, so :meth:`pause` has nothing to do."""

    plugin_class: ClassVar[type[OwnServicePlugin]] = ServerPlugin
    #: The name of a resource in the journal; its plural is its table.
    kind: ClassVar[str] = 'server'

    def __init__(self, server: Server) -> None:
        self.state = server.state
        self.conf = settings.conf(server.url)
        self.conf.register_opts(self.plugin_class.options, group=self.plugin_class.resource_type)
        self.cloud = Cloud(self.conf)
        self.trusts = Trusts(self.cloud)
        self._user = self.context('alice')
        self._stranger = self.context('bob')

    def context(self, name: str, service_roles: Sequence[str] | None = None) -> RequestContext:
        user = self.state.users[f'{name}-id']
        token = self.state.token(user, user['project_id'], user['roles'], None)
        return RequestContext(
            auth_token=token,
            user_id=user['id'],
            project_id=user['project_id'],
            roles=user['roles'],
            service_roles=service_roles,
        )

    @property
    def table(self) -> dict[str, Record]:
        """Return what there is of this type, by its id."""
        found: dict[str, Record] = getattr(self.state, f'{self.kind}s')
        return found

    def fault(self, method: str, path: str, status: int, count: int = 1, **more: Any) -> None:
        """Have the next requests like this answered so; 0 is no answer.

        :param more: ``after=True``: the request is done all the same
        """
        fault = {'method': method, 'path': path, 'status': status, 'count': count}
        self.state.faults.append({**fault, **more})

    def service_has(self, *roles: str) -> None:
        """Give the service these roles, with the token that it has already."""
        tokens = [each for each in self.state.tokens.values() if each['user_id'] == 'climate-id']
        for each in (self.state.users['climate-id'], *tokens):
            each['roles'] = list(roles)

    def plugin(self) -> OwnServicePlugin:
        return self.plugin_class(self.conf, self.cloud)

    def user(self) -> RequestContext:
        return self._user

    def stranger(self) -> RequestContext:
        return self._stranger

    def add(self, **fields: Any) -> Record:
        """Make a resource that waits, unless the fields say something else."""
        return nova.add(self.state, **{'name': f'vm-{uuid.uuid4().hex[:6]}', **fields})

    def reservable(self, **params: Any) -> Mapping[str, Any]:
        return {'resource_type': self.plugin_class.resource_type, 'resource_id': self.add()['id']}

    def running(self) -> Mapping[str, Any]:
        server = nova.add(self.state, status='ACTIVE', hints={})
        return {'resource_type': 'virtual:instance', 'resource_id': server['id']}

    def awake(self, resource_id: str) -> bool:
        return bool(self.table[resource_id]['status'] == 'ACTIVE')

    def wakes(self, resource_id: str) -> int:
        return self.effects(resource_id).count('wake_up')

    def effects(self, resource_id: str) -> list[str]:
        """Return what was asked of a resource and accepted, in order."""
        told = [entry['what'] for entry in self.state.journal() if entry['id'] == resource_id]
        return [what for what in told if not what.startswith(f'{self.kind} ')]

    def gone(self, resource_id: str) -> bool:
        return resource_id not in self.table

    def ended(self, reservation: Reservation) -> bool:
        on_end = reservation.params['on_end']
        if on_end in LEFT_SERVERS:
            server = self.state.servers[reservation.resource_id]
            return bool(server['status'] == LEFT_SERVERS[on_end] and not server['task_state'])
        images = [
            image
            for image in self.state.images.values()
            if image['server_id'] == reservation.resource_id
        ]
        wanted = ['active'] if on_end == 'create_image' else []
        return self.gone(reservation.resource_id) and [i['status'] for i in images] == wanted

    def pause(self, seconds: float) -> None:
        """Take the next step at the next look."""

    def clean(self) -> None:
        """There is always room."""

    @contextlib.contextmanager
    def owner_is_administrator(self) -> Iterator[None]:
        user, before = self.state.users['alice-id'], self._user
        roles = user['roles']
        user['roles'] = [*roles, 'admin']
        # An operator has chosen to delegate that role, too.
        self.cloud.conf.set_override('trust_roles', user['roles'], group='cloud')
        self._user = self.context('alice')
        try:
            yield
        finally:
            user['roles'], self._user = roles, before
            self.cloud.conf.clear_override('trust_roles', group='cloud')

    def give_away(self, resource_id: str) -> None:
        record = self.table[resource_id]
        record['project_id'] = self._stranger.project_id
        lost = {'what': f'{self.kind} is', 'id': resource_id}
        self.state.put(f'{self.kind}s', record, lost)

    def destroy(self, resource_id: str) -> None:
        with self.state.lock:
            lost = {'what': f'{self.kind} lost', 'id': resource_id}
            self.state.drop(f'{self.kind}s', resource_id, lost)
