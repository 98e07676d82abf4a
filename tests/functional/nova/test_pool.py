# SPDX-License-Identifier: Apache-2.0
"""Who gets onto hosts of the pool: servers of a reservation, of its project, while it lasts."""

import uuid

from nova.tests.functional.api import client

from climate_common import lanes
from tests.functional.nova import pool
from tests.functional.nova.base import NovaTest


class PoolTest(NovaTest):
    """host1 and host2 are in the pool; host3 is for everybody."""

    COMPUTES = ('host1', 'host2', 'host3')
    POOL = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.reservation = str(uuid.uuid4())
        self.pool = pool.Pool(self.placement)
        self.lanes = {host: self.pool.enrol(host) for host in self.POOL}
        self.other = client.TestOpenStackClient(
            'other', self.api_fixture.base_url, project_id='other', roles=['reader', 'member']
        )
        self.other.microversion = self.microversion

    def whole_host(self, api=None, reservation=None):
        """The aggregates of a reservation of whole hosts."""
        api = api or self.api
        return [lanes.host_aggregate(reservation or self.reservation, api.project_id)]

    def slots(self, flavor_id=None):
        """The aggregates of a reservation of slots for one flavor."""
        flavor = self.admin_api.get_flavor(flavor_id or self.flavor['id'])
        shape = lanes.flavor_shape(flavor)
        return [lanes.slot_aggregate(self.reservation, self.api.project_id, shape)]

    def inside(self, **server):
        """Boot a server that names the reservation."""
        return self.boot({'reservation': self.reservation}, **server)

    def assert_host(self, server, *hosts, status='ACTIVE'):
        found = self.assert_status(server, status)['OS-EXT-SRV-ATTR:host']
        assert found in hosts, found

    def assert_no_host(self, server):
        fault = self.assert_status(server, 'ERROR')['fault']
        assert 'No valid host' in fault['message'], fault
        assert self.allocations(server) == {}


class TestWhoGetsIn(PoolTest):
    def test_ordinary_servers_stay_outside(self):
        self.lanes['host1'].open(self.whole_host())
        for _ in range(2):
            self.assert_host(self.boot(), 'host3')
        self.assert_no_host(self.boot(api=self.admin_api, availability_zone='nova:host1'))
        self.assert_no_host(self.boot(api=self.admin_api, host='host1'))
        self.assert_no_host(self.boot(api=self.admin_api, hypervisor_hostname='host2'))
        self.assert_host(self.boot(api=self.admin_api, host='host3'), 'host3')

    def test_only_the_project_of_a_reservation_enters_with_its_id(self):
        lane = self.lanes['host1'].open(self.whole_host())
        server = self.inside()
        self.assert_host(server, 'host1')
        assert lane.consumers == {server['id']}
        self.assert_no_host(self.inside(api=self.other))
        self.assert_no_host(self.boot({'reservation': str(uuid.uuid4())}))
        self.assert_no_host(self.inside(api=self.admin_api, host='host3'))
        self.lanes['host2'].open([*self.whole_host(), *self.whole_host(self.other)])
        self.assert_host(self.inside(api=self.other), 'host2')
