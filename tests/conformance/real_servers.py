# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance`` on a real cloud: clouds.yaml must know ``demo``, ``alt`` and ``climate``.

The servers are made with a lease that starts in a year, so that a manager which runs there does
not wake them.
"""

import contextlib
import datetime
import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import openstack
from openstack import utils
from oslo_config import cfg

from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.conf import cloud as cloud_conf
from climate_core.context import RequestContext
from climate_core.lease.model import Reservation
from climate_core.plugins.server import ServerPlugin
from tests.conformance.world import LEFT_SERVERS, PluginWorld

#: Seconds after which a server should be there, or gone.
PATIENCE = 120


class RealServers(PluginWorld):
    """Servers of the user ``demo``."""

    def __init__(self) -> None:
        self.conf = _conf(openstack.connect(cloud='climate'))
        self.conf.register_opts(ServerPlugin.options, group=ServerPlugin.resource_type)
        self.cloud = Cloud(self.conf)
        self.trusts = Trusts(self.cloud)
        self._admin = openstack.connect(cloud='climate')
        self._demo = openstack.connect(cloud='demo')
        self._user = _context(self._demo)
        self._stranger = _context(openstack.connect(cloud='alt'))
        self._made: list[str] = []
        self._trusts: list[str] = []
        compute = self._demo.compute
        self._body = {
            'flavorRef': min(compute.flavors(), key=lambda flavor: flavor.ram).id,
            'imageRef': next(iter(self._demo.image.images(name='cirros'))).id,
            'networks': [{'uuid': next(iter(self._demo.network.networks())).id}],
        }

    @classmethod
    @contextlib.contextmanager
    def opened(cls) -> Iterator['RealServers']:
        """Connect, and clean up at the end."""
        world = cls()
        try:
            yield world
        finally:
            world.clean()

    def plugin(self) -> ServerPlugin:
        return ServerPlugin(self.conf, self.cloud)

    def user(self) -> RequestContext:
        return self._user

    def stranger(self) -> RequestContext:
        return self._stranger

    def reservable(self, **params: Any) -> Mapping[str, Any]:
        now = datetime.datetime.now(datetime.UTC)
        lease = {
            'name': f'conformance-{uuid.uuid4().hex[:8]}',
            'start': (now + datetime.timedelta(days=365)).isoformat(timespec='seconds'),
            'end': (now + datetime.timedelta(days=366)).isoformat(timespec='seconds'),
        }
        hints = {'reserved': 'True', 'lease_params': json.dumps(lease)}
        # Nova's fake hypervisor uploads no image, but a volume is imaged by Cinder.
        own = self._on_volume() if params.get('on_end') == 'create_image' else {}
        return self._boot('RESERVED', hints, **own)

    def running(self) -> Mapping[str, Any]:
        return self._boot('ACTIVE', {})

    def _on_volume(self) -> Mapping[str, Any]:
        """Make a volume to boot from; it goes with its server."""
        storage = self._demo.block_storage
        volume = storage.wait_for_status(storage.create_volume(size=1), 'available')
        storage.set_volume_bootable_status(volume, True)
        device = {
            'uuid': volume.id,
            'source_type': 'volume',
            'destination_type': 'volume',
            'boot_index': 0,
            'delete_on_termination': True,
        }
        return {'imageRef': '', 'block_device_mapping_v2': [device]}

    def _boot(self, status: str, hints: Mapping[str, str], **own: Any) -> Mapping[str, Any]:
        body = {
            'server': {'name': f'vm-{uuid.uuid4().hex[:8]}', **self._body, **own},
            'os:scheduler_hints': hints,
        }
        response = self._demo.compute.post('/servers', json=body, microversion='2.90')
        assert response.status_code == 202, response.text
        server_id = response.json()['server']['id']
        self._made.append(server_id)
        for _ in utils.iterate_timeout(PATIENCE, f'{server_id} is never {status}', wait=0.5):
            found = self._show(server_id)
            assert found['status'] != 'ERROR', found
            if found['status'] == status:
                break
        return {'resource_type': 'virtual:instance', 'resource_id': server_id}

    def _show(self, server_id: str) -> Any:
        response = self._admin.compute.get(f'/servers/{server_id}', microversion='2.90')
        return response.json()['server'] if response.status_code == 200 else None

    def awake(self, resource_id: str) -> bool:
        return bool(self._show(resource_id)['status'] == 'ACTIVE')

    def wakes(self, resource_id: str) -> int:
        path = f'/servers/{resource_id}/os-instance-actions'
        actions = self._admin.compute.get(path, microversion='2.90').json()['instanceActions']
        return [each['action'] for each in actions].count('wake_up')

    def gone(self, resource_id: str) -> bool:
        return self._show(resource_id) is None

    def ended(self, reservation: Reservation) -> bool:
        on_end = reservation.params['on_end']
        if on_end in LEFT_SERVERS:
            return bool(self._show(reservation.resource_id)['status'] == LEFT_SERVERS[on_end])
        query = {'climate_reservation_id': reservation.id}
        images = self._demo.image.get('/images', params=query).json()['images']
        wanted = ['active'] if on_end == 'create_image' else []
        return self.gone(reservation.resource_id) and [i['status'] for i in images] == wanted

    def destroy(self, resource_id: str) -> None:
        self._demo.compute.delete(f'/servers/{resource_id}')
        for _ in utils.iterate_timeout(PATIENCE, f'{resource_id} is never gone', wait=0.3):
            if self.gone(resource_id):
                return

    def pause(self, seconds: float) -> None:
        threading.Event().wait(min(seconds, 2.0))

    def trust(self) -> str:
        self._trusts.append(super().trust())
        return self._trusts[-1]

    def clean(self) -> None:
        while self._trusts:
            self.trusts.delete(self._trusts.pop())
        for server_id in self._made:
            self._admin.compute.delete(f'/servers/{server_id}')
        for server_id in self._made:
            for _ in utils.iterate_timeout(PATIENCE, f'{server_id} is never gone', wait=0.3):
                if self.gone(server_id):
                    break
        self._made.clear()
        for image in self._demo.image.images():
            if image.name.startswith('reserved_vm-'):
                self._demo.image.delete_image(image)


def _conf(conn: openstack.connection.Connection) -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    made([], default_config_files=[])
    made.register_opts(cloud_conf.OPTS, group=cloud_conf.GROUP)
    made.set_override('auth_type', 'password', group=cloud_conf.GROUP)
    for name, value in conn.config.config['auth'].items():
        made.set_override(name, value, group=cloud_conf.GROUP)
    return made


def _context(conn: openstack.connection.Connection) -> RequestContext:
    access = conn.session.auth.get_access(conn.session)
    return RequestContext(
        auth_token=access.auth_token,
        user_id=access.user_id,
        project_id=access.project_id,
        roles=access.role_names,
    )
