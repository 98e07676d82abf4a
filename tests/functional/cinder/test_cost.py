# SPDX-License-Identifier: Apache-2.0
"""An ordinary volume pays no SQL statement and no HTTP call more than in stock cinder.

Both cinders are counted in one run: the same requests, first to cinder with the extension, then
to a stock cinder-api, scheduler and cinder-volume on the same database.
"""

import contextlib

from cinder import rpc
from cinder.volume.manager import VolumeManager as StockManager

from cinder_ext.manager import VolumeManager
from tests.functional import cost
from tests.functional.cinder.base import HOST, STOCK_MANAGER, CinderTest
from tests.functional.cinder.users import ADMIN, ALICE, CLIMATE

FILTERS = ['AvailabilityZoneFilter', 'CapacityFilter', 'CapabilitiesFilter']
SERVER = '11111111-2222-3333-4444-555555555555'
CONNECTOR = {'host': 'h', 'initiator': 'iqn.x', 'ip': '192.0.2.1'}


class TestCost(CinderTest):
    @contextlib.contextmanager
    def counted(self, name, counts):
        """Note the numbers of SQL statements and of HTTP requests of an operation."""
        with cost.counted() as (sql, http):
            yield
        counts[name] = len(sql), len(http)

    def measure(self):
        """Do it twice: caches are filled by the first. Gives operation -> statements."""
        for _ in range(2):
            counts = {}
            with self.counted('create', counts):
                body = {'volume': {'size': 1}, 'OS-SCH-HNT:scheduler_hints': {'query': '"true"'}}
                volume = self.post('/volumes', body)['volume']
            self.assert_status(volume, 'available')
            self.steps(volume, counts)
        return counts

    def steps(self, volume, counts):
        path = f'/volumes/{volume["id"]}'
        with self.counted('show', counts):
            self.get(path)
        with self.counted('list', counts):
            self.get('/volumes/detail')
        with self.counted('snapshot', counts):
            snapshot = self.snapshot(volume)
        with self.counted('delete snapshot', counts):
            self.request('DELETE', f'/snapshots/{snapshot["id"]}', status=202)
        with self.counted('attachment', counts):
            attachment = self.post('/attachments', _attachment(volume), CLIMATE, 200)
        attachment_id = attachment['attachment']['id']
        with self.counted('delete attachment', counts):
            self.request('DELETE', f'/attachments/{attachment_id}', user=CLIMATE, status=200)
        with self.counted('old attach', counts):
            self.action(volume, 'os-reserve', user=ADMIN)
            self.action(volume, 'os-initialize_connection', ADMIN, 200, connector=CONNECTOR)
            self.action(volume, 'os-attach', ADMIN, instance_uuid=SERVER, mountpoint='/dev/vdb')
        with self.counted('old detach', counts):
            self.action(volume, 'os-terminate_connection', CLIMATE, connector=CONNECTOR)
            self.action(volume, 'os-detach', CLIMATE)
        with self.counted('extend', counts):
            self.action(volume, 'os-extend', user=ALICE, new_size=2)
        with self.counted('delete', counts):
            self.delete(volume)
        self.assert_gone(volume)

    def test_ordinary_volume_costs_what_it_costs_in_stock_cinder(self):
        assert type(self.volumes[HOST].manager) is VolumeManager
        counts = {}
        with self.counted('reserved', counts):
            volume = self.reserve()
        # The lease.
        assert counts['reserved'][1] == 1
        self.delete(volume)
        self.lease_service.requests.clear()
        with_extension = self.measure()
        assert self.lease_service.requests == []

        self.stop_volume()
        self.flags(
            volume_api_class='cinder.volume.api.API',
            backup_api_class='cinder.backup.api.API',
            osapi_volume_extension=['cinder.api.contrib.standard_extensions'],
            scheduler_default_filters=[
                'AvailabilityZoneFilter',
                'CapacityFilter',
                'CapabilitiesFilter',
            ],
        )
        rpc.LAST_RPC_VERSIONS.clear()
        self.start_volume(manager=STOCK_MANAGER)
        assert type(self.volumes[HOST].manager) is StockManager
        host_manager = self.scheduler.manager.driver.host_manager
        host_manager.enabled_filters = host_manager._choose_backend_filters(FILTERS)
        self._app = self._load_app()
        stock = self.measure()

        # One SELECT looks for reserved volumes that will be made from what is deleted or extended;
        # and cinder-volume reports its capacity when it has deleted a volume, which is one, too.
        more = {'delete': 2, 'delete snapshot': 1, 'extend': 1}
        expected = {name: (sql + more.get(name, 0), 0) for name, (sql, _) in stock.items()}
        assert with_extension == expected
        assert min(stock.values()) > (1, 0)


def _attachment(volume):
    return {
        'attachment': {
            'volume_uuid': volume['id'],
            'instance_uuid': SERVER,
            'connector': CONNECTOR,
        }
    }
