# SPDX-License-Identifier: Apache-2.0
"""Nova asks whether a volume boots, and for the properties of its image, before it starts."""

from cinder.db import api as db
from cinder.db import models

from tests.functional.cinder.base import IMAGE, CinderTest

PROPERTIES = {'image_id': IMAGE, 'image_name': 'fakeimage123456', 'architecture': 'x86_64'}


class TestBootable(CinderTest):
    def shown(self, volume):
        """Return the flag and the properties, as GET /volumes/{id} has them."""
        found = self.show(volume)
        return found['bootable'], found.get('volume_image_metadata', {})

    def rows(self, volume):
        """Return names of the properties in the table, with any that is there twice."""
        with db.main_context_manager.reader.using(self.ctxt):
            rows = (
                self.ctxt.session.query(models.VolumeGlanceMetadata)
                .filter_by(volume_id=volume['id'], deleted=False)
                .all()
            )
            return sorted(row.key for row in rows)

    def assert_boots(self, volume):
        bootable, properties = self.shown(volume)
        assert bootable == 'true'
        assert properties.items() >= PROPERTIES.items()
        assert self.rows(volume) == sorted(properties)

    def assert_boots_before_and_after(self, volume):
        self.assert_status(volume, 'lease-reserved')
        self.assert_boots(volume)
        before = self.shown(volume)
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        self.assert_boots(volume)
        assert self.shown(volume) == before

    def test_reserved_volume_shows_the_image_of_its_source(self):
        self.assert_boots(self.volume_create(imageRef=IMAGE))
        source = self.reserve(imageRef=IMAGE)
        self.assert_boots_before_and_after(source)
        snapshot = self.snapshot(source)
        for body in ({'source_volid': source['id']}, {'snapshot_id': snapshot['id']}):
            with self.subTest(**body):
                self.assert_boots_before_and_after(self.reserve(**body))

    def test_volume_of_an_unbootable_source_is_not_bootable(self):
        source = self.volume_create()
        snapshot = self.snapshot(source)
        for origin in ({}, {'source_volid': source['id']}, {'snapshot_id': snapshot['id']}):
            volume = self.reserve(**origin)
            assert self.shown(volume) == ('false', {})
            self.wake_up(volume)
            assert self.shown(volume) == ('false', {})

    def test_change_of_the_user_stays_after_the_wake_up(self):
        volume = self.reserve(imageRef=IMAGE)
        self.action(volume, 'os-set_image_metadata', status=200, metadata={'hw_disk_bus': 'scsi'})
        self.action(volume, 'os-set_bootable', status=200, bootable=False)
        before = self.shown(volume)
        assert before[0] == 'false'
        assert before[1]['hw_disk_bus'] == 'scsi'
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.shown(volume) == before

    def test_failed_creation_keeps_the_metadata(self):
        """Cinder writes them before the volume is complete."""
        volume = self.reserve(imageRef=IMAGE)
        before = self.shown(volume)
        self.array.fail['clone_image'] = RuntimeError('no disk')
        self.wake_up(volume)
        self.assert_status(volume, 'lease-reserved')
        assert self.shown(volume) == before
        self.array.fail.clear()
        manager = self.volumes['host1@fake'].manager
        real = manager.driver.clone_image

        def clone(*args):
            real(*args)
            # No column of a volume takes this: it fails when cinder saves it.
            return {'size': 'large'}, True

        manager.driver.clone_image = clone
        self.wake_up(volume)
        self.assert_status(volume, 'lease-reserved')
        assert self.shown(volume) == before
        manager.driver.clone_image = real
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        self.assert_boots(volume)

    def test_outage_of_glance_does_not_stop_the_reservation(self):
        """Cinder-api has seen the image, cinder-volume has not: it boots from its start on."""
        self.bus.kept.add(('cinder-volume', 'create_volume'))
        volume = self.reserve(imageRef=IMAGE)
        image = self.images.pop(IMAGE)
        self.bus.deliver()
        self.assert_status(volume, 'lease-reserved')
        assert self.shown(volume) == ('false', {})
        self.images[IMAGE] = image
        self.bus.kept.clear()
        self.wake_up(volume)
        self.assert_boots(volume)
