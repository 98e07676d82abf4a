# SPDX-License-Identifier: Apache-2.0
"""A reserved volume is deleted: nothing was there, and nothing is left."""

import fixtures
from cinder import objects

from cinder_ext import reservation_marker
from tests.functional.cinder.base import HOST, CinderTest
from tests.functional.cinder.users import ADMIN, BOB, CLIMATE


class TestDelete(CinderTest):
    def setUp(self):
        super().setUp()
        self.volume = self.reserve(size=3)

    def assert_nothing_is_left(self, but=0):
        """But rows of the table of workers, which cinder leaves there."""
        self.assert_gone(self.volume)
        assert self.quota_usage() == (0, 0)
        assert self.allocated() == 0
        assert len(self.workers()) == but
        assert self.array.calls == []
        assert reservation_marker.get(self.ctxt, objects.Volume(id=self.volume['id'])) is None

    def reset_and_delete(self, volume):
        path = f'/volumes/{volume["id"]}/action'
        self.post(path, {'os-reset_status': {'status': 'error'}}, ADMIN)
        self.delete(volume)

    def test_each_way_to_delete_leaves_nothing(self):
        """The quota is given back where it was taken, also by an administrator."""
        ways = {
            'owner': self.delete,
            'lease service': lambda volume: self.delete(volume, user=CLIMATE),
            'administrator': lambda volume: self.delete(volume, user=ADMIN),
            'cascade': lambda volume: self.delete(volume, query='?cascade=True'),
            'force': lambda volume: self.action(volume, 'os-force_delete', user=ADMIN),
            'after a reset': self.reset_and_delete,
        }
        self.delete(self.volume, user=BOB, status=404)
        self.assert_status(self.volume, 'lease-reserved')
        self.delete(self.volume)
        for way, delete in ways.items():
            with self.subTest(way=way):
                self.volume = self.reserve(size=3)
                delete(self.volume)
                self.assert_nothing_is_left()
        assert self.quota_usage(ADMIN.project_id) == (0, 0)
        # In error without a backend, and while cinder-scheduler is away.
        self.volume = self.reserve(size=200)
        self.assert_status(self.volume, 'error')
        self.delete(self.volume)
        self.assert_nothing_is_left()
        self.bus.lost.add('create_volume')
        for number, delete in enumerate((self.delete, self.reset_and_delete), 1):
            self.volume = self.reserve(size=3)
            self.assert_status(self.volume, 'creating')
            delete(self.volume)
            self.assert_nothing_is_left(but=number)

    def test_delete_before_the_scheduler_has_its_message_creates_nothing(self):
        """It finds no volume, and sends nothing on."""
        self.delete(self.volume)
        self.bus.kept.add(('cinder-scheduler', 'create_volume'))
        self.volume = self.reserve(size=3)
        self.delete(self.volume)
        self.bus.casts.clear()
        self.bus.deliver()
        assert [cast for cast in self.bus.casts if cast[0] == 'create_volume'] == []
        self.assert_nothing_is_left()

    def test_force_delete_beside_the_message_keeps_other_capacity(self):
        """What others have allocated is not given back with it, whichever message is first."""
        for kept in ({'create_volume'}, {'create_volume', 'delete_volume'}):
            self.bus.kept = {('cinder-volume', name) for name in kept}
            second = self.reserve(size=5)
            self.action(second, 'os-force_delete', user=ADMIN)
            if 'delete_volume' in kept:
                self.assert_status(second, 'deleting')
            self.bus.deliver()
            self.assert_gone(second)
            assert self.array.calls == []
            assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)

    def test_delete_while_creating_is_400_but_by_force(self):
        self.bus.kept.add(('cinder-volume', 'create_volume'))
        self.wake_up(self.volume)
        self.delete(self.volume, status=400)
        self.assert_status(self.volume, 'creating')
        self.action(self.volume, 'os-force_delete', user=ADMIN)
        self.bus.deliver()
        self.assert_nothing_is_left()

    def test_delete_after_a_failed_creation_asks_the_driver_if_half_is_left(self):
        self.array.fail['create_volume'] = RuntimeError('the array is full')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'lease-reserved')
        self.array.calls.clear()
        self.delete(self.volume)
        self.assert_nothing_is_left()
        self.volume = self.reserve(size=3)
        self.array.half_made.add('create_volume')
        self.array.fail['create_volume'] = RuntimeError('no answer')
        self.array.fail['delete_volume'] = RuntimeError('no answer')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'error')
        self.array.fail.clear()
        self.delete(self.volume)
        self.assert_gone(self.volume)
        assert self.array.volumes == {}
        assert self.quota_usage() == (0, 0)

    def test_delete_beside_a_begun_creation_asks_the_driver(self):
        """Between the look at the mark and the lock: what is there by now is for the driver."""
        real = reservation_marker.get_pending_state

        def late(context, volume):
            found = real(context, volume)
            reservation_marker.set_waking(context, volume)
            self.array.volumes[volume.id] = HOST
            return found

        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.get_pending_state', late):
            self.delete(self.volume)
        self.assert_gone(self.volume)
        assert self.array.volumes == {}
        assert (self.quota_usage(), self.allocated()) == ((0, 0), 0)

    def test_delete_that_cinder_refuses_leaves_the_volume_reserved(self):
        service = objects.Service.get_by_args(self.ctxt, HOST, 'cinder-volume')
        service.frozen = True
        service.save()
        answer = self.delete(self.volume, status=400)
        assert 'frozen' in answer.json['badRequest']['message']
        self.assert_status(self.volume, 'lease-reserved')
        assert reservation_marker.get_state(self.ctxt, self.row(self.volume)) == 'held'
        assert self.quota_usage() == (1, 3)

    def test_second_of_two_deletes_is_400(self):
        """The second does not find what the first has taken."""
        real = objects.Volume.conditional_update
        seen = []

        def late(volume, values, expected, *args, **kwargs):
            if values == {'status': 'error'} and not seen:
                seen.append(True)
                self.delete(self.volume)
            return real(volume, values, expected, *args, **kwargs)

        with fixtures.MonkeyPatch('cinder.objects.Volume.conditional_update', late):
            self.delete(self.volume, status=400)
        self.assert_nothing_is_left()

    def test_unmanage_of_a_reserved_volume_is_400(self):
        for status in ('lease-reserved', 'error'):
            self.write(self.volume, status=status)
            answer = self.action(self.volume, 'os-unmanage', user=ADMIN, status=400)
            assert 'is reserved' in answer['badRequest']['message']
            self.assert_status(self.volume, status)
