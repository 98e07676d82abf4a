# SPDX-License-Identifier: Apache-2.0
"""Leases of the nodes of one service, as Ironic has them: each is a host with a single lane."""

from climate_hosts.db import hosts as db
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.watch.failures import HostWatch
from tests.functional.nova.host_leases import OTHERS, HostLeasesTest
from tests.functional.nova.hosts import use_nodes


class TestNodes(HostLeasesTest):
    COMPUTES = ('host1',)
    POOL = ('node1', 'node2')
    TYPE = HostPlugin.resource_type

    def setUp(self):
        use_nodes(self, (*self.POOL, 'node3'))
        super().setUp()

    def enrol(self, name, **values):
        self.conf.set_override('lanes_per_host', 1, group='hosts')
        return super().enrol(name, **values)

    def host_of(self, server):
        """Return the node of a server; None if there was none for it."""
        return self.show(server)['OS-EXT-SRV-ATTR:hypervisor_hostname']

    def withhold(self, name, is_so=True):
        """Have all of a node reserved, as Nova has it while Ironic cleans the node."""
        path = f'/resource_providers/{self.provider(name)}/inventories'
        found = self.placement.get(path, version='1.39').body
        for each in found['inventories'].values():
            each['reserved'] = each['total'] if is_so else 0
        self._put(path, found)

    def test_each_node_is_for_its_lease_alone(self):
        first = self.settled(self.lease_hosts(names='node1'))
        second = self.settled(self.lease_hosts(names='node2', project=OTHERS, name='second'))
        assert {each.status for each in (first, second)} == {'ACTIVE'}
        (reservation,) = second.reservations
        hint = {'reservation': reservation.id}
        assert self.inside(first)[1] == 'node1'
        assert self.host_of(self.boot(hint, api=self.others_api)) == 'node2'
        assert self.host_of(self.boot(hint)) is None
        assert self.host_of(self.boot({})) == 'node3'

    def test_start_waits_while_a_node_is_cleaned(self):
        lease = self.lease_hosts('2082-12-01 13:00', names='node1')
        self.withhold('node1')
        lease = self.settled(lease, hours=1, looks=2)
        assert lease.status == 'STARTING'
        assert 'Host node1 is not free yet' in lease.status_reason
        self.withhold('node1', False)
        assert self.settled(lease, seconds=10).status == 'ACTIVE'
        # What is cleaned later on is no affair of the start.
        self.withhold('node1')
        world = self.world
        assert world.plugins[self.TYPE].start(lease, lease.reservations[0]) is None

    def test_nodes_fail_and_come_back_with_their_service(self):
        world = self.world
        watch = HostWatch(self.conf, world.database, self.cloud, world.plugins, world.calendar)
        lease = self.settled(self.lease_hosts(names='node1'))
        self.lose('host1')
        watch.watch()
        assert world.lease(lease.id).degraded
        assert {world.database.read(db.find, each).failed for each in self.POOL} == {True}
        self.lose('host1', False)
        watch.watch()
        assert not world.lease(lease.id).degraded
        assert {world.database.read(db.find, each).available for each in self.POOL} == {True}
