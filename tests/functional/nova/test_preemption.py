# SPDX-License-Identifier: Apache-2.0
"""What becomes of the servers of a preemptible lease whose hosts another lease needs."""

from climate_hosts import placement
from tests.functional.nova.host_leases import HostLeasesTest
from tests.support.created import get_id
from tests.support.world import user

SHELVED = (None, 'SHELVED_OFFLOADED')


class TestPreemption(HostLeasesTest):
    """host1 is in the pool; host2 is for everybody."""

    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)
    NOTICE = 120

    def run_preemptible(self, servers=1, **wanted):
        """Start a preemptible lease until 14:00; return it and the servers in it."""
        body = {'name': 'preemptible', 'start_date': 'now', 'end_date': '2082-12-01 14:00'}
        body['reservations'] = [{'resource_type': self.TYPE, **wanted}]
        context = user(self.api.project_id)
        lease_id = get_id(
            self.world.operations.creator.create_lease(context, {**body, 'preemptible': True})
        )
        lease = self.settled(self.world.lease(lease_id))
        made = [self.inside(lease)[0] for _ in range(servers)]
        return lease, made

    def preempt(self):
        """Lease the host for others, for an hour from when the notice is over."""
        other = self.lease_hosts(end='2082-12-01 13:00', name='other', project='other')
        self.settled(other, seconds=self.NOTICE)
        return other

    def until(self, lease, status):
        """Do what is due until a lease has a status; return it."""
        for _ in range(30):
            self.world.operations.queue.grant_waiting()
            self.world.run_until_idle(seconds=2)
            found = self.world.lease(lease.id)
            if found.status == status:
                return found
        raise AssertionError(found)

    def states(self, servers):
        """Return the host and the status of each."""
        shown = [self.show(each) for each in servers]
        return [(each['OS-EXT-SRV-ATTR:host'], each['status']) for each in shown]

    def test_servers_are_shelved_and_run_again_when_their_host_is_free(self):
        lease, servers = self.run_preemptible(2)
        self._stop_server(servers[1])
        other = self.preempt()
        self.until(lease, 'WAITING')
        assert self.states(servers) == [SHELVED] * 2
        assert self.open_to(lease) == set()
        assert placement.list_consumers(self.cloud.service(), self.provider()) == []
        self.until(other, 'ACTIVE')
        self.world.operations.end_lease(user('other'), other.id)
        self.until(other, 'TERMINATED')
        after = self.until(lease, 'ACTIVE')
        assert self.states(servers) == [('host1', 'ACTIVE')] * 2
        assert (after.status_reason, after.reservations[0].progress) == (None, None)
        assert self.inside(lease)[1] == 'host1'

    def test_what_was_deleted_or_runs_meanwhile_is_left_alone(self):
        lease, servers = self.run_preemptible(2)
        other = self.preempt()
        self.until(lease, 'WAITING')
        self._delete_server(servers[0])
        self.until(other, 'ACTIVE')
        self.world.operations.end_lease(user('other'), other.id)
        self.until(lease, 'ACTIVE')
        assert self.states(servers[1:]) == [('host1', 'ACTIVE')]

    def test_shelved_servers_are_deleted_at_the_end_of_the_lease(self):
        lease, (server,) = self.run_preemptible()
        self.preempt()
        lease = self.until(lease, 'WAITING')
        self.world.operations.end_lease(user(self.api.project_id), lease.id)
        self.until(lease, 'TERMINATED')
        self._wait_until_deleted(server)

    def test_shelved_servers_stay_if_the_lease_moves_them_away_at_its_end(self):
        lease, (server,) = self.run_preemptible(on_end='migrate')
        self.preempt()
        lease = self.until(lease, 'WAITING')
        self.world.operations.end_lease(user(self.api.project_id), lease.id)
        self.until(lease, 'TERMINATED')
        assert self.states([server]) == [SHELVED]

    def test_server_that_finds_no_place_stays_shelved(self):
        lease, (server,) = self.run_preemptible()
        other = self.preempt()
        self.until(lease, 'WAITING')
        self.until(other, 'ACTIVE')
        self.lose('host1')
        self.world.operations.end_lease(user('other'), other.id)
        self.until(lease, 'ACTIVE')
        assert self.states([server]) == [SHELVED]

    def test_managers_that_die_shelve_and_wake_each_server_once(self):
        lease, servers = self.run_preemptible(2)
        other = self.lease_hosts(end='2082-12-01 13:00', name='other', project='other')
        self.cloud.everywhere = True
        self.time.forward(seconds=self.NOTICE)

        assert self.die_and_go_on(lease, settle=lambda one: self.until(one, 'WAITING')) > 5
        assert self.states(servers) == [SHELVED] * 2
        self.until(other, 'ACTIVE')
        self.world.operations.end_lease(user('other'), other.id)
        self.until(other, 'TERMINATED')
        assert self.die_and_go_on(lease, settle=lambda one: self.until(one, 'ACTIVE')) > 5
        assert self.states(servers) == [('host1', 'ACTIVE')] * 2
