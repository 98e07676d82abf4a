# SPDX-License-Identifier: Apache-2.0
"""The host of a reserved server is gone when its time comes; more than one host, more cells."""

import fixtures
from nova import context as nova_context
from nova import exception, objects

from nova_ext import wake_marker
from nova_ext.compute import tracker
from tests.functional.nova.base import NovaTest

TRACKER = tracker.ResourceTracker


class TestHostGone(NovaTest):
    COMPUTES = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=self.network())
        found = self.show(self.server)
        self.lost, self.address = found['OS-EXT-SRV-ATTR:host'], found['addresses']
        (self.other,) = {'host1', 'host2'} - {self.lost}
        self.held = self.allocations(self.server)
        self.lose(self.lost)

    def assert_on_the_other(self, status):
        found = self.assert_status(self.server, status)
        assert found['OS-EXT-SRV-ATTR:host'] == self.other
        assert found['addresses'] == self.address
        (port,) = self.ports(self.server)
        assert port['binding:host_id'] == self.other
        (provider,) = self.allocations(self.server)
        assert provider == self._get_provider_uuid_by_host(self.other)
        assert self.used(self.other) == 1

    def test_server_of_a_lost_host_starts_on_another(self):
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')
        assert self.guests(self.other) == [self.server['id']]

    def test_password_reaches_the_other_host(self):
        spawned = self.spy_on(self.other)
        self.wake_up(self.server)
        assert spawned.last['password'] == self.server['adminPass']

    def test_lost_host_that_comes_back_holds_nothing(self):
        self.wake_up(self.server)
        self.lose(self.lost, False)
        self.restart(self.lost)
        self._run_periodics()
        self.assert_on_the_other('ACTIVE')
        assert self.guests(self.lost) == []
        assert self.used(self.lost) == 0

    def test_without_another_host_the_server_stays_reserved(self):
        self.lose(self.other)
        for _ in range(2):
            answer = self.wake_up(self.server, status=409)
            assert 'No valid host' in answer.body['conflictingRequest']['message']
            found = self.assert_status(self.server, 'RESERVED')
            assert found['OS-EXT-SRV-ATTR:host'] == self.lost
            assert self.allocations(self.server) == self.held
            assert wake_marker.get(self.instance(self.server)) is None
        self.lose(self.lost, False)
        self.wake_up(self.server)
        assert self.assert_status(self.server, 'ACTIVE')['OS-EXT-SRV-ATTR:host'] == self.lost

    def test_delete_while_the_host_is_lost_leaves_nothing(self):
        self.delete(self.server)
        assert self.allocations(self.server) == {}
        assert self.ports(self.server) == []

    def test_failed_start_on_the_other_host_is_reserved_there(self):
        spawned = self.spy_on(self.other)
        spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        self.assert_on_the_other('RESERVED')
        spawned.fail_with = None
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')

    def check_claim_that_fails(self, step, error):
        """Let a step of the claim on the other host fail, then let it succeed."""
        there = self.computes[self.other].manager.rt

        def fail(*args, **kwargs):
            raise error

        with fixtures.MonkeyPatch(f'{__name__}.TRACKER.{step}', fail):
            self.wake_up(self.server)
        found = self.assert_status(self.server, 'RESERVED')
        assert found['OS-EXT-SRV-ATTR:host'] == self.lost
        assert str(error) in found['fault']['message']
        assert self.allocations(self.server) == self.held
        assert len(self.ports(self.server)) == 1
        there.update_available_resource(self.ctxt, self.other)
        assert self.used(self.other) == 0
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')

    def test_claim_refused_by_the_other_host_leaves_the_server_where_it_was(self):
        error = exception.ComputeResourcesUnavailable(reason='somebody was faster')
        self.check_claim_that_fails('_set_instance_host_and_node', error)

    def test_claim_broken_by_an_error_leaves_the_server_where_it_was(self):
        self.check_claim_that_fails('_claim_resources', RuntimeError('no database'))

    def test_claim_broken_at_its_end_leaves_the_server_where_it_was(self):
        self.check_claim_that_fails('_update', RuntimeError('no placement'))


class TestGroups(NovaTest):
    COMPUTES = ('host1', 'host2')

    def test_anti_affinity_of_reserved_servers_holds(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'anti-affinity'})
        hints = {'reserved': 'True', 'group': group['id']}
        servers = [self.boot(hints) for _ in range(3)]
        found = [self.show(each) for each in servers]
        assert [each['status'] for each in found] == ['RESERVED', 'RESERVED', 'ERROR']
        assert {each['OS-EXT-SRV-ATTR:host'] for each in found[:2]} == {'host1', 'host2'}
        for server in servers[:2]:
            self.wake_up(server)
            self.assert_status(server, 'ACTIVE')

    def test_affinity_of_reserved_servers_holds(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'affinity'})
        hints = {'reserved': 'True', 'group': group['id']}
        servers = [self.boot(hints) for _ in range(2)]
        for server in servers:
            self.wake_up(server)
        assert len({self.show(each)['OS-EXT-SRV-ATTR:host'] for each in servers}) == 1


class TestReschedule(NovaTest):
    COMPUTES = ('host1', 'host2')
    # The second build waits for the lock of the first.
    IN_ONE_THREAD = False

    def test_full_host_passes_the_reservation_to_the_next(self):
        refused = self.refuse_first_claim()
        server = self.reserve()
        self._wait_for_state_change(server, 'RESERVED')
        found = self.show(server)
        assert [found['OS-EXT-SRV-ATTR:host']] != refused
        assert len(self.lease_service.lease['reservations']) == 1
        self.wake_up(server)
        self._wait_for_state_change(server, 'ACTIVE')


class TestCells(NovaTest):
    NUMBER_OF_CELLS = 2
    CELLS = {'host1': 'cell1', 'host2': 'cell2', 'host3': 'cell2'}
    COMPUTES = tuple(CELLS)

    def _setup_compute_service(self):
        for host, cell in self.CELLS.items():
            self._start_compute(host, cell_name=cell)
        return self.computes['host1']

    def reserve_on(self, host):
        body = {'networks': self.network(), 'host': host}
        return self.boot({'reserved': 'True'}, api=self.admin_api, **body)

    def test_servers_of_each_cell_start_on_their_hosts(self):
        servers = [self.reserve_on('host1'), self.reserve_on('host2')]
        assert len(self.admin_api.get_servers(search_opts={'status': 'RESERVED'})) == 2
        for server, host in zip(servers, ('host1', 'host2'), strict=True):
            self.wake_up(server)
            found = self.assert_status(server, 'ACTIVE')
            assert found['OS-EXT-SRV-ATTR:host'] == host

    def test_server_of_a_lost_host_stays_in_its_cell(self):
        server = self.reserve_on('host2')
        self.lose('host2')
        self.wake_up(server)
        assert self.assert_status(server, 'ACTIVE')['OS-EXT-SRV-ATTR:host'] == 'host3'

    def test_server_without_a_host_in_its_cell_stays_reserved(self):
        server = self.reserve_on('host1')
        self.lose('host1')
        answer = self.wake_up(server, status=409)
        assert 'No valid host' in answer.body['conflictingRequest']['message']
        self.assert_status(server, 'RESERVED')
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        assert mapping.cell_mapping.name == 'cell1'
