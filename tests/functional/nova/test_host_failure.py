# SPDX-License-Identifier: Apache-2.0
"""Hosts of leases that die, come back, or are disabled, against a whole nova and its placement."""

from unittest import mock

import pytest

from climate_core import exceptions
from climate_core.repair.listener import ComputeEndpoint
from climate_hosts import lane_providers
from climate_hosts.db import hosts as db
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.watch.failures import HostWatch
from climate_hosts.watch.refresh import HostRefresher
from tests.functional.nova.host_leases import HostLeasesTest


class HostFailureTest(HostLeasesTest):
    """host1 and host2 are in the pool; host3 can be."""

    def setUp(self):
        super().setUp()
        world = self.world
        self.watch = HostWatch(
            self.conf, world.database, self.cloud, world.plugins, world.calendar
        )

    def fail(self, host, failed=True):
        """Let nova take a host for dead, or for alive again, and have that noticed."""
        self.lose(host, failed)
        self.watch.watch()

    def row(self, host):
        """Return what is known of a host of the pool."""
        return self.world.database.read(db.find, host)

    def read(self, lease):
        """Return the lease, and its one reservation."""
        lease = self.world.lease(lease.id)
        return lease, lease.reservations[0]

    def run_on_one(self):
        """Have a lease run on one host; return it, its host and the other one of the pool."""
        lease = self.settled(self.lease_hosts(min=1))
        (host,) = self.hosts_of(lease)
        return lease, host, *({'host1', 'host2'} - {host})


class TestNotifications(HostFailureTest):
    def test_nova_tells_at_once_what_happens_to_a_nova_compute(self):
        watch = mock.Mock(spec=HostWatch)
        endpoint = ComputeEndpoint([watch])
        (service,) = self.admin_api.get_services(binary='nova-compute', host='host1')
        for change in ({'forced_down': True}, {'forced_down': False}, {'status': 'disabled'}):
            self.notifier.reset()
            self.admin_api.put_service(service['id'], change)
            (told,) = self.notifier.wait_for_versioned_notifications('service.update')
            self.tell(endpoint, told)
        assert watch.nudge.call_count == 3

    def tell(self, endpoint, told):
        """Hand a notification over as oslo.messaging does."""
        message = {}, told['publisher_id'], told['event_type'], told['payload'], {}
        assert endpoint.filter_rule.match(*message)
        endpoint.info(*message)


class TestBeforeTheStart(HostFailureTest):
    def test_host_is_replaced_and_promised_to_nobody_until_it_is_there_again(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=1)
        (host,) = self.hosts_of(lease)
        self.cloud.requests.clear()
        self.fail(host)
        # Placement hears of it when the lease is prepared.
        assert not self.cloud.requests
        lease, reservation = self.read(lease)
        assert (lease.status, lease.degraded, lease.status_reason) == ('PENDING', False, None)
        assert (reservation.resources_changed, reservation.missing_resources) == (True, False)
        (other,) = self.hosts_of(lease)
        assert reservation.status_reason == f'Host {host} was replaced by {other}.'
        assert self.world.told().count('lease.update') == 1
        assert 'forced down' in self.row(host).disabled_reason
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts(min=1, names=host, name='second')
        self.fail(host, False)
        assert (self.row(host).available, self.row(host).disabled_reason) == (True, None)
        self.lease_hosts(min=1, names=host, name='second')
        assert self.settled(lease, hours=1).status == 'ACTIVE'
        assert self.open_to(lease) == {other}

    def test_lease_says_what_is_missing_until_there_is_a_replacement(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=2)
        for _ in range(2):
            self.fail('host1')
        lease, reservation = self.read(lease)
        assert (lease.status, lease.degraded, reservation.missing_resources) == (
            'PENDING',
            True,
            True,
        )
        assert 'Host host1 failed, and no other is free.' in lease.status_reason
        assert self.world.told().count('lease.update') == 1
        self.enrol('host3')
        self.watch.watch()
        lease, reservation = self.read(lease)
        assert self.hosts_of(lease) == {'host2', 'host3'}
        assert (lease.degraded, reservation.missing_resources, lease.status_reason) == (
            False,
            False,
            None,
        )
        assert self.settled(lease, hours=1).status == 'ACTIVE'

    def test_lease_that_begins_without_a_replacement_has_the_rest(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=2)
        self.fail('host1')
        lease = self.settled(lease, hours=1)
        assert (lease.status, lease.degraded) == ('ACTIVE', True)
        assert 'Host host1 failed' in lease.status_reason
        assert self.inside(lease)[1] == 'host2'
        self.fail('host1', False)
        lease, reservation = self.read(lease)
        assert (lease.degraded, reservation.missing_resources, lease.status_reason) == (
            False,
            False,
            None,
        )
        assert self.open_to(lease) == {'host1', 'host2'}

    def test_host_that_its_operator_disables_is_replaced_and_stays_disabled(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=1)
        (host,) = self.hosts_of(lease)
        self.operations.update_host(self.context, self.row(host).id, {'available': False})
        self.watch.watch()
        assert self.hosts_of(self.read(lease)[0]) == {'host1', 'host2'} - {host}
        self.fail(host)
        self.fail(host, False)
        assert (self.row(host).available, self.row(host).disabled_reason) == (False, None)


