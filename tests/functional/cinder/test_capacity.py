# SPDX-License-Identifier: Apache-2.0
"""What reserved volumes hold. The array reports the same free capacity for ever."""

import copy

from cinder import objects
from cinder.scheduler import manager as scheduler_manager

from cinder_ext import capacity
from climate_core.cloud import volumes
from tests.functional.cinder.base import HOST, CinderTest
from tests.functional.cinder.rpc import Killed

SMALL = {'total_capacity_gb': 10, 'free_capacity_gb': 10}


class CapacityTest(CinderTest):
    POOLS = {'pool': SMALL}

    def setUp(self):
        super().setUp()
        for host in self.HOSTS:
            self.array.pools[host] = self.POOLS
        self.report()

    def free(self, pool='pool', host=HOST):
        """Return what the scheduler knows after the next report."""
        self.report()
        return self.pool(pool, host).free_capacity_gb


class TestOnePool(CapacityTest):
    def test_capacity_is_held_until_the_delete(self):
        volume = self.reserve(size=2)
        assert self.free() == 8
        assert self.pool().provisioned_capacity_gb == 2
        self.write(volume, status='error')
        assert volumes.has_backend(self.assert_status(volume, 'error'))
        assert self.free() == 8
        self.write(volume, status='lease-reserved')
        self.assert_status(self.volume_create(size=9), 'error')
        unplaced = self.assert_status(self.reserve(size=9), 'error')
        assert not volumes.has_backend(unplaced)
        assert self.array.calls == []
        self.delete(volume)
        assert self.free() == 10
        self.assert_status(self.reserve(size=9), 'lease-reserved')

    def test_capacity_is_held_once_between_two_reports(self):
        """The scheduler counts what it has sent by itself, and once."""
        self.reserve(size=6)
        assert self.pool().free_capacity_gb == 4
        self.assert_status(self.volume_create(size=5), 'error')
        # The driver keeps what it reports, and is not given it back with our change in it.
        assert [self.free() for _ in range(3)] == [4, 4, 4]
        kept = self.volumes[HOST].manager.driver._stats['pools'][0]
        assert kept['free_capacity_gb'] == 10
        assert capacity.CAPABILITY not in kept

    def test_new_scheduler_learns_what_is_held(self):
        self.reserve(size=6)
        fresh = scheduler_manager.SchedulerManager()
        states = fresh.driver.host_manager.service_states
        assert states == {}
        self.scheduler.manager = fresh
        for server in self.bus.servers:
            if server.target.topic == 'cinder-scheduler':
                server._dispatcher.endpoints[:] = [fresh]
        fresh._startup_delay = False
        assert self.free() == 4

    def test_volume_is_held_while_it_is_created_and_then_counted_by_the_backend(self):
        volume = self.reserve(size=2)
        seen = []
        make = self.array.make

        def look(*args):
            seen.append(self.free())
            make(*args)

        self.array.make = look
        self.wake_up(volume)
        assert seen == [8]
        assert self.free() == 10
        self.array.pools[HOST] = {'pool': {**SMALL, 'free_capacity_gb': 8}}
        assert self.free() == 8

    def test_sum_of_reserved_volumes_is_held_and_costs_one_statement(self):
        for _ in range(3):
            self.reserve(size=2)
        assert self.free() == 4
        # The scheduler finds no place for it, so it holds nothing.
        self.assert_status(self.reserve(size=50), 'error')
        assert self.free() == 4
        self.assert_status(self.reserve(size=4), 'lease-reserved')
        self.assert_status(self.reserve(size=1), 'error')
        with self.statements() as seen:
            capacity.reserved(self.ctxt, HOST)
        assert len([text for text in seen if 'FROM volumes' in text]) == 1
        # It is never negative.
        self.array.pools[HOST] = {'pool': {**SMALL, 'free_capacity_gb': 3}}
        assert self.free() == 0

    def test_extend_beyond_the_free_capacity_is_refused(self):
        volume = self.volume_create(size=1)
        self.reserve(size=8)
        assert self.free() == 2
        self.action(volume, 'os-extend', new_size=9)
        assert self.show(volume)['size'] == 1


class TestTwoPools(CapacityTest):
    POOLS = {'fast': SMALL, 'slow': {'total_capacity_gb': 20, 'free_capacity_gb': 20}}

    def test_each_pool_holds_its_own_volumes(self):
        first = self.reserve(size=15)
        assert first['os-vol-host-attr:host'] == f'{HOST}#slow'
        assert (self.free('fast'), self.free('slow')) == (10, 5)
        second = self.reserve(size=7)
        assert second['os-vol-host-attr:host'] == f'{HOST}#fast'
        assert (self.free('fast'), self.free('slow')) == (3, 5)
        assert (self.allocated('fast'), self.allocated('slow')) == (7, 15)
        self.delete(first)
        assert (self.free('fast'), self.free('slow')) == (3, 20)
        for pool in self.POOLS:
            assert self.pool(pool).capabilities[capacity.CAPABILITY] is True


