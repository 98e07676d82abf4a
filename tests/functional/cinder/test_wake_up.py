# SPDX-License-Identifier: Apache-2.0
"""Volumes are held without the backend, and made when their lease starts."""

import fixtures
from cinder import objects
from cinder.volume import rpcapi as volume_rpcapi
from oslo_utils import timeutils

from cinder_ext import messages, reservation_marker
from tests.functional.cinder.base import IMAGE
from tests.functional.cinder.users import ADMIN, ALICE
from tests.functional.cinder.woken import WakeUpTest, make_backup


class TestSources(WakeUpTest):
    """From every kind of source; quota and cinder's own count stay the same over the wake_up."""

    def wake(self, volume, *calls):
        self.array.calls.clear()
        self.assert_held(volume)
        usage, allocated = self.quota_usage(), self.allocated()
        self.wake_up(volume)
        self.assert_made(volume, *calls)
        assert (self.quota_usage(), self.allocated()) == (usage, allocated)

    def test_volume_of_each_source_is_created_at_the_wake_up(self):
        source = self.volume_create(size=2)
        for body, call in (
            ({}, 'create_volume'),
            ({'imageRef': IMAGE}, 'clone_image'),
            ({'source_volid': source['id']}, 'create_cloned_volume'),
            ({'snapshot_id': self.snapshot(source)['id']}, 'create_volume_from_snapshot'),
            ({'backup_id': make_backup(self).id}, 'create_volume_from_backup'),
        ):
            with self.subTest(call=call):
                self.array.calls.clear()
                volume = self.reserve(size=2, **body)
                assert self.array.calls == []
                self.wake(volume, call)


class TestCinderBackup(WakeUpTest):
    """A backend that leaves the restoring to cinder-backup: the volume is creating until then."""

    def setUp(self):
        super().setUp()
        self.array.restores_backups = False
        self.backup = make_backup(self)
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.backup.api.API.get_available_backup_service_host',
                lambda *args: 'backup1',
            )
        )
        self.volume = self.reserve(backup_id=self.backup.id)
        self.array.calls.clear()
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'creating')
        assert self.bus.casts[-1] == ('restore_backup', 'cinder-backup', 'backup1')

    def test_restore_by_cinder_backup_completes_the_volume(self):
        self.write(self.volume, status='available', launched_at=timeutils.utcnow())
        self.report()
        assert self.mark(self.volume) is None
        assert self.pool().free_capacity_gb == 100

    def test_failed_restore_can_be_woken_again(self):
        assert self.mark(self.volume).state == reservation_marker.WAKING
        self.report()
        assert self.pool().free_capacity_gb == 99
        # What cinder-backup writes, and not the error that its code means to write.
        self.write(self.volume, status='error_restoring')
        action = f'/volumes/{self.volume["id"]}/action'
        self.post(action, {'os-extend': {'new_size': 9}}, status=400)
        self.array.restores_backups = True
        self.array.calls.clear()
        self.wake_up(self.volume)
        self.assert_made(
            self.volume, 'remove_export', 'delete_volume', 'create_volume_from_backup'
        )

    def test_lost_restore_is_requested_again_after_a_reset_to_error(self):
        self.wake_up(self.volume, status=409)
        action = f'/volumes/{self.volume["id"]}/action'
        self.post(action, {'os-reset_status': {'status': 'error'}}, ADMIN)
        self.bus.casts.clear()
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'creating')
        assert self.bus.casts[-1] == ('restore_backup', 'cinder-backup', 'backup1')


