# SPDX-License-Identifier: Apache-2.0
"""What becomes of the servers on the hosts of a lease at its end, on a whole nova."""

import datetime
from unittest import mock

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_hosts import placement
from tests.functional.nova.host_leases import HostLeasesTest

#: The message to nova-compute that deletes a server.
TERMINATE = 'nova.compute.rpcapi.ComputeAPI.terminate_instance'


class EndsTest(HostLeasesTest):
    """host1 is in the pool; host2 is for everybody."""

    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)

    def run_lease(self, servers=1, **wanted):
        """Start a lease until 13:00; return it and the servers in it."""
        lease = self.settled(self.lease_hosts(end='2082-12-01 13:00', **wanted))
        made = [self.inside(lease) for _ in range(servers)]
        assert [host for _, host in made] == ['host1'] * servers
        return lease, [server for server, _ in made]

    def states(self, *servers):
        """Return the host and the status of each."""
        shown = [self.show(each) for each in servers]
        return [(each['OS-EXT-SRV-ATTR:host'], each['status']) for each in shown]

    def consumers(self):
        """Return what is on the host of the pool."""
        return placement.list_consumers(self.cloud.service(), self.provider())


class TestMigrate(EndsTest):
    def test_servers_leave_the_pool_as_ordinary_ones(self):
        lease, servers = self.run_lease(3, on_end='migrate')
        self.api.post_server_action(servers[1]['id'], {'pause': None})
        self._wait_for_state_change(servers[1], 'PAUSED')
        self._stop_server(servers[2])
        lease = self.settled(lease, hours=1)
        assert (lease.status, lease.status_reason) == ('TERMINATED', None)
        assert self.states(*servers) == [
            ('host2', 'ACTIVE'),
            ('host2', 'PAUSED'),
            ('host2', 'SHUTOFF'),
        ]
        assert self.consumers() == []
        assert self.world.told().count('lease.update') == 1
        # They are as any other now: no host of the pool takes them back.
        second = self.settled(self.lease_hosts(end='2082-12-01 15:00', name='second'))
        assert (second.status, self.inside(second)[1]) == ('ACTIVE', 'host1')

    def test_calendar_keeps_the_host_until_the_servers_have_had_their_time(self):
        self.run_lease(0, on_end='migrate', grace=600)
        with pytest.raises(exceptions.NotEnough, match='13:10'):
            self.lease_hosts('2082-12-01 13:00', name='second')

    def test_what_cannot_be_moved_is_told_and_shelved_when_the_time_is_over(self):
        lease, (server, suspended) = self.run_lease(2, on_end='migrate', grace=600)
        self._suspend_server(suspended)
        self.lose('host2')
        lease = self.settled(lease, hours=1, looks=3)
        assert lease.status == 'TERMINATING'
        assert f'Server {server["id"]}: ' in lease.status_reason
        assert 'does not move a server that is suspended' in lease.status_reason
        lease = self.settled(lease, minutes=10)
        assert (lease.status, lease.status_reason) == ('TERMINATED', None)
        assert self.states(server, suspended) == [(None, 'SHELVED_OFFLOADED')] * 2

    def test_what_cannot_be_moved_is_deleted_if_the_operator_says_so(self):
        self.conf.set_override('unmovable', 'delete', group=self.TYPE)
        lease, (server,) = self.run_lease(on_end='migrate', grace=0)
        assert self.settled(lease, hours=1).status == 'TERMINATED'
        self._wait_until_deleted(server)

    def test_managers_that_die_have_each_server_moved(self):
        lease, (server, stopped) = self.run_lease(2, on_end='migrate')
        self._stop_server(stopped)
        self.cloud.everywhere = True
        self.time.forward(hours=1)
        assert self.die_and_go_on(lease) > 5
        assert self.world.lease(lease.id).status == 'TERMINATED'
        assert self.states(server, stopped) == [('host2', 'ACTIVE'), ('host2', 'SHUTOFF')]
        assert self.consumers() == []


class TestGrace(EndsTest):
    def test_servers_stay_for_their_grace_and_no_more_come(self):
        lease, (server,) = self.run_lease(grace=600)
        lease = self.settled(lease, hours=1, looks=2)
        assert lease.status == 'TERMINATING'
        assert '1 server will be deleted at 2082-12-01 13:10' in lease.status_reason
        assert self.world.told().count('lease.update') == 1
        assert self.refused(lease)
        assert self.states(server) == [('host1', 'ACTIVE')]
        assert self.settled(lease, minutes=10).status == 'TERMINATED'
        self._wait_until_deleted(server)

    def test_longer_grace_than_the_operator_allows_is_refused(self):
        self.conf.set_override('max_grace_seconds', 60, group=self.TYPE)
        with pytest.raises(exceptions.BadRequest, match='60 seconds at most') as caught:
            self.lease_hosts(grace=61)
        assert caught.value.field == 'reservations[0].grace'

    def test_grace_that_is_given_later_has_to_be_free(self):
        lease, _ = self.run_lease(0)
        self.lease_hosts('2082-12-01 13:05', name='second')
        (reservation,) = lease.reservations
        more = {'id': reservation.id, 'grace': 301}
        with pytest.raises(exceptions.NotEnough):
            self.world.update(lease.id, reservations=[more])
        self.world.update(lease.id, reservations=[{**more, 'grace': 300}])


