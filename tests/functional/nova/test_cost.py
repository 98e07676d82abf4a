# SPDX-License-Identifier: Apache-2.0
"""A boot pays no SQL statement of nova and no HTTP call more than in stock nova.

Placement, which runs in the same process here, looks the pool up by one statement.
"""

import collections
import uuid

from nova.compute.manager import ComputeManager as NovaManager

from climate_common import lanes
from nova_ext.compute.manager import ComputeManager
from tests.functional import cost
from tests.functional.nova import pool
from tests.functional.nova.base import NovaTest


class TestCost(NovaTest):
    HAS_PERIODIC_TASKS = False

    def measure(self, **hints):
        """Boot and delete twice: caches are filled by the first."""
        for _ in range(2):
            with cost.counted() as (sql, http):
                server = self.boot({'query': '[">=", "$free_ram_mb", 1]', **hints})
            self.assert_status(server, 'ACTIVE')
            self.delete(server)
        return collections.Counter(sql), http

    def test_ordinary_boot_costs_what_it_costs_in_stock_nova(self):
        assert type(self.compute.manager) is ComputeManager
        with cost.counted() as (_, http):
            reserved = self.reserve()
        assert any('leases' in url for _, url in http)
        self.delete(reserved)
        self.lease_service.requests.clear()
        with_extension = self.measure()
        assert self.lease_service.requests == []

        self.become_stock_nova()
        assert type(self.compute.manager) is NovaManager
        stock = self.measure()

        (more,) = (with_extension[0] - stock[0]).elements()
        assert more.split() == pool.LOOKUP.split()
        assert stock[0] - with_extension[0] == {}
        assert len(with_extension[1]) == len(stock[1]) > 2
        assert stock[0].total() > 20

    def test_server_in_a_lane_costs_one_request_more_than_an_ordinary_server(self):
        """With it nova-api looks whether there is a lane of the reservation."""
        _, ordinary = self.measure()
        lane = pool.Pool(self.placement).enrol('host1')
        reservation = str(uuid.uuid4())
        lane.open(lanes.lane_aggregates(reservation, [self.api.project_id]))
        _, inside = self.measure(reservation=reservation)
        (_, looked), *rest = inside
        assert lanes.reservation_aggregate(reservation) in looked
        assert [method for method, _ in rest] == [method for method, _ in ordinary]
        assert lanes.SLOT in rest[0][1]
