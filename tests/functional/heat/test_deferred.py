# SPDX-License-Identifier: Apache-2.0
"""What needs a running server waits for it, and does not fail meanwhile."""

from heat.objects import software_deployment as deployments

from tests.functional.heat.bus import Killed
from tests.functional.heat.deferred import ATTACHED, DeferredTest
from tests.functional.heat.templates import SERVER, added, changed, stack_level, without
from tests.functional.heat.users import ALICE

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

    def test_engine_is_stopped_while_it_is_attached(self):
        stack = self.reserve_all(ATTACHED)
        (before,) = [self.resource(stack, 'attachment').id]
        self.while_waiting(self.stop_at_the_volume, lambda: self.cloud.nova.changed('attach'))
        self.start(stack, 'UPDATE_FAILED')
        assert 'climate_deferred' in self.data(stack, 'attachment')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')
        assert self.resource(stack, 'attachment').id == before
        assert self.data(stack, 'attachment') == {}

    def test_attachment_that_nova_gave_up_is_asked_for_again(self):
        stack = self.reserve_all(ATTACHED)
        self.while_waiting(self.stop_at_the_volume, lambda: self.cloud.nova.changed('attach'))
        self.start(stack, 'UPDATE_FAILED')
        disk, server = self.ids(stack, 'disk', 'server')
        self.cloud.nova.servers[server]['volumes'] = []
        self.cloud.cinder.volumes[disk].update(status='available', next=[], attachments=[])
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == [disk, disk]

    def stop_at_the_volume(self):
        self.cloud.cinder.faults.append(('GET', '/volumes/', Killed()))

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

    def test_moved_to_a_server_that_sleeps_it_waits_again(self):
        runs = {'scheduler_hints': {'reserved': False}}
        template = changed(changed(ATTACHED, 'server', **runs), 'disk', **runs)
        template = added(template, 'other', 'OS::Nova::Server', **SERVER)
        stack = self.reserve_all(template)
        disk, server, other = self.ids(stack, 'disk', 'server', 'other')
        assert self.cloud.nova.servers[server]['volumes'] == [disk]
        template = changed(template, 'attachment', instance_uuid={'get_resource': 'other'})
        self.update(stack, template, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.servers[server]['volumes'] == []
        assert 'climate_deferred' in self.data(stack, 'attachment')
        self.start(stack)
        assert self.cloud.nova.servers[other]['volumes'] == [disk]
        assert self.cloud.nova.changed('attach') == [disk, disk]

    def test_ordinary_stack(self):
        stack = self.create(ATTACHED)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.changed('attach') == self.ids(stack, 'disk')
        assert self.leases.requests == []


class TestDeployment(DeferredTest):
    def deployments(self):
        return deployments.SoftwareDeployment.get_all(ALICE.context())

    def answer(self):
        """What the agent in the server does when it has found its deployment."""
        (found,) = self.deployments()
        self.engine.signal_software_deployment(
            ALICE.context(), found.id, {'said': 'hi', 'deploy_status_code': 0}, None
        )

    def test_it_is_given_to_its_server_after_the_start(self):
        stack = self.reserve_all(DEPLOYED)
        assert self.deployments() == []
        assert self.outputs(stack) == {'said': None}
        self.while_waiting(self.answer, until=self.deployments)
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

    def test_one_that_was_given_is_told_of_its_end(self):
        stack = self.reserve_all(DEPLOYED)
        self.while_waiting(self.stop, until=self.deployments)
        self.start(stack, 'UPDATE_FAILED')
        assert 'climate_deferred' in self.data(stack, 'deployment')
        told = []
        self.while_waiting(
            lambda: told.append(self.answer()),
            until=lambda: self.deployments()[0].action == 'DELETE',
        )
        self.delete(stack)
        assert not self.exists(stack)
        assert told

    def stop(self):
        raise Killed

    def test_a_new_configuration_in_the_sleep(self):
        stack = self.reserve_all(DEPLOYED)
        self.update(
            stack, changed(DEPLOYED, 'deployment', input_values={'a': 'b'}),
            environment=stack_level(self.lease),
        )  # fmt: skip
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.deployments() == []
        self.while_waiting(self.answer, until=self.deployments)
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