class TestFailure(WakeUpTest):
    """What goes wrong at the wake_up leaves a reservation that can be woken again."""

    def fails(self, volume, method, error=None):
        self.array.fail[method] = error or RuntimeError('no disk')
        self.array.half_made.add(method)
        self.wake_up(volume)
        self.array.fail.clear()
        self.array.half_made.clear()

    def assert_wakes(self, volume):
        self.assert_held(volume)
        self.array.calls.clear()
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.array.volumes[volume['id']]
        assert self.mark(volume) is None

    def test_failure_of_the_driver_holds_the_volume_again(self):
        volume = self.reserve(size=3)
        for number in (1, 2, 3):
            self.array.calls.clear()
            self.fails(volume, 'create_volume')
            self.assert_held(volume)
            assert self.array.calls == [
                ('create_volume', volume['id']),
                ('remove_export', volume['id']),
                ('delete_volume', volume['id']),
            ]
            assert self.said(volume) == ['Driver failed to create the volume.'] * number
            assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)
        self.report()
        assert self.pool().free_capacity_gb == 97
        self.assert_wakes(volume)
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)
        clone = self.reserve(source_volid=volume['id'], size=3)
        self.fails(clone, 'create_cloned_volume')
        assert self.said(clone) == ['Driver failed to create the volume.']
        self.assert_wakes(clone)
        assert volume['id'] in self.array.volumes

    def test_missing_image_or_source_is_told_and_the_volume_is_held(self):
        volume = self.reserve(imageRef=IMAGE)
        image = self.images.pop(IMAGE)
        self.wake_up(volume)
        self.assert_held(volume)
        assert self.said(volume) == [messages.NO_SOURCE[1]]
        self.images[IMAGE] = image
        self.assert_wakes(volume)
        # Users cannot delete a source; an operator wrote into the database.
        source = self.volume_create()
        volume = self.reserve(source_volid=source['id'])
        self.row(source).destroy()
        self.wake_up(volume)
        self.assert_held(volume)
        assert self.said(volume) == [messages.NO_SOURCE[1]]

    def test_driver_that_is_not_initialized_holds_the_volume(self):
        volume = self.reserve()
        manager = self.volumes['host1@fake'].manager
        manager.driver._initialized = False
        self.wake_up(volume)
        self.assert_held(volume)
        assert self.array.calls == []
        assert self.said(volume) == ['Driver is not initialized at present.']
        manager.driver._initialized = True
        self.assert_wakes(volume)

    def test_remains_that_cannot_be_removed_are_error(self):
        volume = self.reserve(size=3)
        self.array.fail['delete_volume'] = RuntimeError('busy')
        self.fails(volume, 'create_volume')
        self.assert_status(volume, 'error')
        assert self.mark(volume).state == reservation_marker.WAKING
        assert self.said(volume)[0] == messages.LEFT_OVER[1]
        self.report()
        assert self.pool().free_capacity_gb == 97
        self.array.calls.clear()
        self.array.fail['delete_volume'] = RuntimeError('busy')
        self.wake_up(volume)
        self.assert_status(volume, 'error')
        assert self.array.called('create_volume') == []
        assert self.mark(volume).state == reservation_marker.WAKING
        self.array.fail.clear()
        self.array.calls.clear()
        self.wake_up(volume)
        self.assert_made(volume, 'remove_export', 'delete_volume', 'create_volume')
        assert self.allocated() == 3

    def test_delete_removes_the_remains(self):
        volume = self.reserve()
        self.array.fail['delete_volume'] = RuntimeError('busy')
        self.fails(volume, 'create_volume')
        assert volume['id'] in self.array.volumes
        self.delete(volume)
        self.assert_gone(volume)
        assert self.array.volumes == {}
        assert (self.quota_usage(), self.allocated()) == ((0, 0), 0)

    def test_failure_after_a_wake_up_by_an_administrator_is_told_to_the_owner(self):
        volume = self.reserve()
        self.array.fail['create_cloned_volume'] = RuntimeError('no disk')
        self.write(volume, source_volid=self.volume_create()['id'])
        self.wake_up(volume, user=ADMIN)
        assert self.said(volume) == ['Driver failed to create the volume.']
        assert self.messages(volume, user=ALICE)
        # What cinder has told is not repeated.
        volume = self.reserve()
        self.fails(volume, 'create_volume', NotImplementedError())
        assert len(self.said(volume)) == 1

    def test_error_after_the_creation_leaves_the_volume_available(self):
        volume = self.reserve()
        manager = self.volumes['host1@fake'].manager

        def fail():
            if self.row(volume).status == 'available':
                raise RuntimeError('no shared targets')

        manager._driver_shares_targets = fail
        self.wake_up(volume)
        self.assert_made(volume, 'create_volume')


class TestMessages(WakeUpTest):
    """Messages of the bus that come late, twice, or from a cinder-api without the extension."""

    def test_old_message_after_a_failure_is_ignored(self):
        volume = self.reserve()
        self.bus.kept.add('create_volume')
        self.wake_up(volume)
        letter = self.bus._queue[0]
        self.array.fail['create_volume'] = RuntimeError('no disk')
        self.bus.deliver()
        self.assert_held(volume)
        self.array.fail.clear()
        self.array.calls.clear()
        self.bus._queue.append(letter)
        self.bus.deliver()
        self.assert_held(volume)
        assert self.array.calls == []

    def test_message_for_a_deleted_volume_is_ignored(self):
        other = self.reserve()
        self.bus.kept.add(('cinder-volume', 'create_volume'))
        volume = self.reserve()
        self.assert_status(volume, 'creating')
        self.action(volume, 'os-force_delete', user=ADMIN)
        self.bus.deliver()
        self.assert_gone(volume)
        self.assert_held(other)
        assert self.array.calls == []
        assert (self.quota_usage(), self.allocated()) == ((1, 1), 1)

    def test_reservation_by_a_stock_api_is_error(self):
        """It hands on hints that it does not know, and tells no lease."""
        volume = self.reserve()
        row = self.row(volume)
        reservation_marker.clear(self.ctxt, row)
        self.write(volume, status='creating')
        spec = objects.RequestSpec(volume_id=row.id, volume_properties=None)
        volume_rpcapi.VolumeAPI().create_volume(
            self.ctxt,
            self.row(volume),
            request_spec=spec,
            filter_properties={'scheduler_hints': {'reserved': 'True'}},
        )
        self.assert_status(volume, 'error')
        assert self.said(volume) == [messages.NO_RESERVATION[1]]
        assert self.array.calls == []


class TestOrdinary(WakeUpTest):
    """Volumes without hints, in a cinder with the extension."""

    def test_ordinary_volume_is_created_and_deleted_or_in_error(self):
        volume = self.volume_create(size=3)
        self.assert_made(volume, 'create_volume')
        assert self.lease_service.requests == []
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)
        self.delete(volume)
        self.assert_gone(volume)
        assert (self.quota_usage(), self.allocated()) == ((0, 0), 0)
        assert self.array.volumes == {}
        self.array.fail['create_volume'] = RuntimeError('no disk')
        volume = self.volume_create()
        self.assert_status(volume, 'error')
        assert reservation_marker.get(self.ctxt, self.row(volume)) is None
