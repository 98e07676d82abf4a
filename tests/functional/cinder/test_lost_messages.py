# SPDX-License-Identifier: Apache-2.0
"""Messages that are lost, late, or come twice: a reserved volume is created once."""

import datetime

from oslo_utils import uuidutils

from cinder_ext import reservation_marker
from tests.functional.bus import Killed
from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ADMIN, CLIMATE

LONG_AGO = datetime.datetime(2020, 1, 1)
TO_VOLUME = ('cinder-volume', 'create_volume')


class TestLostMessages(CinderTest):
    def send(self, volume, status=202):
        """Ask for a wake_up, long after the last change of the volume."""
        self.write(volume, updated_at=LONG_AGO)
        return self.wake_up(volume, status=status)

    def send_twice(self):
        """Reserve a volume and wake it up twice; the messages are kept."""
        volume = self.reserve(size=3)
        self.bus.kept.add(TO_VOLUME)
        self.send(volume)
        self.send(volume)
        return volume

    def reset_to_error(self, volume):
        body = {'os-reset_status': {'status': 'error'}}
        self.post(f'/volumes/{volume["id"]}/action', body, ADMIN)

    def assert_created_once(self, volume):
        self.assert_status(volume, 'available')
        assert self.array.calls == [('create_volume', volume['id'])]
        assert reservation_marker.get(self.ctxt, self.row(volume)) is None
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)
        assert self.workers() == []

    def test_messages_of_repeats_in_any_order_create_it_once(self):
        for order in ([0], [1], [0, 1], [1, 0], [0, 0, 1, 1]):
            with self.subTest(order=order):
                volume = self.send_twice()
                # A third is refused until the timeout.
                answer = self.wake_up(volume, status=409)
                assert '30 seconds' in answer['conflictingRequest']['message']
                self.bus.deliver(*order)
                self.assert_created_once(volume)
                self.bus.kept.clear()
                self.delete(volume)
                self.array.calls.clear()

    def test_message_for_a_volume_in_error_is_ignored_and_a_repeat_creates_it_once(self):
        volume = self.reserve(size=3)
        self.bus.kept.add(TO_VOLUME)
        self.wake_up(volume)
        self.reset_to_error(volume)
        self.bus.deliver()
        self.assert_status(volume, 'error')
        assert self.array.calls == []
        self.wake_up(volume)
        self.reset_to_error(volume)
        self.wake_up(volume)
        self.bus.deliver()
        self.assert_created_once(volume)

    def test_repeat_is_refused_once_cinder_volume_has_begun(self):
        volume = self.reserve(size=3)
        self.array.fail['create_volume'] = Killed()
        self.wake_up(volume)
        answer = self.send(volume, status=409)
        assert 'has begun' in answer['conflictingRequest']['message']
        self.assert_status(volume, 'creating')

    def test_reservation_whose_message_to_cinder_volume_is_late_wakes(self):
        for order, status in (([0, 1], 'lease-reserved'), ([1, 0], 'available')):
            with self.subTest(order=order):
                self.bus.kept.add(TO_VOLUME)
                volume = self.reserve(size=3)
                self.assert_status(volume, 'creating')
                self.wake_up(volume, status=409)
                self.send(volume)
                self.bus.deliver(*order)
                self.bus.kept.clear()
                self.assert_status(volume, status)
                if status != 'available':
                    self.wake_up(volume)
                self.assert_created_once(volume)
                self.delete(volume)
                self.array.calls.clear()

    def test_reservation_whose_message_to_the_scheduler_is_lost_is_only_deleted(self):
        self.bus.lost.add(('cinder-scheduler', 'create_volume'))
        volume = self.reserve()
        answer = self.send(volume, status=409)
        assert 'no backend' in answer['conflictingRequest']['message']
        self.reset_to_error(volume)
        self.delete(volume)
        self.assert_gone(volume)


class TestAttachment(CinderTest):
    """Cinder writes the status of the volume, and then its database stops."""

    def attach(self, volume):
        wanted = {'volume_uuid': volume['id'], 'instance_uuid': uuidutils.generate_uuid()}
        self.post('/attachments', {'attachment': wanted}, CLIMATE, status=200)

    def test_volume_that_is_reserved_for_nobody_is_unreserved_after_a_while(self):
        volume = self.volume_create()
        self.write(volume, status='reserved')
        self.action(volume, 'os-unreserve')
        self.assert_status(volume, 'reserved')
        self.write(volume, updated_at=LONG_AGO)
        self.action(volume, 'os-unreserve')
        self.assert_status(volume, 'available')
        self.attach(volume)
        self.write(volume, updated_at=LONG_AGO)
        self.action(volume, 'os-unreserve')
        self.assert_status(volume, 'reserved')
