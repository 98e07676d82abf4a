# SPDX-License-Identifier: Apache-2.0
"""The cinder of these tests, without the extension: what ordinary volumes do in it."""

from tests.functional.cinder.base import POOL, StockTest
from tests.functional.cinder.rpc import Killed
from tests.functional.cinder.users import ALICES, BOB


class TestStock(StockTest):
    def test_stock_cinder_creates_and_deletes(self):
        volume = self.volume_create(size=3)
        assert self.assert_status(volume, 'available')['os-vol-host-attr:host'] == POOL
        assert self.array.calls == [('create_volume', volume['id'])]
        assert self.quota_usage() == (1, 3)
        assert (self.allocated(), self.pool().free_capacity_gb) == (3, 97)
        assert self.workers() == []
        self.delete(volume)
        self.assert_gone(volume)
        assert self.quota_usage(ALICES) == (0, 0)
        assert self.allocated() == 0
        assert self.array.volumes == {}

    def test_stock_cinder_has_its_own_policies(self):
        volume = self.volume_create()
        self.get(f'/volumes/{volume["id"]}', user=BOB, status=404)

    def test_stock_cinder_sets_error_when_the_driver_fails(self):
        self.array.fail['create_volume'] = RuntimeError('no disk')
        self.assert_status(self.volume_create(), 'error')

    def test_stock_cinder_sets_error_after_a_kill(self):
        self.array.fail['create_volume'] = Killed()
        volume = self.volume_create()
        self.assert_status(volume, 'creating')
        (worker,) = self.workers()
        assert worker.resource_id == volume['id']
        self.restart()
        self.assert_status(volume, 'error')
        assert self.workers() == []
