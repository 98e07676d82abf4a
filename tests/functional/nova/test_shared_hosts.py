# SPDX-License-Identifier: Apache-2.0
"""Shared hosts: ordinary servers run there as long as no lease has them."""

import pytest

from climate_common import lanes
from climate_core import exceptions
from climate_hosts.db import hosts as db
from climate_hosts.watch.isolation import find_problems as find_wrong
from climate_hosts.watch.refresh import HostRefresher
from climate_hosts.watch.repair import HostRepair
from tests.functional.nova.host_leases import HostLeasesTest
from tests.support import pools


class TestLent(HostLeasesTest):
    """host1 is shared, and has a server; host2 is for everybody."""

    COMPUTES = ('host1', 'host2')
    POOL = ()

    def setUp(self):
        super().setUp()
        self.server = self.boot_on_host1()
        self.host_id = self.enrol('host1', shared=True, extra={'rack': '7'})

    def boot_on_host1(self):
        server = self.boot(availability_zone='nova:host1', api=self.admin_api)
        assert self.host_of(server) == 'host1'
        return server

    def host(self):
        return self.world.database.read(db.HOSTS.get, self.host_id)

    def test_host_with_servers_is_enrolled_and_more_may_come(self):
        assert (self.host().is_shared, self.host().is_isolated, self.paused) == (True, False, [])
        assert lanes.POOL not in self.aggregates()
        self.boot_on_host1()

    def test_nothing_is_promised_of_it(self):
        assert not self.host().available
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts()

    def test_it_is_disabled_and_enabled_and_lent_all_the_time(self):
        for values, reason in (
            ({'available': False}, 'The host is disabled.'),
            ({'available': False, 'disabled_reason': 'disk'}, 'disk'),
            ({'pool': 'gpu'}, 'disk'),
            ({'available': True}, None),
            ({'extra': {'rack': '8'}}, None),
        ):
            self.operations.update_host(self.context, self.host_id, values)
            host = self.host()
            assert (host.available, host.disabled_reason, host.open_to_unreserved) == (
                False,
                reason,
                True,
            )
            assert host.is_enabled is (reason is None)
        with pytest.raises(exceptions.BadRequest, match='only with disabled'):
            self.operations.update_host(self.context, self.host_id, {'disabled_reason': 'x'})

    def test_whether_it_is_shared_is_not_changed(self):
        with pytest.raises(exceptions.BadRequest) as caught:
            self.operations.update_host(self.context, self.host_id, {'extra': {'shared': False}})
        assert caught.value.field == 'shared'

    def test_it_leaves_its_pool_with_its_servers(self):
        self.operations.delete_host(self.context, self.host_id)
        assert self.world.database.read(db.find, 'host1') is None
        with pytest.raises(exceptions.HostInUse):
            self.enrol('host1')

    def test_what_nova_and_placement_say_is_read_anew(self):
        self.set_ratio('VCPU', 4.0)
        refresher = HostRefresher(self.conf, self.world.database, self.cloud)
        with self.assertNoLogs('climate_hosts.watch.refresh', 'WARNING'):
            refresher.refresh()
        assert self.host().capacity['vcpus'] == 8

    def test_lost_aggregate_is_repaired_and_nothing_else_is_wrong(self):
        conn, database = self.cloud.service(), self.world.database
        repair = HostRepair(database, conn, True)
        refresher = HostRefresher(self.conf, database, self.cloud)
        for mend in (refresher.refresh, lambda: list(repair.run())):
            pools.isolate(conn, self.provider())
            mend()
            assert lanes.POOL not in self.aggregates()
        assert list(repair.run()) == []
        assert find_wrong(database, conn, ()) == []
