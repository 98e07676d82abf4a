# SPDX-License-Identifier: Apache-2.0
"""Lanes are prepared before the start, which then only opens them; what is else is opened anew."""

import fixtures

from climate_common import lanes
from climate_hosts import lane_providers
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.plugins.lane_plugin import lane_of
from climate_hosts.watch.repair import HostRepair
from tests.functional.nova.host_leases import OTHERS, HostLeasesTest

START = '2082-12-01 13:00'


class PreparingTest(HostLeasesTest):
    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)

    def prepared(self, start=START, **wanted):
        """Create a lease, and let a minute be left until its start; return it."""
        lease = self.lease_hosts(start, **wanted)
        self.world.run_until_idle(minutes=59)
        return self.world.lease(lease.id)

    def start(self, lease, **later):
        """Do what is due at the start; return the lease, and the requests that this needed."""
        self.cloud.requests.clear()
        lease = self.settled(lease, **(later or {'minutes': 1}))
        assert lease.status == 'ACTIVE', lease.status_reason
        return lease, [method for method, _ in self.cloud.requests]

    def lane(self, lease):
        """Return the lane that is promised to a lease."""
        (reservation,) = lease.reservations
        return lane_of(reservation.allocations[0])

    def run_only(self, lease):
        """Do what is due of one lease."""
        for row in self.world.due():
            if row.lease_id == lease.id:
                self.world.executor.run(row)
        return self.world.lease(lease.id)


class TestCost(PreparingTest):
    COMPUTES = ('host1',)
    POOL = tuple(f'node{number}' for number in range(10))

    def setUp(self):
        def set_nodes(driver, _nodes):
            driver._nodes = list(self.POOL)

        self.useFixture(fixtures.MonkeyPatch('nova.virt.fake.FakeDriver._set_nodes', set_nodes))
        super().setUp()

    def test_start_needs_two_requests_for_each_host(self):
        lease, requests = self.start(self.prepared(min=1))
        assert requests == ['GET', 'PUT']
        self.world.operations.services.conf.set_override('prepare_seconds', 60, group=self.TYPE)
        lease = self.lease_hosts('2082-12-01 14:00', '2082-12-01 15:00', min=10, name='all')
        self.world.run_until_idle(minutes=59)
        lease, requests = self.start(lease)
        # The end of the first one comes before.
        assert requests[-20:] == ['GET', 'PUT'] * 10
        assert len(self.hosts_of(lease)) == 10

    def open_lanes(self, lease):
        """Count the lanes that servers of a lease may enter."""
        (reservation,) = lease.reservations
        aggregate = lanes.host_aggregate(reservation.id, lease.project_id)
        return len(self.candidates(f'resources={lanes.SLOT}:1&member_of={aggregate}'))

    def test_start_that_waits_for_a_host_asks_for_that_alone(self):
        lease = self.prepared(min=10)
        unit = lease.reservations[0].allocations[3].unit
        consumer = self.claim(unit['provider_id'], {'VCPU': 1})
        self.time.forward(minutes=1)
        assert self.run_only(lease).status == 'STARTING'
        for _ in range(3):
            self.cloud.requests.clear()
            self.time.forward(seconds=1)
            lease = self.run_only(lease)
            assert f'Host {unit["hypervisor_hostname"]} still has servers' in lease.status_reason
            # What the host has, and whose its lane is.
            assert [method for method, _ in self.cloud.requests] == ['GET', 'GET']
        assert self.open_lanes(lease) == 9
        self.placement.delete(f'/allocations/{consumer}', version='1.39')
        lease, requests = self.start(lease, seconds=1)
        assert requests == ['GET', 'PUT']
        assert self.open_lanes(lease) == 10
        assert lease.reservations[0].progress is None


