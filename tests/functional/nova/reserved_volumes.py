# SPDX-License-Identifier: Apache-2.0
"""A nova beside a cinder with the extension: some volumes wait for their lease."""

import fixtures
from nova import exception

from tests.functional.nova.base import NovaTest, iso

LEASE = '11111111-2222-3333-4444-555555555555'
ROOT = 'aaaaaaaa-0000-4000-8000-000000000001'
DATA = 'aaaaaaaa-0000-4000-8000-000000000002'
ORDINARY = 'aaaaaaaa-0000-4000-8000-000000000003'
OTHER = 'aaaaaaaa-0000-4000-8000-000000000004'
HELD = 'lease-reserved'
#: As clients write ``imageRef`` beside other disks.
ON_THE_HOST = {
    'uuid': '155d900f-4e14-4e4c-a73d-069cbf4541e6',
    'source_type': 'image',
    'destination_type': 'local',
    'boot_index': 0,
}


class Cinder(fixtures.Fixture):
    """What Cinder with its extension says, on top of nova's fixture.

    :ivar statuses: id -> status of the volumes that cannot be attached
    :ivar calls: (method, volume) of every request about a volume
    :ivar gone: ids of deleted volumes
    :ivar detached: (volume, server, attachment) of the old way to detach
    """

    METHODS = (
        'get',
        'attachment_create',
        'unreserve_volume',
        'detach',
        'terminate_connection',
        'delete',
    )

    def __init__(self, nova_fixture):
        super().__init__()
        self.nova = nova_fixture
        self.statuses = {}
        self.calls = []
        self.detached = []
        self.gone = set()

    def _setUp(self):
        for name in self.METHODS:
            patch = fixtures.MonkeyPatch(f'nova.volume.cinder.API.{name}', self._noted(name))
            self.useFixture(patch)
        # Nova's fixture gives ids here, where the real one gives attachments.
        listing = 'nova.volume.cinder.API.attachment_get_all'
        self.useFixture(fixtures.MonkeyPatch(listing, self._attachments))

    def _attachments(self, context, instance_id, volume_id):
        found = self.nova.volume_to_attachment[volume_id].values()
        return [each for each in found if each['instance_uuid'] == instance_id]

    def _noted(self, name):
        method = getattr(self, name)

        def call(api, context, volume_id, *args, **kwargs):
            self.calls.append((name, volume_id))
            return method(context, volume_id, *args, **kwargs)

        return call

    def get(self, context, volume_id, microversion=None):
        if volume_id in self.gone:
            raise exception.VolumeNotFound(volume_id=volume_id)
        volume = dict(self.nova.fake_get(context, volume_id), bootable=True)
        if volume_id in self.statuses:
            volume['status'] = self.statuses[volume_id]
        return volume

    def attachment_create(self, context, volume_id, instance_id, *args, **kwargs):
        status = self.get(context, volume_id)['status']
        if status not in ('available', 'downloading', 'in-use'):
            raise exception.InvalidInput(
                reason=f'Volume {volume_id} status must be available or downloading to reserve, '
                f'but the current status is {status}. (HTTP 400)'
            )
        return self.nova.fake_attachment_create(context, volume_id, instance_id, *args, **kwargs)

    def unreserve_volume(self, context, volume_id):
        """Free a volume that is reserved for nobody, as cinder_ext does."""
        if not self.nova.volume_to_attachment[volume_id]:
            self.statuses[volume_id] = 'available'

    def detach(self, context, volume_id, instance_uuid=None, attachment_id=None):
        self.detached.append((volume_id, instance_uuid, attachment_id))

    def terminate_connection(self, context, volume_id, connector):
        """Nothing; a test looks into the calls."""

    def delete(self, context, volume_id):
        self.gone.add(volume_id)

    def made(self, name):
        """Ids of the volumes that a method was called for."""
        return [volume for method, volume in self.calls if method == name]


def disk(volume, index=None, **values):
    return {
        'uuid': volume,
        'source_type': 'volume',
        'destination_type': 'volume',
        'boot_index': index,
        **values,
    }


class VolumesTest(NovaTest):
    def setUp(self):
        super().setUp()
        self.volumes = self.useFixture(Cinder(self.cinder))
        self.volumes.statuses = {ROOT: HELD, DATA: HELD, OTHER: HELD}
        self.make_lease(LEASE, ROOT, DATA)
        self.spawned = self.spy_on()

    def make_lease(self, ident, *volumes, status='pending'):
        self.lease_service.leases[ident] = {
            'id': ident,
            'name': 'l',
            'status': 'PENDING',
            'start_date': iso(hours=1),
            'end_date': iso(hours=2),
            'reservations': [
                {'resource_type': 'virtual:volume', 'resource_id': each, 'status': status}
                for each in volumes
            ],
        }

    def join(self, *disks, hints=None, status=202, **server):
        """Boot a server of the lease with these disks; give the server, or the refusal."""
        if any(each['boot_index'] == 0 for each in disks):
            server['imageRef'] = ''
        else:
            disks = (ON_THE_HOST, *disks)
        hints = {'lease_id': LEASE} if hints is None else hints
        answer = self.post(hints, status=status, block_device_mapping_v2=list(disks), **server)
        (body,) = answer.body.values()
        return body if status == 202 else body['message']

    def awake(self, *volumes):
        """Return those that the lease service has woken."""
        for each in volumes:
            self.volumes.statuses.pop(each, None)

    def attached(self, server):
        return sorted(self.cinder.volume_ids_for_instance(server['id']))

    def disks(self):
        """Volumes that the hypervisor was given."""
        given = self.spawned.last['block_device_info']['block_device_mapping']
        assert all(each['connection_info'] for each in given)
        return sorted(each['connection_info']['data']['volume_id'] for each in given)

    def assert_waits(self, server):
        self.assert_status(server, 'RESERVED')
        assert self.attached(server) == []

    def assert_wakes(self, server, *volumes):
        self.awake(*volumes)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.disks() == self.attached(server) == sorted(volumes)
