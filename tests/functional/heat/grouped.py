# SPDX-License-Identifier: Apache-2.0
"""Stacks with groups, and what their tests ask about them."""

from heat.engine import resources
from heat.engine.resources.openstack.heat import autoscaling_group
from oslo_config import cfg

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import changed, stack_level
from tests.functional.heat.users import ALICE

#: At least one server and three at the most, and policies to scale by one.
GROUP = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  group:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 1
      max_size: 3
      resource:
        type: OS::Nova::Server
        properties: {flavor: m1, image: cirros, networks: [{network: {get_resource: net}}]}
  up:
    type: OS::Heat::ScalingPolicy
    properties:
      adjustment_type: change_in_capacity
      auto_scaling_group_id: {get_resource: group}
      scaling_adjustment: 1
  down:
    type: OS::Heat::ScalingPolicy
    properties:
      adjustment_type: change_in_capacity
      auto_scaling_group_id: {get_resource: group}
      scaling_adjustment: -1
outputs:
  size: {value: {get_attr: [group, current_size]}}
  addresses: {value: {get_attr: [group, outputs_list, first_address]}}
  refs: {value: {get_attr: [group, refs]}}
"""

#: A member of two servers and two volumes.
MEMBER = """
heat_template_version: 2018-08-31
parameters:
  net: {type: string}
resources:
  disk: {type: 'OS::Cinder::Volume', properties: {size: 2, image: cirros}}
  data: {type: 'OS::Cinder::Volume', properties: {size: 1}}
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1
      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]
      networks: [{network: {get_param: net}}]
  attachment:
    type: OS::Cinder::VolumeAttachment
    properties:
      instance_uuid: {get_resource: server}
      volume_id: {get_resource: data}
  second:
    type: OS::Nova::Server
    properties: {flavor: m1, image: cirros, networks: [{network: {get_param: net}}]}
outputs:
  address: {value: {get_attr: [server, first_address]}}
"""
NESTED = changed(
    GROUP, 'group',
    resource={'type': 'member.yaml', 'properties': {'net': {'get_resource': 'net'}}},
)  # fmt: skip
NESTED['outputs']['addresses'] = {'value': {'get_attr': ['group', 'outputs_list', 'address']}}


class GroupTest(ReservedTest):
    """Tests of the resource ``group`` of a stack."""

    user = ALICE

    def set_limit(self, count):
        cfg.CONF.set_override('max_resources_per_stack', count)

    def register_core(self):
        """Let ``Test::Core`` be what the name means without the extension."""
        core = autoscaling_group.AutoScalingResourceGroup
        resources.global_env().register_class('Test::Core', core)

    def group(self, stack):
        return self.resource(stack, 'group')

    def wanted(self, stack):
        """Ids of the servers that count."""
        return self.group(stack).get_attribute('refs')

    def spares(self, stack):
        """Ids of the servers that do not."""
        wanted = self.wanted(stack)
        members = self.load(self.nested(stack, 'group')).resources.values()
        return [each.resource_id for each in members if each.resource_id not in wanted]

    def size(self, stack):
        return self.group(stack).get_attribute('current_size')

    def by_status(self, status):
        """Ids of the servers with a status."""
        return [key for key, each in self.cloud.nova.servers.items() if each['status'] == status]

    def addresses(self, servers):
        """The first address of each of some servers."""
        return [self.cloud.nova.addresses(each)[0] for each in servers]

    def assert_servers(self, stack, awake, asleep):
        """Check who runs: those that are wanted, and no other; and that all is held."""
        assert sorted(self.by_status('ACTIVE')) == sorted(self.wanted(stack))
        assert sorted(self.by_status('RESERVED')) == sorted(self.spares(stack))
        assert (len(self.wanted(stack)), len(self.spares(stack))) == (awake, asleep)
        assert self.size(stack) == awake
        assert self.held() == set(self.cloud.nova.servers)

    def change(self, stack, template=GROUP, status='UPDATE_COMPLETE', **properties):
        """Update the stack with other properties of the group."""
        template = changed(template, 'group', **properties)
        self.update(stack, template, environment=stack_level(self.lease))
        return self.assert_stack(stack, status)

    def running(self, template=GROUP, **properties):
        """A stack whose lease has started."""
        stack = self.reserve_all(changed(template, 'group', **properties))
        self.start(stack)
        return stack