class TestLost(EndsTest):
    def test_deletion_whose_message_was_lost_is_repaired(self):
        lease, (server,) = self.run_lease()
        with mock.patch(TERMINATE):
            lease = self.settled(lease, hours=1, looks=2)
        assert self.show(server)['OS-EXT-STS:task_state'] == 'deleting'
        assert lease.status == 'TERMINATING'
        minutes = self.conf[self.TYPE].lost_delete_minutes
        assert self.settled(lease, minutes=minutes).status == 'TERMINATED'
        self._wait_until_deleted(server)


class TestAtOnce(EndsTest):
    def test_start_that_its_end_overtakes_leaves_nothing_open(self):
        lease = self.lease_hosts()

        def end(method, url):
            if method == 'PUT':
                self.cloud.before = lambda method, url: None
                self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
                assert self.settled(lease, seconds=1).status == 'TERMINATED'

        self.cloud.before = end
        assert self.settled(lease).status == 'TERMINATED'
        assert self.open_to(lease) == set()
        second = self.settled(self.lease_hosts(name='second'))
        assert (second.status, self.open_to(second)) == ('ACTIVE', {'host1'})


class TestLate(EndsTest):
    """The deletion of a server takes longer than the host was promised."""

    def run_late(self):
        """Let a lease end whose server is not deleted; return the lease as it is after that."""
        self.conf.set_override('cleaning_seconds', 600, group=self.TYPE)
        lease, _ = self.run_lease()
        second = self.lease_hosts('2082-12-01 13:10', '2082-12-01 15:00', name='second')
        with mock.patch(TERMINATE):
            self.settled(lease, minutes=60, looks=2)
            lease = self.settled(lease, minutes=15, looks=2)
        assert lease.status == 'TERMINATING'
        return lease, self.world.lease(second.id)

    def end_late(self, lease):
        """Let the server be deleted after all."""
        minutes = self.conf[self.TYPE].lost_delete_minutes
        assert self.settled(lease, minutes=minutes).status == 'TERMINATED'

    def test_next_lease_waits_until_the_host_is_empty_and_clean(self):
        lease, second = self.run_late()
        assert 'servers of an earlier lease are still' in second.status_reason
        self.end_late(lease)
        assert self.settled(second, minutes=9, looks=0).status == 'STARTING'
        assert self.settled(second, minutes=1).status == 'ACTIVE'
        assert self.inside(second)[1] == 'host1'

    def test_host_without_servers_is_the_next_lease_s_at_once(self):
        self.enrol('host2')
        lease = self.settled(self.lease_hosts(min=2))
        _, late = self.inside(lease)
        (empty,) = {'host1', 'host2'} - {late}
        second = self.lease_hosts(
            '2082-12-01 14:00', '2082-12-01 15:00', name='second', names=empty
        )
        with mock.patch(TERMINATE):
            self.settled(lease, hours=2, looks=2)
            assert self.settled(second, looks=2).status == 'ACTIVE'
            assert self.settled(lease, minutes=5, looks=2).status == 'TERMINATING'
        (promised,) = self.world.lease(second.id).reservations[0].allocations
        assert dates.serialize(promised.start) == '2082-12-01T14:00:00.000000'

    def test_host_is_free_for_nobody_until_it_is_empty_and_clean(self):
        lease, second = self.run_late()
        self.world.operations.delete_lease(self.world.owner(second.id), second.id)
        self.settled(second)
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts(end='2082-12-01 15:00', name='third')
        self.end_late(lease)
        with pytest.raises(exceptions.NotEnough) as caught:
            self.lease_hosts(end='2082-12-01 15:00', name='third')
        freed = self.world.lease(lease.id).reservations[0].freed_at
        clean = freed + datetime.timedelta(seconds=600)
        assert caught.value.available_from == dates.serialize(clean)


class TestUnconfirmed(HostLeasesTest):
    """host1 and host2 are in the pool; a migration, which is no server, has slots, too."""

    def test_server_whose_migration_nobody_confirmed_leaves_both_hosts(self):
        for end, wanted in (('13:00', {}), ('14:00', {'on_end': 'migrate'})):
            with self.subTest(**wanted):
                ends = f'2082-12-01 {end}'
                lease = self.settled(self.lease_hosts(end=ends, name=end, min=2, **wanted))
                server, before = self.inside(lease)
                self._migrate_server(server, api=self.admin_api)
                after = self.show(server)
                assert after['status'] == 'VERIFY_RESIZE'
                assert {before, after['OS-EXT-SRV-ATTR:host']} == {*self.POOL}
                conn = self.cloud.service()
                held = [placement.list_consumers(conn, self.provider(each)) for each in self.POOL]
                assert all(held)
                lease = self.settled(lease, hours=1)
                assert (lease.status, lease.status_reason) == ('TERMINATED', None)
                for host in self.POOL:
                    assert placement.list_consumers(conn, self.provider(host)) == []
                if wanted:
                    assert self.host_of(server) == 'host3'
                else:
                    self._wait_until_deleted(server)
