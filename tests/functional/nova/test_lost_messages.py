# SPDX-License-Identifier: Apache-2.0
"""Messages to nova-compute that are lost, late, or come twice: the server starts once."""

import fixtures
from nova import objects

from tests.functional.nova.base import LONG_AGO, NovaTest

#: What nova-compute reads before it begins.
READ = 'nova_ext.compute.wake.objects.Instance.get_by_uuid'


class LostMessagesTest(NovaTest):
    def setUp(self):
        super().setUp()
        self.spawned = [self.spy_on(host) for host in self.COMPUTES]
        self.server = self.reserve(networks=self.network())
        self.held = self.allocations(self.server)

    def send(self, *hosts_down):
        """Ask for a wake_up, long after the last; give its message, which is not delivered."""
        for host in self.COMPUTES:
            self.lose(host, host in hosts_down)
        self.write(self.server, updated_at=LONG_AGO)
        with self.messages_kept() as queue:
            self.wake_up(self.server)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        (message,) = queue
        return message

    def spawns(self):
        return sum(len(each.calls) for each in self.spawned)

    def assert_started_once(self):
        self.assert_status(self.server, 'ACTIVE')
        assert self.spawns() == 1
        assert self.guests() == [self.server['id']]
        assert len(self.allocations(self.server)) == 1


class TestOneHost(LostMessagesTest):
    def test_messages_of_repeats_in_any_order_start_it_once(self):
        for order in ([0], [1], [0, 1], [1, 0], [0, 0], [1, 1, 0, 0]):
            with self.subTest(order=order):
                messages = [self.send(), self.send()]
                # A third is refused until the timeout.
                self.wake_up(self.server, status=409)
                for index in order:
                    self.deliver(messages[index])
                    self.assert_started_once()
                self.delete(self.server)
                self.deliver(messages[0])
                assert (self.guests(), self.used()) == ([], 0)
                self.spawned[0].calls.clear()
                self.server = self.reserve()

    def test_message_after_a_restart_of_nova_compute_starts_it_once(self):
        late = self.send()
        self.restart()
        self.spawned = [self.spy_on()]
        self.wake_up(self.server)
        self.assert_started_once()
        self.deliver(late)
        self.assert_started_once()

    def test_old_message_after_a_failed_start_is_ignored(self):
        late = self.send()
        self.spawned[0].fail_with = RuntimeError('no more smoke')
        self.deliver(self.send())
        self.deliver(late)
        self.assert_status(self.server, 'RESERVED')
        assert self.spawns() == 1
        assert self.allocations(self.server) == self.held

    def test_compare_and_swap_that_fails_leaves_the_reservation(self):
        """Another process writes between the read and the write, or the database is away."""
        message = self.send()
        read = objects.Instance.get_by_uuid
        for change in ({'vm_state': 'building'}, {'task_state': 'deleting'}, None):
            with self.subTest(change=change):

                def look(cls, *args, change=change, **kwargs):
                    found = read(*args, **kwargs)
                    self.write(self.server, **change)
                    return found

                with fixtures.MonkeyPatch(READ, look):
                    self.deliver(message)
                assert self.spawns() == 0
                assert self.allocations(self.server) == self.held
                self.write(self.server, vm_state='reserved', task_state='scheduling')
        self.deliver(message)
        self.assert_started_once()

    def test_server_whose_state_was_reset_is_never_started(self):
        late = self.send()
        self.admin_api.api_post(
            f'/servers/{self.server["id"]}/action', {'os-resetState': {'state': 'error'}}
        )
        self.wake_up(self.server, status=409)
        self.deliver(late)
        self.assert_status(self.server, 'ERROR')
        assert self.spawns() == 0


class TestTwoHosts(LostMessagesTest):
    COMPUTES = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.own = self.show(self.server)['OS-EXT-SRV-ATTR:host']
        (self.other,) = set(self.COMPUTES) - {self.own}

    def assert_started_once_on(self, host):
        self.assert_started_once()
        assert self.guests(host) == [self.server['id']]
        (allocation,) = self.allocations(self.server).items()
        assert allocation == (self._get_provider_uuid_by_host(host), *self.held.values())

    def test_repeat_allocates_on_the_other_host_once(self):
        late = self.send(self.own)
        both = self.allocations(self.server)
        assert len(both) == 2
        repeated = self.send(self.own)
        assert self.allocations(self.server) == both
        self.deliver(late)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        self.deliver(repeated)
        self.assert_started_once_on(self.other)

    def test_message_to_a_host_that_comes_back_is_ignored(self):
        late = self.send()
        repeated = self.send(self.own)
        self.deliver(late)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        self.deliver(repeated)
        self.assert_started_once_on(self.other)
        self.deliver(late)
        self.assert_started_once_on(self.other)

    def test_own_host_that_comes_back_starts_it(self):
        late = self.send(self.own)
        repeated = self.send()
        assert self.allocations(self.server) == self.held
        self.deliver(late)
        self.assert_status(self.server, 'RESERVED', 'scheduling')
        self.deliver(repeated)
        self.assert_started_once_on(self.own)

    def test_host_that_is_too_late_gives_its_allocation_back(self):
        """The own host begins while nova-api has just chosen the other."""
        first = self.send()
        second = self.send(self.own)
        both = self.allocations(self.server)
        marked = self.instance(self.server)
        marked.system_metadata['climate_wake_up'] = first[0].request_id
        marked.save()
        release = 'nova_ext.compute.tracker.ResourceTracker._release_others'
        with fixtures.MonkeyPatch(release, lambda *args: None):
            self.deliver(first)
        assert self.allocations(self.server) == both
        self.deliver(second)
        self.assert_started_once_on(self.own)
