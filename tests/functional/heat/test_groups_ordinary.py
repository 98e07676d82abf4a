# SPDX-License-Identifier: Apache-2.0
"""Groups that hold no maximum: heat's own, with the same calls."""

import json

from tests.functional.heat.grouped import GROUP, MEMBER, NESTED, GroupTest
from tests.functional.heat.templates import changed, parse, server, stack_level


class TestOrdinaryGroups(GroupTest):
    """What is not reserved is heat's own."""

    def life(self, name, template, **kwargs):
        """What is asked of everybody in the life of a group of this type."""
        template = parse(template)
        template['resources']['group']['type'] = name
        asked = []
        self.bus.casts.clear()
        self.bus._call, call = self.recorder(asked), self.bus._call
        before = len(self.cloud.nova.requests)
        stack = self.create(template, **kwargs)
        self.patch_stack(stack)
        self.signal(stack, 'up')
        self.outputs(stack)
        self.update(stack, changed(template, 'group', max_size=4, desired_capacity=3), **kwargs)
        self.signal(stack, 'down')
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.size(stack) == 2
        self.delete(stack)
        self.bus._call = call
        return asked, self.bus.casts[:], len(self.cloud.nova.requests) - before

    def recorder(self, asked):
        call = self.bus._call

        def _call(client, context, method, **kwargs):
            asked.append(method)
            return call(client, context, method, **kwargs)

        return _call

    def compare(self, template, **kwargs):
        self.register_core()
        core = self.life('Test::Core', template, **kwargs)
        ours = self.life('OS::Heat::AutoScalingGroup', template, **kwargs)
        assert ours == core
        assert core[0]

    def test_same_calls(self):
        self.compare(GROUP)
        assert self.leases.requests == []

    def test_other_resources_of_a_reserved_stack(self):
        template = changed(GROUP, 'group', resource={'type': 'OS::Neutron::Net'})
        del template['outputs']['addresses']
        self.compare(template, environment=stack_level(self.lease))
        assert self.leases.requests == []

    def test_members_that_are_not_to_be_reserved(self):
        template = changed(GROUP, 'group', resource=server(scheduler_hints={'reserved': 'False'}))
        self.compare(template, environment=stack_level(self.lease))
        assert self.leases.requests == []

    def test_members_with_leases_of_their_own_hold_no_maximum(self):
        """These are woken by the lease service, which knows no spares."""
        dates = {'start': self.leases.later(hours=1), 'end': self.leases.later(hours=2)}
        hints = {'reserved': 'True', 'lease_params': dates}
        template = changed(GROUP, 'group', resource=server(scheduler_hints=hints))
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED']
        self.signal(stack, 'up')
        assert self.cloud.nova.statuses() == ['RESERVED'] * 2

    def test_own_lease_of_each_member_holds_no_maximum(self):
        member = parse(MEMBER)
        dates = {
            'start_date': self.leases.later(hours=1),
            'end_date': self.leases.later(hours=2),
        }
        hints = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        lease = {'type': 'OS::Climate::Lease', 'properties': {'name': 'own', **dates}}
        properties = {
            'flavor': 'm1',
            'image': 'cirros',
            'networks': [{'network': {'get_param': 'net'}}],
            'scheduler_hints': hints,
        }
        member['resources'] = {
            'lease': lease,
            'server': {'type': 'OS::Nova::Server', 'properties': properties},
        }
        stack = self.create(NESTED, files={'member.yaml': json.dumps(member)})
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED']
