# SPDX-License-Identifier: Apache-2.0
"""What needs a running server waits for it, and does not fail meanwhile."""

from heat.objects import software_deployment as deployments
from oslo_utils import fixture

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import PAIR, added, changed, parse, stack_level, without
from tests.functional.heat.users import ALICE

_NET = [{'network': {'get_resource': 'net'}}]
_SERVER = {'flavor': 'm1', 'image': 'cirros', 'networks': _NET}

ATTACHED = added(
    added(without(PAIR, 'server'), 'server', 'OS::Nova::Server', **_SERVER),
    'attachment', 'OS::Cinder::VolumeAttachment',
    instance_uuid={'get_resource': 'server'}, volume_id={'get_resource': 'disk'},
)  # fmt: skip

DEPLOYED = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: hello, outputs: [{name: said}]}
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1
      image: cirros
      user_data_format: SOFTWARE_CONFIG
      networks: [{network: {get_resource: net}}]
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      actions: [CREATE, SUSPEND, RESUME, DELETE]
      signal_transport: HEAT_SIGNAL
outputs:
  said: {value: {get_attr: [deployment, said]}}
"""

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
CROWDED = added(AFTERWARDS, 'slow', 'OS::Nova::Server', **_SERVER)
CROWDED['resources']['condition']['depends_on'] = ['server', 'slow']


class DeferredTest(ReservedTest):
    def data(self, stack, name):
        return self.resource(stack, name).data()

    def while_waiting(self, do, until):
        """Do something once, at a look of whoever waits after the wake-up.

        :param until: tells when
        """
        todo = [do]

        def meanwhile():
            self.leases.run()
            if todo and until():
                todo.pop()()

        self.bus.meanwhile = meanwhile


class TestAttachment(DeferredTest):
    def test_it_waits_and_is_made_after_both_are_awake(self):
        stack = self.reserve_all(ATTACHED)
        assert 'climate_deferred' in self.data(stack, 'attachment')
        assert self.cloud.nova.changed('attach') == []
        self.patch_stack(stack)
        assert self.cloud.nova.changed('attach') == []
        assert self.resource(stack, 'attachment').state == ('CREATE', 'COMPLETE')
        self.start(stack)
        disk, server = self.ids(stack, 'disk', 'server')
        assert self.cloud.nova.changes == [
            ('create', server), ('wake_up', server), ('attach', disk),
        ]  # fmt: skip
        assert self.cloud.cinder.volumes[disk]['status'] == 'in-use'
        assert self.data(stack, 'attachment') == {}
        assert self.ids(stack, 'attachment') == [disk]
        self.patch_stack(stack)
        assert self.cloud.nova.changed('attach') == [disk]
        self.delete(stack)
        assert not self.exists(stack)
        assert self.cloud.nova.changed('detach') == [disk]

    def test_by_hints(self):
        stack = self.reserve(ATTACHED)
        self.start(stack)
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')

    def test_volume_that_sleeps_for_a_server_that_runs(self):
        template = changed(ATTACHED, 'server', scheduler_hints={'reserved': False})
        stack = self.reserve_all(template)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.cloud.nova.changed('attach') == []
        self.start(stack)
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')

    def test_server_that_is_reserved_anew(self):
        stack = self.reserve_all(ATTACHED)
        template = changed(ATTACHED, 'server', flavor='m2')
        self.update(stack, template, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == []
        self.start(stack)
        (server,) = self.cloud.nova.servers.values()
        assert server['volumes'] == self.ids(stack, 'disk')

    def test_server_that_is_reserved_anew_after_the_start(self):
        stack = self.reserve_all(ATTACHED)
        self.leases.start(self.lease)
        template = changed(ATTACHED, 'server', flavor='m2')
        self.update(stack, template, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        (server,) = self.cloud.nova.servers.values()
        assert (server['flavor'], server['status']) == ({'id': '2'}, 'ACTIVE')
        assert server['volumes'] == self.ids(stack, 'disk')

    def test_refusal_is_asked_for_again(self):
        stack = self.reserve_all(ATTACHED)
        (before,) = [self.resource(stack, 'attachment').id]
        self.cloud.nova.faults.append(('POST', 'os-volume_attachments', 403))
        self.start(stack, 'UPDATE_FAILED')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')
        assert self.resource(stack, 'attachment').id == before

    def test_deleted_in_the_sleep(self):
        stack = self.reserve_all(ATTACHED)
        self.delete(stack)
        assert not self.exists(stack)
        assert self.cloud.nova.changed('detach') == []

    def test_added_after_the_start_it_is_made_at_once(self):
        stack = self.reserve_all(without(ATTACHED, 'attachment'))
        self.start(stack)
        self.update(stack, ATTACHED, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')

    def test_ordinary_stack(self):
        stack = self.create(ATTACHED)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')
        assert self.leases.requests == []


class TestDeployment(DeferredTest):
    def deployments(self):
        return deployments.SoftwareDeployment.get_all(ALICE.context())

    def answer(self, stack):
        """What the agent in the server does when it has found its deployment."""
        deployment = self.resource(stack, 'deployment').resource_id
        self.engine.signal_software_deployment(
            ALICE.context(), deployment, {'said': 'hi', 'deploy_status_code': 0}, None
        )

    def test_it_is_given_to_its_server_after_the_start(self):
        stack = self.reserve_all(DEPLOYED)
        assert self.deployments() == []
        assert self.outputs(stack) == {'said': None}
        self.while_waiting(lambda: self.answer(stack), until=self.deployments)
        self.start(stack)
        (found,) = self.deployments()
        assert found.server_id == self.ids(stack, 'server')[0]
        assert found.action == 'CREATE'
        assert self.outputs(stack) == {'said': 'hi'}
        assert 'climate_deferred' not in self.data(stack, 'deployment')

    def test_nothing_of_it_is_done_in_the_sleep(self):
        stack = self.reserve_all(DEPLOYED)
        self.suspend(stack)
        self.assert_stack(stack, 'SUSPEND_COMPLETE')
        self.resume(stack)
        self.assert_stack(stack, 'RESUME_COMPLETE')
        self.delete(stack)
        assert not self.exists(stack)
        assert self.deployments() == []

    def test_a_new_configuration_in_the_sleep(self):
        stack = self.reserve_all(DEPLOYED)
        self.update(
            stack, changed(DEPLOYED, 'deployment', input_values={'a': 'b'}),
            environment=stack_level(self.lease),
        )  # fmt: skip
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.deployments() == []
        self.while_waiting(lambda: self.answer(stack), until=self.deployments)
        self.start(stack)
        (found,) = self.deployments()
        inputs = {each['name']: each.get('value') for each in found.config.config['inputs']}
        assert inputs['a'] == 'b'
        assert inputs['deploy_action'] == 'CREATE'

    def test_group_of_deployments(self):
        template = added(
            without(DEPLOYED, 'deployment'), 'deployment', 'OS::Heat::SoftwareDeploymentGroup',
            config={'get_resource': 'config'}, servers={'one': {'get_resource': 'server'}},
            signal_transport='NO_SIGNAL',
        )  # fmt: skip
        stack = self.reserve_all(template)
        assert self.deployments() == []
        self.start(stack)
        assert [each.server_id for each in self.deployments()] == self.ids(stack, 'server')

    def test_structured_deployment(self):
        template = changed(DEPLOYED, 'deployment', signal_transport='NO_SIGNAL')
        template['resources']['deployment']['type'] = 'OS::Heat::StructuredDeployment'
        template['resources']['config'] = {
            'type': 'OS::Heat::StructuredConfig', 'properties': {'config': {'a': 1}},
        }  # fmt: skip
        template.pop('outputs')
        stack = self.reserve_all(template)
        assert self.deployments() == []
        self.start(stack)
        assert [each.server_id for each in self.deployments()] == self.ids(stack, 'server')


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
                'properties': {**_SERVER, 'user_data': {'get_attr': ['handle', 'token']}},
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
                'properties': {**_SERVER, 'user_data': {'get_attr': ['handle', 'token']}},
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

    def test_of_a_server_that_is_not_reserved_it_waits_as_ever(self):
        template = changed(WAITING, 'server', scheduler_hints={'reserved': False})
        template = added(template, 'other', 'OS::Nova::Server', **_SERVER)
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