class TestDuringTheLease(HostFailureTest):
    def test_nobody_enters_until_the_host_that_the_lease_names_is_open(self):
        lease, host, other = self.run_on_one()
        open_lane, seen = lane_providers.open_lane, []

        def open_slowly(*args):
            now = self.world.lease(lease.id)
            seen.append((now.status, self.hosts_of(now), self.refused(now)))
            return open_lane(*args)

        self.fail(host)
        with mock.patch.object(lane_providers, 'open_lane', open_slowly):
            lease = self.settled(lease)
        assert seen == [('ACTIVE', {other}, True)]
        assert self.inside(lease)[1] == other

    def test_host_is_replaced_at_once_and_nobody_enters_when_it_is_back(self):
        lease, host, other = self.run_on_one()
        server, _ = self.inside(lease)
        self.fail(host)
        assert self.open_to(lease) == {host}
        lease = self.settled(lease)
        assert (lease.status, lease.degraded, lease.status_reason) == ('ACTIVE', False, None)
        assert self.open_to(lease) == {other}
        assert self.inside(lease)[1] == other
        self.fail(host, False)
        assert 'still has 1 servers' in self.row(host).disabled_reason
        assert self.open_to(lease) == {other}
        self.delete(server)
        self.watch.watch()
        assert self.row(host).available
        second = self.lease_hosts(end='2082-12-01 15:00', min=1, names=host, name='second')
        second = self.settled(second)
        assert (second.status, self.open_to(second)) == ('ACTIVE', {host})
        # The end of the first one does not touch the host that is another's by now.
        assert self.settled(lease, hours=2).status == 'TERMINATED'
        assert self.open_to(second) == {host}

    def test_host_that_its_operator_enables_is_used_when_it_is_up_and_empty(self):
        lease, host, _ = self.run_on_one()
        server, _ = self.inside(lease)

        def enable(available=True):
            self.operations.update_host(self.context, self.row(host).id, {'available': available})
            return self.row(host)

        self.fail(host)
        self.settled(lease)
        assert not enable().available
        assert 'forced down' in self.row(host).reason
        enable(False)
        self.fail(host, False)
        assert not self.row(host).failed
        assert (enable().available, enable().failed) == (False, True)
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts(min=1, names=host, name='second')
        self.watch.watch()
        assert 'still has 1 servers' in self.row(host).reason
        self.delete(server)
        self.watch.watch()
        assert (self.row(host).available, self.row(host).reason) == (True, None)
        enable(False)
        self.settled(lease, hours=2)
        assert enable().available

    def test_end_deletes_what_is_left_on_a_host_that_was_given_up(self):
        lease, host, other = self.run_on_one()
        server, _ = self.inside(lease)
        self.fail(host)
        assert self.open_to(self.settled(lease)) == {other}
        self.lose(host, False)
        assert self.settled(lease, hours=2).status == 'TERMINATED'
        self._wait_until_deleted(server)
        self.watch.watch()
        assert self.row(host).available

    def test_without_a_replacement_it_is_degraded_and_gets_its_host_back(self):
        lease = self.settled(self.lease_hosts(min=2))
        self.fail('host1')
        lease, reservation = self.read(lease)
        assert (lease.status, lease.degraded, reservation.missing_resources) == (
            'ACTIVE',
            True,
            True,
        )
        self.fail('host1', False)
        assert not self.read(lease)[0].degraded
        assert self.row('host1').available
        assert self.open_to(lease) == {'host1', 'host2'}

    def test_host_that_nova_has_no_more_is_replaced_and_can_leave_its_pool(self):
        lease, host, other = self.run_on_one()
        self.computes[host].stop()
        (service,) = self.admin_api.get_services(binary='nova-compute', host=host)
        self.admin_api.api_delete(f'/os-services/{service["id"]}')
        self.watch.watch()
        lease = self.settled(lease)
        assert (self.hosts_of(lease), lease.status_reason) == ({other}, None)
        assert self.inside(lease)[1] == other
        self.operations.delete_host(self.context, self.row(host).id)
        assert self.settled(lease, hours=2).status == 'TERMINATED'

    def test_servers_are_evacuated_if_the_operator_wants_it(self):
        self.conf.set_override('evacuate', True, group='hosts')
        lease, host, other = self.run_on_one()
        server, _ = self.inside(lease)
        self.computes[host].stop()
        self.fail(host)
        for _ in range(3):
            self.settled(lease, seconds=10)
        assert self.host_of(server) == other
        assert self.world.lease(lease.id).status_reason is None

    def test_server_that_nova_does_not_evacuate_keeps_no_other_one(self):
        self.conf.set_override('evacuate', True, group='hosts')
        lease, host, other = self.run_on_one()
        made = [self.inside(lease)[0] for _ in range(3)]
        # They are evacuated in the order of their ids.
        paused, *others = sorted(made, key=lambda each: each['id'])
        self.api.post_server_action(paused['id'], {'pause': None})
        self._wait_for_state_change(paused, 'PAUSED')
        self.computes[host].stop()
        self.fail(host)
        lease = self.settled(lease, seconds=10)
        assert f'Server {paused["id"]} cannot be' in lease.status_reason
        for _ in range(3):
            self.settled(lease, seconds=10)
        assert {self.host_of(each) for each in others} == {other}
        assert self.admin_api.get_server(paused['id'])['OS-EXT-SRV-ATTR:host'] == host

    def test_host_that_its_operator_disables_is_kept_by_the_lease_that_runs(self):
        lease, host, _ = self.run_on_one()
        self.operations.update_host(self.context, self.row(host).id, {'available': False})
        self.watch.watch()
        assert self.hosts_of(self.read(lease)[0]) == {host}

    def test_look_costs_the_same_when_nothing_is_wrong(self):
        self.run_on_one()
        requests = len(self.cloud.requests)
        assert len(self.world.statements(self.watch.watch)) == 2
        assert len(self.cloud.requests) == requests


