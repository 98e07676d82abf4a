# SPDX-License-Identifier: Apache-2.0
"""What each kind of lease does for hosts and capacity, on a whole nova."""

import pytest

from climate_core import exceptions
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.functional.nova.host_leases import HostLeasesTest
from tests.support.created import get_id
from tests.support.kinds import kind_cell
from tests.support.world import TYPE, user


class KindsTest(HostLeasesTest):
    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)

    def hosts(self):
        return {'resource_type': HostPlugin.resource_type, 'min': 1}

    def capacity(self):
        """More than half of what host1 has."""
        room = {'amount': 5, 'flavor_id': self.flavor['id']}
        return {'resource_type': CapacityPlugin.resource_type, **room}

    def ask(self, kind, *reservations, **values):
        body = {'name': kind, 'duration': '2h', 'kind': kind, **values}
        body['reservations'] = list(reservations)
        context = user(self.api.project_id)
        return self.world.lease(get_id(self.world.operations.creator.create_lease(context, body)))

    def is_entered(self, lease):
        """Tell whether a server comes to the host by a lease."""
        return self.inside(lease)[1] == 'host1'

    def assert_immediate(self, *wanted):
        lease = self.settled(self.ask('immediate', *wanted))
        assert (lease.kind, lease.status) == ('immediate', 'ACTIVE')
        assert self.is_entered(lease)
        with pytest.raises(exceptions.NotEnough):
            self.ask('immediate', *wanted)

    def assert_scheduled(self, *wanted):
        lease = self.ask('scheduled', *wanted, start_date='2082-12-01 14:00')
        assert (lease.kind, lease.status) == ('scheduled', 'PENDING')
        with pytest.raises(exceptions.NotEnough, match='from 2082-12-01 16:00 UTC on'):
            self.ask('scheduled', *wanted, start_date='2082-12-01 15:00')
        assert self.refused(lease)
        assert self.is_entered(self.settled(lease, hours=2))

    def assert_retried(self, *wanted):
        first = self.settled(self.ask('retry', *wanted))
        second = self.settled(self.ask('retry', *wanted))
        assert (first.status, second.status) == ('ACTIVE', 'WAITING')
        assert not second.reservations[0].amounts
        self.world.operations.end_lease(user(self.api.project_id), first.id)
        self.settled(first)
        self.world.operations.queue.grant_waiting()
        assert self.is_entered(self.settled(second))


class TestKinds(KindsTest):
    @kind_cell('Hosts', 'immediate')
    def test_hosts_are_opened_at_once_or_refused(self):
        self.assert_immediate(self.hosts())

    @kind_cell('Hosts', 'scheduled')
    def test_hosts_are_promised_for_their_time_or_refused(self):
        self.assert_scheduled(self.hosts())

    @kind_cell('Hosts', 'retry')
    def test_hosts_are_waited_for(self):
        self.assert_retried(self.hosts())

    @kind_cell('Capacity', 'immediate')
    def test_capacity_is_opened_at_once_or_refused(self):
        self.assert_immediate(self.capacity())

    @kind_cell('Capacity', 'scheduled')
    def test_capacity_is_promised_for_its_time_or_refused(self):
        self.assert_scheduled(self.capacity())

    @kind_cell('Capacity', 'retry')
    def test_capacity_is_waited_for(self):
        self.assert_retried(self.capacity())

    @kind_cell('Existing servers, volumes or stacks, with hosts or capacity', 'immediate')
    def test_what_is_held_is_woken_with_hosts_or_nothing_is_leased(self):
        thing = {'resource_type': TYPE, 'resource_id': 'thing1'}
        lease = self.settled(self.ask('immediate', self.hosts(), thing))
        assert {each.status for each in lease.reservations} == {'active'}
        other = {'resource_type': TYPE, 'resource_id': 'thing2'}
        with pytest.raises(exceptions.NotEnough):
            self.ask('immediate', self.hosts(), other)
        assert self.world.things.count('wake', 'thing2') == 0
