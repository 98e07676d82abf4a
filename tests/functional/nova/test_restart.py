# SPDX-License-Identifier: Apache-2.0
"""nova-compute stops and starts, and its periodic tasks run."""

import threading

from nova import objects
from nova.compute import task_states, vm_states

from tests.functional.bus import Killed
from tests.functional.nova.base import LONG_AGO, NovaTest


class RestartTest(NovaTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=self.network())
        self.held = self.allocations(self.server)

    def assert_held(self):
        self.assert_status(self.server, 'RESERVED')
        assert self.allocations(self.server) == self.held
        assert len(self.ports(self.server)) == 1
        assert self.guests() == []
        assert self.used() == 1

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
    def test_restart_leaves_a_reserved_server_and_its_message_as_they_are(self):
        plugged = []
        driver = self.computes['host1'].manager.driver
        driver.plug_vifs = lambda *args: plugged.append(args)
        self.restart()
        self.assert_held()
        assert plugged == []
        with self.messages_kept() as queue:
            self.wake_up(self.server)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        self.restart()
        self.assert_held()
        self.deliver(queue[0])
        self.assert_status(self.server, 'ACTIVE')
        assert self.guests() == [self.server['id']]

    def test_killed_spawn_is_reserved_again_after_the_restart(self):
        self.kill_during_spawn()
        self.assert_status(self.server, 'BUILD', 'spawning')
        assert self.guests() == [self.server['id']]
        self.restart()
        self.assert_held()
        assert 'nova-compute stopped' in self.show(self.server)['fault']['message']
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.used() == 1

    def test_killed_spawn_keeps_the_attachment_of_a_volume(self):
        self.server = self.reserve(
            imageRef='',
            networks=self.network(),
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

    def test_killed_spawn_that_cannot_be_removed_is_error(self):
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
        self.delete(self.server)

    def test_killed_reservation_is_error_after_the_restart(self):
        """No lease, or a lease whose server says ERROR: never a hold that nobody knows."""

        def die(request):
            raise Killed

        self.lease_service.on_post = die
        server = self.reserve()
        assert self.instance(server).vm_state == vm_states.BUILDING
        self.restart()
        self.assert_status(server, 'ERROR')

    def test_restart_finishes_the_delete_of_a_reserved_server(self):
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

    def test_periodic_tasks_leave_a_reserved_server_as_it_is(self):
        self.flags(instance_build_timeout=1)
        self.flags(running_deleted_instance_action='reap')
        self.flags(running_deleted_instance_timeout=0, reclaim_instance_interval=1)
        self.write(self.server, created_at=LONG_AGO, updated_at=LONG_AGO)
        for _ in range(2):
            self.run_all()
            self.assert_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_audit_during_the_start_counts_the_server_once(self):
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
