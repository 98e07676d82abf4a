# SPDX-License-Identifier: Apache-2.0
"""Stacks with autoscaling groups, and what their tests ask about them."""

from heat.engine import resources
from heat.engine.resources.openstack.heat import autoscaling_group
from oslo_config import cfg

from tests.functional.heat.reserved import ReservedTest
from tests.support.stacks import GROUP, changed


class GroupTest(ReservedTest):
    """Tests of the resource ``group`` of a stack."""

    def set_limit(self, count):
        cfg.CONF.set_override('max_resources_per_stack', count)

    def register_core(self):
        """Let ``Test::Core`` be what the name means without the extension."""
        core = autoscaling_group.AutoScalingResourceGroup
        resources.global_env().register_class('Test::Core', core)

    def group(self, stack):
        return self.resource(stack, 'group')

    def active(self, stack):
        """Ids of the servers that count."""
        return self.group(stack).get_attribute('refs')

    def standby(self, stack):
        """Ids of the servers that do not."""
        active = self.active(stack)
        members = self.load(self.nested(stack, 'group')).resources.values()
        return [each.resource_id for each in members if each.resource_id not in active]

    def size(self, stack):
        return self.group(stack).get_attribute('current_size')

    def by_status(self, status):
        """Ids of the servers with a status."""
        return [key for key, each in self.cloud.nova.servers.items() if each['status'] == status]

    def created(self):
        """Return how many servers were created."""
        return len(self.cloud.nova.changed('create'))

    def addresses(self, servers):
        """Return the first address of each of some servers."""
        return [self.cloud.nova.addresses(each)[0] for each in servers]

    def assert_servers(self, stack, active, standby):
        """Check that the active servers run, and no other; and that all are held."""
        assert sorted(self.by_status('ACTIVE')) == sorted(self.active(stack))
        assert sorted(self.by_status('RESERVED')) == sorted(self.standby(stack))
        assert (len(self.active(stack)), len(self.standby(stack))) == (active, standby)
        assert self.size(stack) == active
        assert self.held() == set(self.cloud.nova.servers)

    def change_group(self, stack, template=GROUP, status='UPDATE_COMPLETE', **properties):
        """Update the stack with other properties of the group."""
        return self.change(stack, changed(template, 'group', **properties), status=status)

    def running(self, template=GROUP, **properties):
        """Return a stack whose lease has started."""
        return self.started(changed(template, 'group', **properties))
