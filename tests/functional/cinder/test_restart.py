# SPDX-License-Identifier: Apache-2.0
"""cinder-volume stops and starts, or dies in the middle; the table of workers is the real one."""

import contextlib

import fixtures

from cinder_ext import reservation_marker
from tests.functional.cinder.base import HOST, IMAGE
from tests.functional.cinder.rpc import Killed
from tests.functional.cinder.woken import WakeUpTest


class TestRestart(WakeUpTest):
    def dies(self, method, half_made=True):
        self.array.fail[method] = Killed()
        if half_made:
            self.array.half_made.add(method)

    def restart(self, host=HOST):
        self.array.fail.clear()
        self.array.half_made.clear()
        super().restart(host)
        self.array.calls.clear()

    def test_restart_leaves_a_reserved_volume_as_it_is(self):
        volume = self.reserve(size=3)
        self.restart()
        self.assert_held(volume)
        assert self.array.calls == []
        assert (self.allocated(), self.pool().free_capacity_gb) == (3, 97)
        # The message to a stopped cinder-volume waits for it.
        self.bus.kept.add(('cinder-volume', 'create_volume'))
        self.wake_up(volume)
        self.restart()
        self.assert_status(volume, 'creating')
        self.bus.deliver()
        self.assert_made(volume, 'create_volume')
        assert self.allocated() == 3

    def test_renamed_backend_holds_and_creates_the_volume(self):
        """cinder-manage volume update_host, after a machine was replaced."""
        volume = self.reserve(size=3)
        self.stop_volume(HOST)
        self.start_volume('host2@fake')
        self.write(volume, host='host2@fake#pool')
        self.report()
        assert self.pool(host='host2@fake').free_capacity_gb == 97
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.array.volumes == {volume['id']: 'host2@fake'}

    def test_kill_during_the_creation_or_the_removal_is_error_and_can_be_woken(self):
        volume = self.reserve(size=3)
        self.dies('create_volume')
        self.wake_up(volume)
        self.assert_status(volume, 'creating')
        assert volume['id'] in self.array.volumes
        assert len(self.workers()) == 1
        self.restart()
        self.assert_status(volume, 'error')
        assert self.mark(volume).state == reservation_marker.WAKING
        assert self.pool().free_capacity_gb == 97
        self.dies('delete_volume', half_made=False)
        self.wake_up(volume)
        self.assert_status(volume, 'creating')
        self.restart()
        self.assert_status(volume, 'error')
        self.wake_up(volume)
        self.assert_made(volume, 'remove_export', 'delete_volume', 'create_volume')
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)

    def test_kill_before_the_creation_is_error_and_can_be_woken(self):
        volume = self.reserve(size=3)
        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.set_waking', die):
            self.wake_up(volume)
        self.restart()
        self.assert_status(volume, 'error')
        assert self.mark(volume).state == reservation_marker.HELD
        self.wake_up(volume)
        self.assert_made(volume, 'create_volume')
        assert self.allocated() == 3

    def test_kill_after_the_creation_leaves_the_volume_complete_and_nothing_removes_it(self):
        volume = self.reserve(size=3)
        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.clear', die):
            self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.mark(volume).state == reservation_marker.WAKING
        self.restart()
        assert self.mark(volume) is None
        assert self.pool().free_capacity_gb == 100
        assert volume['id'] in self.array.volumes
        self.wake_up(volume, status=409)
        # Its mark was not taken away yet, and an administrator puts it into error.
        volume = self.reserve()
        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.clear', die):
            self.wake_up(volume)
        self.write(volume, status='error')
        self.array.calls.clear()
        self.wake_up(volume)
        assert self.array.calls == []
        assert volume['id'] in self.array.volumes
        self.assert_status(volume, 'available')
        assert self.mark(volume) is None

    def test_kill_before_cinder_writes_its_service_leaves_a_volume_that_nova_attaches(self):
        volume = self.reserve()

        def shares_targets(_):
            if self.row(volume).status == 'available':
                die()
            return True

        name = 'cinder.volume.manager.VolumeManager._driver_shares_targets'
        with fixtures.MonkeyPatch(name, shares_targets):
            self.wake_up(volume)
        self.restart()
        row = self.row(volume)
        assert (row.status, row.shared_targets) == ('available', True)
        assert row.service_uuid is not None

    def test_kill_before_it_is_held_again_is_error_and_can_be_woken(self):
        volume = self.reserve()
        self.array.fail['create_volume'] = RuntimeError('no disk')
        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.set_held', die):
            self.wake_up(volume)
        self.restart()
        self.assert_status(volume, 'error')
        self.wake_up(volume)
        self.assert_made(volume, 'remove_export', 'delete_volume', 'create_volume')

    def test_kill_during_the_download_of_an_image_can_be_woken(self):
        self.array.clones_images = False
        volume = self.reserve(imageRef=IMAGE)
        with downloading(die):
            self.wake_up(volume)
        self.assert_status(volume, 'downloading')
        self.restart()
        self.assert_status(volume, 'error')
        with downloading(lambda *args: None):
            self.wake_up(volume)
        self.assert_made(volume, 'remove_export', 'delete_volume', 'create_volume')
        assert self.show(volume)['volume_image_metadata']['image_id'] == IMAGE

    def test_kill_during_the_reservation_is_error_and_can_be_woken(self):
        with fixtures.MonkeyPatch('cinder_ext.image_metadata.write', die):
            volume = self.reserve(size=3)
        self.assert_status(volume, 'creating')
        self.restart()
        self.assert_status(volume, 'error')
        assert self.mark(volume).state == reservation_marker.HELD
        self.wake_up(volume)
        self.assert_made(volume, 'create_volume')
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)

    def test_delete_is_finished_after_a_kill_or_a_stop(self):
        volume = self.reserve(size=3)
        with fixtures.MonkeyPatch('cinder.quota.QUOTAS.commit', die):
            self.delete(volume)
        self.restart()
        self.assert_gone(volume)
        assert self.array.calls == []
        assert self.allocated() == 0
        volume = self.reserve(size=3)
        self.bus.kept.add(('cinder-volume', 'delete_volume'))
        self.delete(volume)
        self.restart()
        self.bus.deliver()
        self.assert_gone(volume)
        assert self.array.calls == []
        assert self.allocated() == 0


def die(*args, **kwargs):
    raise Killed


@contextlib.contextmanager
def downloading(copy):
    """Cinder gets an image from glance without qemu-img."""
    module = 'cinder.volume.flows.manager.create_volume'
    with contextlib.ExitStack() as stack:
        for name, value in [
            (f'{module}.image_utils.check_available_space', lambda *args: None),
            (f'{module}.image_utils.TemporaryImages.fetch', lambda *args: fetched()),
            (f'{module}.image_utils.qemu_img_info', lambda *args: _Info),
            (f'{module}.volume_utils.copy_image_to_volume', copy),
        ]:
            stack.enter_context(fixtures.MonkeyPatch(name, value))
        yield


@contextlib.contextmanager
def fetched():
    yield 'image'


class _Info:
    virtual_size = 1
