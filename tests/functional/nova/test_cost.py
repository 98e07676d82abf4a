# SPDX-License-Identifier: Apache-2.0
"""An ordinary boot pays no SQL statement and no HTTP call more than in stock nova."""

from nova.compute.manager import ComputeManager as NovaManager
from nova.tests import fixtures as nova_fixtures

from nova_ext.compute.manager import ComputeManager
from tests.functional import cost
from tests.functional.nova.base import NovaTest


class TestCost(NovaTest):
    def _setup_services(self):
        # What services do by their clocks, on a busy machine in the middle of a boot.
        self.flags(report_interval=0, service_down_time=3600, periodic_enable=False)
        super()._setup_services()

    def measure(self):
        """Boot and delete twice: caches are filled by the first."""
        for _ in range(2):
            with cost.counted() as (sql, http):
                server = self.boot({'query': '[">=", "$free_ram_mb", 1]'})
            self.assert_status(server, 'ACTIVE')
            self.delete(server)
        return len(sql), len(http)

    def test_ordinary_boot_costs_what_it_costs_in_stock_nova(self):
        assert type(self.compute.manager) is ComputeManager
        with cost.counted() as (_, http):
            reserved = self.reserve()
        assert any('leases' in url for _, url in http)
        self.delete(reserved)
        self.lease_service.requests.clear()
        with_extension = self.measure()
        assert self.lease_service.requests == []

        self.extension.disable()
        self.compute = self.restart_compute_service(self.compute)
        assert type(self.compute.manager) is NovaManager
        api = self.useFixture(nova_fixtures.OSAPIFixture(api_version='v2.1', stub_keystone=False))
        self.api, self.admin_api = api.api, api.admin_api
        self.api.microversion = self.admin_api.microversion = self.microversion
        filters = self.scheduler.manager.host_manager.enabled_filters
        filters[:] = [each for each in filters if type(each).__name__ != 'ReservationFilter']
        stock = self.measure()

        assert with_extension == stock
        assert stock[0] > 20
        assert stock[1] > 2
