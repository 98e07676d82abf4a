# SPDX-License-Identifier: Apache-2.0
"""Groups without standby members: heat's own, with the same calls."""

from tests.functional.heat.grouped import GroupTest
from tests.functional.heat.reserved import SlowEngines
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    COUNTED,
    GROUP,
    MEMBER,
    NESTED,
    NET,
    added,
    changed,
    lease,
    server,
    stack_level,
    without,
)


class TestOrdinaryGroups(GroupTest):
    """A group that is not reserved is heat's own."""

    def life(self, name, template, **kwargs):
        """Return the requests to every service in the life of a group of this type."""
        template = changed(template, 'group')
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

    def assert_same_calls(self, template, **kwargs):
        self.register_core()
        core = self.life('Test::Core', template, **kwargs)
        ours = self.life('OS::Heat::AutoScalingGroup', template, **kwargs)
        assert ours == core
        assert core[0]
        assert self.leases.requests == []

    def test_group_of_an_ordinary_stack_makes_the_same_calls(self):
        self.assert_same_calls(GROUP)

    def test_group_of_other_resources_makes_the_same_calls(self):
        template = changed(GROUP, 'group', resource=NET)
        del template['outputs']['addresses']
        self.assert_same_calls(template, environment=stack_level(self.lease))

    def test_group_of_servers_without_reservation_makes_the_same_calls(self):
        template = changed(GROUP, 'group', resource=server(scheduler_hints={'reserved': 'False'}))
        self.assert_same_calls(template, environment=stack_level(self.lease))

    def test_members_with_leases_of_their_own_have_no_standby_members(self):
        """The lease service wakes these up, and knows no standby members."""
        dates = {'start': self.leases.later(hours=1), 'end': self.leases.later(hours=2)}
        hints = {'reserved': 'True', 'lease_params': dates}
        stack = self.create(changed(GROUP, 'group', resource=server(scheduler_hints=hints)))
        assert self.statuses() == ['RESERVED']
        self.signal(stack, 'up')
        assert self.statuses() == ['RESERVED'] * 2

    def test_members_with_leases_in_their_templates_have_no_standby_members(self):
        dates = self.leases.later(hours=1), self.leases.later(hours=2)
        member = added(
            without(MEMBER, 'disk', 'data', 'attachment', 'server'), lease=lease(*dates)
        )
        hints = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        member = changed(member, 'second', scheduler_hints=hints)
        template = without(NESTED)
        self.create(template, files={'member.yaml': member})
        assert self.statuses() == ['RESERVED']


class TestAbandonedGroups(GroupTest):
    def test_members_of_a_group_that_is_abandoned_during_the_wake_up_stay(self):
        for template in (COUNTED, GROUP):
            self.lease = self.leases.make(ALICE)
            self.cloud.nova.changes.clear()
            stack = self.reserve_all(template)
            before = len(self.cloud.nova.servers)
            self.while_waiting(
                lambda stack=stack: self.abandon(stack, run=False),
                until=lambda: self.cloud.nova.changed('wake_up'),
            )
            self.start(stack, status=None)
            assert not self.exists(stack)
            assert self.cloud.nova.changed('delete') == []
            assert len(self.cloud.nova.servers) == before
            # The second time the engines are slow to stop.
            self.useFixture(SlowEngines())
