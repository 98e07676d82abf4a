# SPDX-License-Identifier: Apache-2.0
"""A wait condition waits for the signals of servers that are woken, and only for these."""

from oslo_utils import fixture

from tests.functional.heat.deferred import DeferredTest
from tests.functional.heat.leases import text
from tests.functional.heat.templates import SERVER, added, changed, parse, stack_level, without
from tests.functional.heat.users import ALICE

#: The condition does not depend on the server, which has the handle by way of a configuration.
WAITING = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  handle: {type: 'OS::Heat::WaitConditionHandle', properties: {signal_transport: HEAT_SIGNAL}}
  condition:
    type: OS::Heat::WaitCondition
    depends_on: config
    properties: {handle: {get_resource: handle}, timeout: 600, count: 1}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {config: {get_attr: [handle, token]}}
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1
      image: cirros
      user_data: {get_resource: config}
      user_data_format: RAW
      networks: [{network: {get_resource: net}}]
outputs:
  data: {value: {get_attr: [condition, data]}}
"""
#: It does depend on the server.
AFTERWARDS = parse(WAITING)
AFTERWARDS['resources']['condition']['depends_on'] = 'server'
#: And on another one, which takes its time.
CROWDED = added(AFTERWARDS, 'slow', 'OS::Nova::Server', **SERVER)
CROWDED['resources']['condition']['depends_on'] = ['server', 'slow']


class TestWaitCondition(DeferredTest):
    def signal_ok(self, stack):
        self.signal(stack, 'handle', {'status': 'SUCCESS', 'data': 'up'}, run=False)

    def test_it_waits_for_the_signal_after_the_start(self):
        stack = self.reserve_all(WAITING)
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.patch_stack(stack)
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.start(stack)
        assert self.outputs(stack) == {'data': '{"1": "up"}'}
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def test_who_is_told_the_signal_by_metadata_keeps_its_place(self):
        template = added(
            WAITING, 'worker', 'OS::Nova::Server', **SERVER,
            metadata={'front': {'get_attr': ['condition', 'data']}},
        )  # fmt: skip
        stack = self.reserve_all(template)
        before = self.ids(stack, 'server', 'worker')
        self.cloud.nova.full = True
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.start(stack)
        assert self.ids(stack, 'server', 'worker') == before
        assert self.wakes() == before
        assert self.cloud.nova.servers[before[1]]['metadata'] == {'front': '{"1": "up"}'}

    def test_who_is_told_the_signal_by_user_data_is_made_anew_in_its_place(self):
        template = added(
            WAITING, 'worker', 'OS::Nova::Server', **SERVER,
            user_data={'get_attr': ['condition', 'data']},
        )  # fmt: skip
        stack = self.reserve_all(template)
        server, worker = self.ids(stack, 'server', 'worker')
        self.cloud.nova.full = True
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.start(stack, 'UPDATE_FAILED')
        assert 'No valid host was found.' in self.load(stack).status_reason
        assert worker not in self.cloud.nova.servers
        assert self.cloud.nova.servers[server]['status'] == 'ACTIVE'
        self.cloud.nova.full = False
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.held() == set(self.ids(stack, 'server', 'worker'))
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.ids(stack, 'server') == [server]

    def test_without_a_signal_the_update_fails(self):
        time = self.useFixture(fixture.TimeFixture())
        stack = self.reserve_all(WAITING)
        # The whole timeout is there after the start, however long all has slept.
        time.advance_time_seconds(1000)
        self.while_waiting(lambda: time.advance_time_seconds(601), self.is_waiting(stack))
        self.start(stack, 'UPDATE_FAILED')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert 'WaitConditionTimeout' in self.load(stack).status_reason
        self.signal_ok(stack)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')

    def test_a_server_that_is_not_to_sleep_any_more(self):
        """The old one still sleeps while the condition waits for the new one."""
        template = without(WAITING)
        template['resources']['condition']['depends_on'] = 'server'
        stack = self.reserve_all(template)
        self.while_waiting(lambda: self.signal_ok(stack), until=self.is_running)
        self.update(stack, template)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def test_servers_in_nested_stacks(self):
        group = {
            'count': 2,
            'resource_def': {
                'type': 'OS::Nova::Server',
                'properties': {**SERVER, 'user_data': {'get_attr': ['handle', 'token']}},
            },
        }
        template = added(
            without(WAITING, 'server', 'config'), 'servers', 'OS::Heat::ResourceGroup', **group
        )
        template['resources']['condition']['depends_on'] = 'net'
        stack = self.reserve_all(template)
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']

    def test_lease_starts_after_the_turn_of_its_server(self):
        """Nobody wakes the server while its stack is created, so no signal comes."""
        self.start_once_reserved()
        stack = self.create(AFTERWARDS, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.outputs(stack) == {'data': '{"1": "up"}'}

    def test_lease_starts_after_the_turn_of_its_server_in_an_update(self):
        stack = self.reserve_all(AFTERWARDS)
        self.start_once_reserved(2)
        self.update(stack, CROWDED, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(self.lease).status == 'ACTIVE'
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.outputs(stack) == {'data': '{"1": "up"}'}

    def start_once_reserved(self, count=1):
        """Let the lease start when the last of some servers has just been put to sleep."""
        interfaces = self.cloud.nova._interfaces

        def start(request, key):
            if self.cloud.nova.statuses() == ['RESERVED'] * count:
                self.leases.start(self.lease)
            return interfaces(request, key)

        self.cloud.nova._interfaces = start

    def test_spares_send_no_signals(self):
        group = {
            'min_size': 1,
            'max_size': 2,
            'resource': {
                'type': 'OS::Nova::Server',
                'properties': {**SERVER, 'user_data': {'get_attr': ['handle', 'token']}},
            },
        }
        template = added(
            without(WAITING, 'server', 'config'), 'servers', 'OS::Heat::AutoScalingGroup', **group
        )
        template['resources']['condition']['depends_on'] = 'servers'
        stack = self.reserve_all(template)
        assert 'climate_deferred' in self.data(stack, 'condition')
        self.while_waiting(lambda: self.signal_ok(stack), self.is_waiting(stack))
        self.start(stack)
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED']
        assert 'climate_deferred' not in self.data(stack, 'condition')

    def test_in_a_spare_it_goes_on_waiting_for_its_turn(self):
        """Each member of the group has a condition of its own."""
        member = text(without(WAITING))
        group = {'min_size': 0, 'max_size': 1, 'resource': {'type': 'member.yaml'}}
        template = added(
            {'heat_template_version': '2018-08-31', 'resources': {}},
            'group', 'OS::Heat::AutoScalingGroup', **group,
        )  # fmt: skip
        stack = self.reserve_all(template, files={'member.yaml': member})
        self.start(stack)
        template = changed(template, 'group', max_size=2)
        files = {'member.yaml': member}
        self.update(stack, template, environment=stack_level(self.lease), files=files)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED'] * 2
        for spare in self.load(self.nested(stack, 'group')).resources.values():
            assert 'climate_deferred' in self.data(spare.resource_id, 'condition')

    def test_of_a_server_that_is_not_reserved_it_waits_as_ever(self):
        template = changed(WAITING, 'server', scheduler_hints={'reserved': False})
        template = added(template, 'other', 'OS::Nova::Server', **SERVER)
        self.bus.meanwhile = self.signal_when_there
        stack = self.reserve_all(template)
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED']
        assert self.data(stack, 'condition') == {}
        assert self.outputs(stack) == {'data': '{"1": "up"}'}

    def signal_when_there(self):
        if self.cloud.nova.statuses() and not self.signalled:
            self.signalled = True
            self.signal_ok(self.load_named('stack1'))

    def is_waiting(self, stack):
        """Tells when the condition begins to wait; its server may be woken at the same time."""
        return lambda: self.resource(stack, 'condition').state == ('UPDATE', 'IN_PROGRESS')

    def is_running(self):
        return 'ACTIVE' in self.cloud.nova.statuses()

    signalled = False

    def load_named(self, name):
        (found,) = [
            each['stack_identity']['stack_id']
            for each in self.ask('list_stacks', ALICE)
            if each['stack_name'] == name
        ]
        return found
