# SPDX-License-Identifier: Apache-2.0
"""A wait condition waits for the signals of servers that are woken up, and only for these."""

from oslo_utils import fixture

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    WAITING,
    added,
    changed,
    depending,
    resource,
    server,
    stack,
    without,
)

#: The condition depends on the server.
AFTERWARDS = depending(WAITING, 'condition', 'server')
#: And on another one, which takes its time.
CROWDED = depending(added(WAITING, slow=server()), 'condition', ['server', 'slow'])
SENDER = server(user_data={'get_attr': ['handle', 'token']})


class TestWaitCondition(ReservedTest):
    def signal_ok(self, stack):
        self.signal(stack, 'handle', {'status': 'SUCCESS', 'data': 'up'}, run=False)

    def signal_once_waiting(self, stack):
        """Send the signal when the condition begins to wait.

        Its server may be woken up at the same time.
        """
        waiting = ('UPDATE', 'IN_PROGRESS')
        self.while_waiting(
            lambda: self.signal_ok(stack),
            until=lambda: self.resource(stack, 'condition').state == waiting,
        )

    def reserve_waiting(self, template):
        """Create a stack whose condition waits for the start."""
        stack = self.reserve_all(template)
        self.assert_deferred(stack)
        return stack

    def assert_deferred(self, stack):
        assert 'climate_deferred' in self.data(stack, 'condition')

    def assert_signalled(self, stack):
        assert self.outputs(stack) == {'data': '{"1": "up"}'}
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def test_condition_waits_for_the_signal_after_the_start(self):
        stack = self.reserve_waiting(WAITING)
        self.patch_stack(stack)
        self.assert_deferred(stack)
        self.signal_once_waiting(stack)
        self.start(stack)
        self.assert_signalled(stack)

    def test_signal_in_metadata_of_a_server_keeps_it(self):
        metadata = {'front': {'get_attr': ['condition', 'data']}}
        stack = self.reserve_waiting(added(WAITING, worker=server(metadata=metadata)))
        before = self.ids(stack, 'server', 'worker')
        self.cloud.nova.full = True
        self.signal_once_waiting(stack)
        self.start(stack)
        assert self.ids(stack, 'server', 'worker') == self.wakes() == before
        assert self.record(stack, 'worker')['metadata'] == {'front': '{"1": "up"}'}

    def test_signal_in_user_data_of_a_server_replaces_it(self):
        user_data = {'get_attr': ['condition', 'data']}
        stack = self.reserve_waiting(added(WAITING, worker=server(user_data=user_data)))
        first, worker = self.ids(stack, 'server', 'worker')
        self.cloud.nova.full = True
        self.signal_once_waiting(stack)
        found = self.start(stack, 'UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert worker not in self.cloud.nova.servers
        assert self.cloud.nova.servers[first]['status'] == 'ACTIVE'
        self.cloud.nova.full = False
        self.patch_stack(stack)
        assert self.held() == {first, *self.ids(stack, 'worker')}
        assert self.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.ids(stack, 'server') == [first]

    def test_missing_signal_fails_the_update_after_the_whole_timeout(self):
        time = self.useFixture(fixture.TimeFixture())
        stack = self.reserve_waiting(WAITING)
        # The timeout begins at the start, however late that is.
        time.advance_time_seconds(1000)
        waiting = ('UPDATE', 'IN_PROGRESS')
        self.while_waiting(
            lambda: time.advance_time_seconds(601),
            until=lambda: self.resource(stack, 'condition').state == waiting,
        )
        found = self.start(stack, 'UPDATE_FAILED')
        assert self.statuses() == ['ACTIVE']
        assert 'WaitConditionTimeout' in found.status_reason
        self.signal_ok(stack)
        self.patch_stack(stack)

    def test_server_without_its_reservation_sends_the_signal(self):
        """The old server is still reserved while the condition waits for the new one."""
        template = without(AFTERWARDS)
        stack = self.reserve_waiting(template)
        self.while_waiting(
            lambda: self.signal_ok(stack), until=lambda: 'ACTIVE' in self.cloud.nova.statuses()
        )
        self.update(stack, template)
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def assert_group_sends_the_signal(self, group, on, statuses):
        template = added(without(WAITING, 'server', 'config'), servers=group)
        stack = self.reserve_waiting(depending(template, 'condition', on))
        self.signal_once_waiting(stack)
        self.start(stack)
        assert self.statuses() == statuses
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def test_servers_in_nested_stacks_send_the_signal(self):
        group = resource('OS::Heat::ResourceGroup', count=2, resource_def=SENDER)
        self.assert_group_sends_the_signal(group, 'net', ['ACTIVE', 'ACTIVE'])

    def test_standby_members_send_no_signal(self):
        group = resource('OS::Heat::AutoScalingGroup', min_size=1, max_size=2, resource=SENDER)
        self.assert_group_sends_the_signal(group, 'servers', ['ACTIVE', 'RESERVED'])

    def start_once_reserved(self, count=1):
        """Let the lease start when the last of some servers has just been reserved."""
        interfaces = self.cloud.nova._interfaces

        def start(request, key):
            if self.cloud.nova.statuses() == ['RESERVED'] * count:
                self.leases.start(self.lease)
            return interfaces(request, key)

        self.cloud.nova._interfaces = start

    def assert_next_update_waits(self, stack):
        assert self.leases.get(self.lease).status == 'ACTIVE'
        self.assert_deferred(stack)
        self.signal_once_waiting(stack)
        self.patch_stack(stack)
        self.assert_signalled(stack)

    def test_lease_that_starts_after_the_server_was_created_is_left_to_the_next_update(self):
        """Nothing wakes up the server while its stack is created, so no signal comes."""
        self.start_once_reserved()
        self.assert_next_update_waits(self.reserve_all(AFTERWARDS))

    def test_lease_that_starts_after_the_server_was_updated_is_left_to_the_next_update(self):
        stack = self.reserve_all(AFTERWARDS)
        self.start_once_reserved(2)
        self.change(stack, CROWDED)
        self.assert_next_update_waits(stack)

    def test_condition_in_a_standby_member_stays_deferred(self):
        group = resource(
            'OS::Heat::AutoScalingGroup', min_size=0, max_size=1, resource={'type': 'member.yaml'}
        )
        files = {'member.yaml': without(WAITING)}
        template = stack({'group': group})
        made = self.started(template, files=files)
        self.change(made, changed(template, 'group', max_size=2), files=files)
        assert self.statuses() == ['RESERVED'] * 2
        for member in self.load(self.nested(made, 'group')).resources.values():
            self.assert_deferred(member.resource_id)

    def test_condition_of_a_server_that_is_not_reserved_waits_at_once(self):
        template = changed(WAITING, 'server', scheduler_hints={'reserved': False})
        self.while_waiting(
            lambda: self.signal_ok(
                self.ask('list_stacks', ALICE)[0]['stack_identity']['stack_id']
            ),
            until=self.cloud.nova.statuses,
        )
        stack = self.reserve_all(added(template, other=server()))
        assert self.statuses() == ['ACTIVE', 'RESERVED']
        assert self.data(stack, 'condition') == {}
        self.assert_signalled(stack)
