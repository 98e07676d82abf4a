# SPDX-License-Identifier: Apache-2.0
"""The host of a reserved server is gone when its time comes; more than one host, more cells."""

import contextlib

import fixtures
from nova import context as nova_context
from nova import exception, objects

from nova_ext import wake_marker
from nova_ext.compute import tracker
from tests.functional.nova.base import NovaTest
from tests.functional.nova.hosts import Crash

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

    def test_server_of_a_lost_host_starts_on_another_that_keeps_it(self):
        spawned = self.spy_on(self.other)
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')
        assert self.guests(self.other) == [self.server['id']]
        assert spawned.last['password'] == self.server['adminPass']
        # The lost host that comes back holds nothing.
        self.lose(self.lost, False)
        self.restart(self.lost)
        self._run_periodics()
        self.assert_on_the_other('ACTIVE')
        assert self.guests(self.lost) == []
        assert self.used(self.lost) == 0

    def test_lost_host_that_comes_back_lets_the_other_one_start_the_server(self):
        """What a dead host has allocated stays until the start on the other one is over."""
        there = self.computes[self.other].manager
        real, seen = there.driver.spawn, []

        def spawn(*args, **kwargs):
            self.lose(self.lost, False)
            self.restart(self.lost)
            seen.append(self.show(self.server)['status'])
            return real(*args, **kwargs)

        there.driver.spawn = spawn
        with fixtures.MonkeyPatch(f'{__name__}.TRACKER._release_others', lambda *_: None):
            self.wake_up(self.server)
        assert seen == ['BUILD']
        self.assert_status(self.server, 'ACTIVE')

    def test_other_host_that_stops_before_its_claim_starts_the_server_later(self):
        """Nova has the server on the lost host until the claim."""
        with (
            fixtures.MonkeyPatch(f'{__name__}.TRACKER.instance_claim', _raising(Crash())),
            contextlib.suppress(Crash, UnboundLocalError),
        ):
            self.wake_up(self.server)
        self.assert_status(self.server, 'BUILD')
        # The lost host leaves it to the other one.
        self.restart(self.lost)
        self.assert_status(self.server, 'BUILD')
        # Its nova-compute starts, whatever is wrong with the server.
        gone = exception.InstanceNotFound(instance_id=self.server['id'])
        with fixtures.MonkeyPatch('nova_ext.compute.recovery._undo_start', _raising(gone)):
            self.restart(self.other)
        self.assert_status(self.server, 'BUILD')
        self.restart(self.other)
        found = self.assert_status(self.server, 'RESERVED')
        assert found['OS-EXT-SRV-ATTR:host'] == self.lost
        assert self.allocations(self.server).items() >= self.held.items()
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')
        assert self.guests(self.other) == [self.server['id']]

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

    def test_failed_claim_leaves_the_server_where_it_was_and_a_failed_start_moves_it(self):
        there = self.computes[self.other].manager.rt
        refused = exception.ComputeResourcesUnavailable(reason='somebody was faster')
        for step, error in (
            ('_set_instance_host_and_node', refused),
            ('_claim_resources', RuntimeError('no database')),
            ('_update', RuntimeError('no placement')),
        ):
            with self.subTest(step=step):
                with fixtures.MonkeyPatch(f'{__name__}.TRACKER.{step}', _raising(error)):
                    self.wake_up(self.server)
                found = self.assert_status(self.server, 'RESERVED')
                assert found['OS-EXT-SRV-ATTR:host'] == self.lost
                assert str(error) in found['fault']['message']
                assert self.allocations(self.server) == self.held
                assert len(self.ports(self.server)) == 1
                there.update_available_resource(self.ctxt, self.other)
                assert self.used(self.other) == 0
        spawned = self.spy_on(self.other)
        spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        self.assert_on_the_other('RESERVED')
        spawned.fail_with = None
        self.wake_up(self.server)
        self.assert_on_the_other('ACTIVE')


class TestGroups(NovaTest):
    COMPUTES = ('host1', 'host2')

    def reserve_group(self, policy, count):
        group = self.api.post_server_groups({'name': policy, 'policy': policy})
        hints = {'reserved': 'True', 'group': group['id']}
        return [self.boot(hints) for _ in range(count)]

    def test_policy_of_a_group_of_reserved_servers_holds(self):
        servers = self.reserve_group('anti-affinity', 3)
        found = [self.show(each) for each in servers]
        assert [each['status'] for each in found] == ['RESERVED', 'RESERVED', 'ERROR']
        assert {each['OS-EXT-SRV-ATTR:host'] for each in found[:2]} == {'host1', 'host2'}
        for server in servers[:2]:
            self.wake_up(server)
            self.assert_status(server, 'ACTIVE')
        servers = self.reserve_group('affinity', 2)
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

    def test_servers_start_in_their_cell_or_stay_reserved(self):
        servers = [self.reserve_on('host1'), self.reserve_on('host2')]
        assert len(self.admin_api.get_servers(search_opts={'status': 'RESERVED'})) == 2
        for server, host in zip(servers, ('host1', 'host2'), strict=True):
            self.wake_up(server)
            found = self.assert_status(server, 'ACTIVE')
            assert found['OS-EXT-SRV-ATTR:host'] == host
        alone, other = self.reserve_on('host1'), self.reserve_on('host2')
        for host in ('host1', 'host2'):
            self.lose(host)
        self.wake_up(other)
        assert self.assert_status(other, 'ACTIVE')['OS-EXT-SRV-ATTR:host'] == 'host3'
        answer = self.wake_up(alone, status=409)
        assert 'No valid host' in answer.body['conflictingRequest']['message']
        self.assert_status(alone, 'RESERVED')
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            nova_context.get_admin_context(), alone['id']
        )
        assert mapping.cell_mapping.name == 'cell1'


def _raising(error):
    def fail(*args, **kwargs):
        raise error

    return fail
