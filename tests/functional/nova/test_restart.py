# SPDX-License-Identifier: Apache-2.0
"""nova-compute stops and starts, messages are late or lost, and the periodic tasks run."""

import contextlib
import datetime
import threading

import fixtures
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi, task_states, vm_states
from nova.db.main import api as db

from tests.functional.nova.base import NovaTest
from tests.functional.nova.spawned import Spawned

LONG_AGO = datetime.datetime(2020, 1, 1)


class Killed(BaseException):
    """nova-compute is gone in the middle: no handler of nova runs."""


class RestartTest(NovaTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=[{'uuid': self.neutron.network_1['id']}])
        self.held = self.allocations(self.server)

    def assert_held(self):
        self.assert_status(self.server, 'RESERVED')
        assert self.allocations(self.server) == self.held
        assert len(self.ports(self.server)) == 1
        assert self.guests() == []
        assert self.used() == 1

    def write(self, **values):
        """Write into the row of the server, past nova's clock."""
        mapping = objects.InstanceMapping.get_by_instance_uuid(self.ctxt, self.server['id'])
        with nova_context.target_cell(self.ctxt, mapping.cell_mapping) as cctxt:
            db.instance_update(cctxt, self.server['id'], values)

    @contextlib.contextmanager
    def message_kept(self):
        """Keep the messages to nova-compute in the queue; gives the list of them."""
        queue = []

        def keep(api, context, **kwargs):
            queue.append((context, kwargs))

        method = 'nova.compute.rpcapi.ComputeAPI.build_and_run_instance'
        with fixtures.MonkeyPatch(method, keep):
            yield queue

    def deliver(self, message):
        context, kwargs = message
        rpcapi.ComputeAPI().build_and_run_instance(context, **kwargs)

    def kill_during_spawn(self):
        driver = self.computes['host1'].manager.driver
        real = driver.spawn

        def spawn(*args, **kwargs):
            real(*args, **kwargs)
            raise Killed

        driver.spawn = spawn
        self.wake_up(self.server)
        driver.spawn = real


class TestRestart(RestartTest):
    def test_while_reserved(self):
        plugged = []
        driver = self.computes['host1'].manager.driver
        driver.plug_vifs = lambda *args: plugged.append(args)
        self.restart()
        self.assert_held()
        assert plugged == []
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_while_the_message_waits(self):
        with self.message_kept() as queue:
            self.wake_up(self.server)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        self.restart()
        self.assert_held()
        self.deliver(queue[0])
        self.assert_status(self.server, 'ACTIVE')
        assert self.guests() == [self.server['id']]

    def test_woken_again_before_the_old_message_arrives(self):
        with self.message_kept() as queue:
            self.wake_up(self.server)
        self.restart()
        spawned = Spawned(self.computes['host1'].manager.driver)
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        self.deliver(queue[0])
        self.assert_status(self.server, 'ACTIVE')
        assert len(spawned.calls) == 1

    def test_an_old_message_after_a_failed_start(self):
        with self.message_kept() as queue:
            self.wake_up(self.server)
        self.restart()
        spawned = Spawned(self.computes['host1'].manager.driver)
        spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        self.deliver(queue[0])
        self.assert_held()
        assert len(spawned.calls) == 1

    def test_an_old_message_for_a_deleted_server(self):
        with self.message_kept() as queue:
            self.wake_up(self.server)
        self.api.delete_server(self.server['id'])
        self._wait_until_deleted(self.server)
        self.deliver(queue[0])
        assert self.guests() == []
        assert self.used() == 0

    def test_killed_during_the_spawn(self):
        self.kill_during_spawn()
        self.assert_status(self.server, 'BUILD', 'spawning')
        assert self.guests() == [self.server['id']]
        self.restart()
        self.assert_held()
        assert 'nova-compute stopped' in self.show(self.server)['fault']['message']
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.used() == 1

    def test_killed_during_the_spawn_with_a_volume(self):
        self.server = self.reserve(
            imageRef='',
            networks=[{'uuid': self.neutron.network_1['id']}],
            block_device_mapping_v2=[
                {
                    'boot_index': 0,
                    'uuid': self.cinder.IMAGE_BACKED_VOL,
                    'source_type': 'volume',
                    'destination_type': 'volume',
                }
            ],
        )
        self.kill_during_spawn()
        self.restart()
        self.assert_status(self.server, 'RESERVED')
        assert len(self.cinder.attachment_ids_for_instance(self.server['id'])) == 1
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_what_is_left_cannot_be_removed(self):
        self.kill_during_spawn()
        driver = self.computes['host1'].manager.driver
        real = driver.destroy

        def destroy(*args, **kwargs):
            raise objects.instance.exception.InstancePowerOffFailure(reason='stuck')

        driver.destroy = destroy
        self.restart()
        driver.destroy = real
        found = self.assert_status(self.server, 'ERROR')
        assert 'stuck' in found['fault']['message']
        self.api.delete_server(self.server['id'])
        self._wait_until_deleted(self.server)

    def test_killed_during_the_reservation_is_nova_s_error(self):
        """No lease, or a lease whose server says ERROR: never a hold that nobody knows."""

        def die(request):
            raise Killed

        self.lease_service.on_post = die
        server = self.reserve()
        assert self.instance(server).vm_state == vm_states.BUILDING
        self.restart()
        self.assert_status(server, 'ERROR')

    def test_while_it_is_deleted(self):
        instance = self.instance(self.server)
        instance.task_state = task_states.DELETING
        instance.save()
        self.restart()
        self._wait_until_deleted(self.server)
        assert self.allocations(self.server) == {}
        assert self.ports(self.server) == []


class TestPeriodicTasks(RestartTest):
    def run_all(self):
        manager = self.computes['host1'].manager
        # Its threads are this thread here.
        manager._syncs_in_progress_lock = threading.RLock()
        manager.run_periodic_tasks(self.ctxt, raise_on_error=True)
        manager.update_available_resource(self.ctxt)
        manager._sync_power_states(self.ctxt)
        manager._heal_instance_info_cache(self.ctxt)
        manager._check_instance_build_time(self.ctxt)
        manager._cleanup_running_deleted_instances(self.ctxt)
        manager._reclaim_queued_deletes(self.ctxt)
        manager._poll_unconfirmed_resizes(self.ctxt)
        manager._poll_rebooting_instances(self.ctxt)

    def test_a_reserved_server_is_left_alone(self):
        self.flags(instance_build_timeout=1)
        self.flags(running_deleted_instance_action='reap')
        self.flags(running_deleted_instance_timeout=0, reclaim_instance_interval=1)
        self.write(created_at=LONG_AGO, updated_at=LONG_AGO)
        for _ in range(2):
            self.run_all()
            self.assert_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_the_audit_while_it_starts(self):
        driver = self.computes['host1'].manager.driver
        real = driver.spawn

        def spawn(*args, **kwargs):
            self.computes['host1'].manager.update_available_resource(self.ctxt)
            return real(*args, **kwargs)

        driver.spawn = spawn
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.used() == 1
        assert self.allocations(self.server) == self.held


class TestLostMessage(RestartTest):
    def test_wake_up_may_be_repeated_after_a_while(self):
        with self.message_kept() as queue:
            self.wake_up(self.server)
            self.wake_up(self.server, status=409)
        assert len(queue) == 1
        self.write(updated_at=LONG_AGO)
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        self.deliver(queue[0])
        self.assert_status(self.server, 'ACTIVE')
        assert self.guests() == [self.server['id']]