class TestCapacity(HostFailureTest):
    """Shares of hosts, packed on one host."""

    TYPE = CapacityPlugin.resource_type
    LANES_PER_HOST = 3

    def setUp(self):
        super().setUp()
        self.conf.set_override('order', 'pack', group=self.TYPE)

    def share(self, amount, name, start='now'):
        """Lease room for servers of the usual flavor."""
        return self.lease_hosts(start, flavor_id=self.flavor['id'], amount=amount, name=name)

    def resize(self, vcpus, *names):
        """Have hosts promise so many vCPUs by now, and have that noticed."""
        for host in names:
            path = f'/resource_providers/{self.provider(host)}/inventories/VCPU'
            found = self.placement.get(path, version='1.39').body
            self.set_ratio('VCPU', vcpus / found['total'], host)
        HostRefresher(self.conf, self.world.database, self.cloud).refresh()
        self.watch.watch()

    def test_host_that_became_too_small_keeps_what_runs_and_says_what_is_short(self):
        running = self.settled(self.share(2, 'running'))
        later = self.share(2, 'later', '2082-12-01 13:00')
        ((host,),) = {tuple(self.hosts_of(each)) for each in (running, later)}
        (other,) = {'host1', 'host2'} - {host}
        self.watch.watch()
        self.resize(2, host)
        later, reservation = self.read(later)
        assert (self.hosts_of(later), later.degraded) == ({other}, False)
        assert reservation.status_reason == f'Host {host} was replaced by {other}.'
        assert not self.read(running)[0].degraded
        self.resize(1, host, other)
        for lease, name in ((running, host), (later, other)):
            lease, reservation = self.read(lease)
            assert (lease.degraded, reservation.missing_resources) == (True, True)
            assert f'Host {name} is too small' in lease.status_reason
            assert 'it has vcpus=1, and vcpus=2 are allocated.' in lease.status_reason
            assert self.hosts_of(lease) == {name}
        self.resize(2, host, other)
        for lease in (running, later):
            lease, reservation = self.read(lease)
            assert (lease.degraded, reservation.missing_resources) == (False, False)
            assert lease.status_reason is None
        assert self.inside(running)[1] == host

    def test_all_shares_of_a_host_move_and_are_as_big_as_before(self):
        running = self.settled(self.share(2, 'running'))
        second = self.settled(self.share(1, 'second'))
        later = self.share(1, 'later', '2082-12-01 13:00')
        ((host,),) = {tuple(self.hosts_of(each)) for each in (running, second, later)}
        (other,) = {'host1', 'host2'} - {host}
        stays, _ = self.inside(running)
        self.fail(host)
        for each in (running, second, later):
            lease = self.settled(each)
            assert (self.hosts_of(lease), lease.degraded) == ({other}, False)
        # What is on the old host takes no slot of the new lane.
        inside = [self.inside(running)[1] for _ in range(3)]
        assert inside == [other, other, None]
        assert [self.inside(second)[1] for _ in range(2)] == [other, None]
        self.fail(host, False)
        assert 'still has 1 servers' in self.row(host).disabled_reason
        self.delete(stays)
        self.watch.watch()
        assert self.row(host).available
        assert self.settled(later, hours=1).status == 'ACTIVE'
        assert self.inside(later)[1] == other


class TestManagerDies(HostFailureTest):
    def test_replacement_and_return_are_finished_by_the_next_manager(self):
        lease, host, other = self.run_on_one()
        self.lose(host)
        assert self.die_and_go_on(lease, self.watch.watch) > 2
        assert self.open_to(lease) == {other}
        self.lose(host, False)
        assert self.die_and_go_on(lease, self.watch.watch) > 2
        assert self.row(host).available
        conn = self.cloud.service()
        assert not any(
            lane_providers.read_access(conn, x).aggregates for x in self.row(host).lane_ids
        )
