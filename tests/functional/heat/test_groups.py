# SPDX-License-Identifier: Apache-2.0
"""Autoscaling groups that hold their maximum for the whole lease."""

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import changed, parse, stack_level

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


class GroupTest(ReservedTest):
    def wanted(self, stack):
        return self.resource(stack, 'group').get_attribute('refs')

    def by_status(self, status):
        """Ids of servers."""
        return [key for key, each in self.cloud.nova.servers.items() if each['status'] == status]


class TestCreation(GroupTest):
    def test_maximum_is_reserved(self):
        stack = self.reserve_all(GROUP)
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert len(self.held()) == 3
        assert self.outputs(stack)['size'] == 1

    def test_start_wakes_who_is_wanted(self):
        stack = self.reserve_all(GROUP)
        wanted = self.wanted(stack)
        self.start(stack)
        assert self.wakes() == wanted
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.outputs(stack) == {'size': 1, 'addresses': ['10.0.0.4'], 'refs': wanted}
        assert len(self.held()) == 3

    def test_signal_wakes_a_spare(self):
        stack = self.reserve_all(GROUP)
        self.start(stack)
        self.signal(stack, 'up')
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'ACTIVE', 'RESERVED']
        assert len(self.cloud.nova.changed('create')) == 3
        assert sorted(self.wakes()) == sorted(self.wanted(stack))

    def test_signal_down_reserves_first(self):
        stack = self.reserve_all(GROUP)
        self.start(stack)
        self.signal(stack, 'up')
        self.signal(stack, 'down')
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert len(self.cloud.nova.changed('create')) == 4
