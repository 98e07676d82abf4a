# SPDX-License-Identifier: Apache-2.0
"""The storage behind cinder: a driver that notes what it is asked for, and can be told to fail."""

import fixtures
from cinder.tests import fake_driver

POOL = {
    'total_capacity_gb': 100,
    'free_capacity_gb': 100,
    'allocated_capacity_gb': 0,
    'provisioned_capacity_gb': 0,
    'reserved_percentage': 0,
    'thin_provisioning_support': False,
    'thick_provisioning_support': True,
    'multiattach': True,
    'QoS_support': False,
}


class Array(fixtures.Fixture):
    """The arrays behind every service of a test; they outlive cinder-volume.

    :ivar calls: what drivers were asked for that touches volumes, in order: (method, volume's or
        snapshot's id)
    :ivar volumes: ids of the volumes that exist on a backend -> host of the service
    :ivar fail: method -> exception to raise instead, until it is taken out. What the method
        makes is made nevertheless if the method is in :attr:`half_made`
    :ivar half_made: methods that leave something behind when they fail
    :ivar clones_images: the array makes volumes from images by itself, as RBD does
    :ivar restores_backups: and from backups; without it cinder-backup does it
    :ivar pools: host of a service -> pool -> what it reports; a host that is not here has one
        pool ``pool`` with 100 GiB. Reports are constant: an array knows nothing of reservations
    """

    def _setUp(self):
        self.calls = []
        self.volumes = {}
        self.fail = {}
        self.half_made = set()
        self.clones_images = True
        self.restores_backups = True
        self.pools = {}
        Driver.array = self
        self.addCleanup(setattr, Driver, 'array', None)

    def note(self, method, resource_id):
        """Note a call; raises what it is told to."""
        self.calls.append((method, resource_id))
        if method in self.fail and method not in self.half_made:
            raise self.fail[method]

    def make(self, method, volume, host):
        """Have a volume come to be."""
        self.note(method, volume.id)
        self.volumes[volume.id] = host
        if method in self.fail:
            raise self.fail[method]

    def called(self, *methods):
        """Return the calls of these methods only."""
        return [call for call in self.calls if call[0] in methods]


class Driver(fake_driver.FakeLoggingVolumeDriver):
    """Cinder's fake driver in front of the :class:`Array` of the test."""

    SUPPORTS_ACTIVE_ACTIVE = True
    array = None

    def create_volume(self, volume):
        self.array.make('create_volume', volume, self.host)

    def create_volume_from_snapshot(self, volume, snapshot):
        self.array.make('create_volume_from_snapshot', volume, self.host)

    def create_cloned_volume(self, volume, src_vref):
        self.array.make('create_cloned_volume', volume, self.host)

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        """Make a volume from an image inside the array."""
        if not self.array.clones_images:
            return None, False
        self.array.make('clone_image', volume, self.host)
        return {}, True

    def create_volume_from_backup(self, volume, backup):
        """Make a volume from a backup inside the array."""
        if not self.array.restores_backups:
            raise NotImplementedError
        self.array.make('create_volume_from_backup', volume, self.host)
        return {}

    def delete_volume(self, volume):
        """Gone is gone: no error if it never was."""
        self.array.note('delete_volume', volume.id)
        self.array.volumes.pop(volume.id, None)

    def remove_export(self, context, volume):
        self.array.note('remove_export', volume.id)

    def create_export(self, context, volume, connector):
        self.array.note('create_export', volume.id)

    def initialize_connection(self, volume, connector):
        self.array.note('initialize_connection', volume.id)
        return super().initialize_connection(volume, connector)

    def terminate_connection(self, volume, connector, **kwargs):
        self.array.note('terminate_connection', volume.id)

    def create_snapshot(self, snapshot):
        self.array.note('create_snapshot', snapshot.id)

    def delete_snapshot(self, snapshot):
        self.array.note('delete_snapshot', snapshot.id)

    def extend_volume(self, volume, new_size):
        self.array.note('extend_volume', volume.id)

    def _update_volume_stats(self):
        pools = self.array.pools.get(self.host, {'pool': {}})
        self._stats = {
            'volume_backend_name': 'fake',
            'vendor_name': 'Climate',
            'driver_version': '1',
            'storage_protocol': 'fake',
            'pools': [{'pool_name': name, **POOL, **given} for name, given in pools.items()],
        }