class TestPreparing(PreparingTest):
    def test_nobody_enters_before_the_start(self):
        lease = self.prepared()
        assert lanes.reservation_aggregate(lease.reservations[0].id) in (
            lane_providers.read_access(self.cloud.service(), self.lane(lease)).aggregates
        )
        assert (self.open_to(lease), lease.status_reason) == (set(), None)
        assert self.inside(lease)[1] is None
        conn = self.cloud.service()
        assert not list(HostRepair(self.world.database, conn, True).run())
        lease, requests = self.start(lease)
        assert requests == ['GET', 'PUT']
        assert self.inside(lease)[1] == 'host1'
        assert lease.reservations[0].progress is None

    def test_host_of_a_lease_that_runs_is_prepared_for_the_next_one(self):
        first = self.settled(self.lease_hosts(end=START))
        second = self.prepared(project=OTHERS, name='second')
        assert self.inside(first)[1] == 'host1'
        assert second.reservations[0].progress['prepared'][self.lane(second)] is not None
        self.time.forward(minutes=1)
        second = self.run_only(second)
        assert (second.status, second.status_reason.split(': ')[-1]) == (
            'STARTING',
            'Host host1 still has servers of an earlier lease.',
        )
        assert self.settled(first).status == 'TERMINATED'
        self.start(second, seconds=2)
        assert self.open_to(first) == set()

    def test_empty_host_that_is_still_open_to_the_lease_before_is_not_opened(self):
        first = self.settled(self.lease_hosts(end=START))
        second = self.prepared(project=OTHERS, name='second')
        self.time.forward(minutes=1)
        second = self.run_only(second)
        assert (second.status, self.open_to(first)) == ('STARTING', {'host1'})
        assert 'is still open to an earlier lease' in second.status_reason
        assert self.settled(first).status == 'TERMINATED'
        self.start(second, seconds=2)

    def test_lease_that_starts_now_or_is_not_prepared_is_opened_all_the_same(self):
        lease, requests = self.start(self.lease_hosts(end='2082-12-01 12:30'), seconds=0)
        assert requests == ['GET', 'GET', 'PUT', 'PUT']
        assert self.settled(lease, minutes=30).status == 'TERMINATED'
        self.conf.set_override('prepare_seconds', 0, group=self.TYPE)
        second = self.lease_hosts(START, name='second')
        self.cloud.requests.clear()
        self.world.run_until_idle(minutes=29)
        assert self.cloud.requests == []
        assert self.open_to(self.start(second)[0]) == {'host1'}

    def test_lane_that_was_changed_after_it_was_prepared_is_read_again(self):
        lease = self.prepared()
        lane_providers.set_slots(self.cloud.service(), self.lane(lease), 7, is_open=False)
        lease, requests = self.start(lease)
        assert requests == ['GET', 'PUT', 'GET', 'PUT']
        assert self.inside(lease)[1] == 'host1'

    def test_lane_of_a_host_that_is_promised_no_more_is_given_back(self):
        self.enrol('host2')
        lease = self.prepared(names='host1')
        (reservation,) = lease.reservations
        left = self.lane(lease)
        self.world.update(lease.id, reservations=[{'id': reservation.id, 'names': 'host2'}])
        lease, _ = self.start(lease)
        assert self.open_to(lease) == {'host2'}
        assert lane_providers.read_access(self.cloud.service(), left).aggregates == frozenset()

    def test_lease_that_is_deleted_after_it_was_prepared_leaves_nothing(self):
        lease = self.prepared()
        self.world.delete(lease.id)
        self.settled(lease)
        found = lane_providers.read_access(self.cloud.service(), self.lane(lease)).aggregates
        assert found == frozenset()

    def test_start_that_is_moved_is_prepared_again(self):
        lease = self.prepared()
        self.world.update(lease.id, start_date='2082-12-01 13:30')
        self.cloud.requests.clear()
        self.world.run_until_idle(minutes=28)
        assert self.cloud.requests == []
        self.world.run_until_idle(minutes=1)
        assert len(self.cloud.requests) > 2
        assert self.start(self.world.lease(lease.id), minutes=2)[1] == ['GET', 'PUT']

    def test_manager_that_dies_while_it_prepares_or_starts_is_followed_by_the_next_one(self):
        self.conf.set_override('prepare_seconds', 3600, group=self.TYPE)
        lease = self.lease_hosts(START)
        assert self.die_and_go_on(lease) > 3
        assert self.open_to(lease) == set()
        self.time.forward(hours=1)
        assert self.die_and_go_on(lease) == 2
        assert self.inside(self.world.lease(lease.id))[1] == 'host1'


class TestShares(PreparingTest):
    TYPE = CapacityPlugin.resource_type

    def room(self, *period, **wanted):
        return self.lease_hosts(*period, flavor_id=self.flavor['id'], amount=1, **wanted)

    def test_lane_that_is_prepared_for_later_is_used_before(self):
        self.conf.set_override('prepare_seconds', 7200, group=self.TYPE)
        later = self.room(START)
        self.world.run_until_idle()
        first, _ = self.start(self.room('now', START, name='first'), seconds=0)
        assert self.lane(first) == self.lane(later)
        assert self.inside(first)[1] == 'host1'
        assert self.refused(later)
        self.world.run_until_idle(hours=1)
        later = self.settled(later, seconds=2)
        assert (later.status, self.inside(later)[1]) == ('ACTIVE', 'host1')
        assert self.refused(first)

    def test_host_that_was_leased_as_a_whole_is_shared_when_it_is_closed(self):
        self.TYPE = 'physical:host'
        whole = self.settled(self.lease_hosts(end=START))
        self.TYPE = CapacityPlugin.resource_type
        shared = self.room(START, name='shared')
        self.time.forward(hours=1)
        assert 'is still open to an earlier lease' in self.run_only(shared).status_reason
        assert self.settled(whole).status == 'TERMINATED'
        assert self.open_to(whole) == set()
        self.start(shared, seconds=2)