class TestUnknown(CapacityTest):
    def test_amount_that_is_no_number_stays(self):
        for amount in ('infinite', 'unknown'):
            with self.subTest(amount=amount):
                pool = {'total_capacity_gb': amount, 'free_capacity_gb': amount}
                self.array.pools[HOST] = {amount: pool}
                self.report()
                self.assert_status(self.reserve(size=500), 'lease-reserved')
                assert self.free(amount) == amount
                assert self.pool(amount).provisioned_capacity_gb == 500


class TestTwoBackends(CapacityTest):
    HOSTS = (HOST, 'host10@fake', 'host1@fake2')

    def test_backends_whose_names_begin_alike_are_told_apart(self):
        volume = self.reserve(size=4)
        host = volume['os-vol-host-attr:host'].partition('#')[0]
        free = {name: self.free(host=name) for name in self.HOSTS}
        assert free == {name: 6 if name == host else 10 for name in self.HOSTS}


class TestCluster(CapacityTest):
    """Active-active: two services of one backend. Each report stands for the whole."""

    HOSTS = ('host1@fake', 'host2@fake')
    CLUSTER = 'cluster1@fake'

    def test_cluster_holds_a_volume_once_and_its_other_service_wakes_it(self):
        volume = self.reserve(size=4)
        for host in self.HOSTS:
            self.report(host)
            assert self.pool().free_capacity_gb == 6
        assert self.array.calls == []
        first = self.row(volume).host.partition('#')[0]
        (other,) = set(self.HOSTS) - {first}
        self.stop_volume(first)
        self.wake_up(volume)
        assert self.array.volumes == {volume['id']: other}
        found = self.assert_status(volume, 'available')
        assert found['os-vol-host-attr:host'] == f'{other}#pool'
        assert self.workers() == []
        self.report(other)
        assert self.pool().free_capacity_gb == 10

    def test_other_service_of_the_cluster_deletes_the_volume(self):
        volume = self.reserve(size=4)
        self.stop_volume(self.row(volume).host.partition('#')[0])
        self.delete(volume)
        self.assert_gone(volume)
        assert self.array.calls == []
        self.report()
        assert self.pool().free_capacity_gb == 10

    def test_two_services_of_the_cluster_create_the_volume_once(self):
        """Two wake_ups, and each service gets one: the second finds nothing to do."""
        volume = self.reserve(size=4)
        self.bus.kept.add(('cinder-volume', 'create_volume'))
        self.wake_up(volume)
        self.write(volume, status='error')
        self.wake_up(volume)
        first = self.bus._queue.pop(0)
        self.bus.deliver()
        self.stop_volume(self.row(volume).host.partition('#')[0])
        self.bus._queue.append(first)
        self.bus.deliver()
        self.assert_status(volume, 'available')
        assert len(self.array.called('create_volume')) == 1
        assert len(self.array.volumes) == 1

    def test_other_service_of_the_cluster_cleans_up_after_a_kill(self):
        """The table of workers is cleaned for a dead service by any of its cluster."""
        volume = self.reserve(size=4)
        self.array.fail['create_volume'] = Killed()
        self.wake_up(volume)
        self.array.fail.clear()
        dead = self.row(volume).host.partition('#')[0]
        (other,) = set(self.HOSTS) - {dead}
        service = objects.Service.get_by_args(self.ctxt, dead, 'cinder-volume')
        self.stop_volume(dead)
        self.volumes[other].manager.do_cleanup(
            self.ctxt, objects.CleanupRequest(service_id=service.id)
        )
        self.assert_status(volume, 'error')
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.array.volumes == {volume['id']: other}


class TestReport:
    """The arithmetic alone."""

    def test_report_without_pools_holds_the_sum(self):
        given = {'free_capacity_gb': 10.5, 'provisioned_capacity_gb': 3}
        before = copy.deepcopy(given)
        held = [
            capacity.Reserved('1', 'h@b#_pool0', 2, False),
            capacity.Reserved('2', 'h@b', 1, False),
        ]
        assert capacity.report(given, held) == {
            'free_capacity_gb': 7.5,
            'provisioned_capacity_gb': 6,
            capacity.CAPABILITY: True,
        }
        assert given == before

    def test_created_volume_is_not_held(self):
        made = [capacity.Reserved('1', 'h@b#p', 2, True)]
        given = {'pools': [{'pool_name': 'p', 'free_capacity_gb': 10}]}
        assert capacity.report(given, made)['pools'][0]['free_capacity_gb'] == 10

    def test_missing_amounts_of_a_driver_stay_missing(self):
        given = {'pools': [{'pool_name': 'p', 'free_capacity_gb': 10}]}
        assert capacity.report(given, [])['pools'] == [
            {'pool_name': 'p', 'free_capacity_gb': 10, capacity.CAPABILITY: True}
        ]
