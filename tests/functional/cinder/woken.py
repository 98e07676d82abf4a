# SPDX-License-Identifier: Apache-2.0
"""Volumes that are made when their lease starts."""

import contextlib

import fixtures
from cinder import objects

from cinder_ext import reservation_marker
from tests.functional.cinder.base import POOL, CinderTest
from tests.functional.cinder.rpc import Killed
from tests.functional.cinder.users import ALICES


class WakeUpTest(CinderTest):
    def mark(self, volume):
        return reservation_marker.get(self.ctxt, self.row(volume))

    def assert_held(self, volume):
        found = self.assert_status(volume, 'lease-reserved')
        assert found['os-vol-host-attr:host'] == POOL
        assert self.mark(volume).state == reservation_marker.HELD
        assert volume['id'] not in self.array.volumes
        assert self.workers() == []

    def assert_made(self, volume, *calls):
        self.assert_status(volume, 'available')
        assert [name for name, _ in self.array.calls] == list(calls)
        assert volume['id'] in self.array.volumes
        assert self.mark(volume) is None
        assert self.workers() == []

    def said(self, volume):
        """Return the sentences of the messages about a volume, newest first."""
        return [each['user_message'].partition(':')[2] for each in self.messages(volume)]


def make_backup(test):
    """Return a backup of alice: cinder-backup does not run here."""
    backup = objects.Backup(
        test.ctxt,
        user_id='alice',
        project_id=ALICES,
        volume_id=test.volume_create()['id'],
        size=1,
        status='available',
        host='backup1',
        service='fake',
    )
    backup.create()
    return backup


@contextlib.contextmanager
def mark_left():
    """cinder-volume dies when the volume is complete."""

    def die(*args):
        raise Killed

    with fixtures.MonkeyPatch('cinder_ext.reservation_marker.clear', die):
        yield
