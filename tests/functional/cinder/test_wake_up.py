# SPDX-License-Identifier: Apache-2.0
"""Volumes are held without the backend, and made when their lease starts."""

from cinder_ext import marks
from tests.functional.cinder.base import POOL, CinderTest


class TestEmpty(CinderTest):
    def test_reserve_and_wake_up(self):
        volume = self.reserve(size=3)
        found = self.assert_status(volume, 'lease-reserved')
        assert found['os-vol-host-attr:host'] == POOL
        assert self.array.calls == []
        assert self.workers() == []
        assert self.quota_usage() == (1, 3)
        assert self.allocated() == 3
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.array.calls == [('create_volume', volume['id'])]
        assert self.workers() == []
        assert self.quota_usage() == (1, 3)
        assert self.allocated() == 3
        assert marks.get(self.ctxt, self.row(volume)) is None
        self.delete(volume)
        self.assert_gone(volume)
        assert self.array.volumes == {}
