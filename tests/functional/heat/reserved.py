# SPDX-License-Identifier: Apache-2.0
"""A stack in a lease, and what its tests ask about it."""

from tests.functional.heat.base import HeatTest
from tests.functional.heat.templates import PAIR, hinted, stack_level
from tests.functional.heat.users import ALICE


class ReservedTest(HeatTest):
    """Has a lease of alice, from one hour on for an hour.

    :ivar lease: its id
    """

    def setUp(self):
        super().setUp()
        self.lease = self.leases.make(ALICE)

    def reserve(self, template=PAIR, **kwargs):
        """Create a stack by hints."""
        stack = self.create(hinted(template, self.lease), **kwargs)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def reserve_all(self, template=PAIR, **kwargs):
        """Create a stack whose environment names the lease."""
        stack = self.create(template, environment=stack_level(self.lease), **kwargs)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def start(self, stack, status='UPDATE_COMPLETE'):
        """Let the lease start, and do what the lease service does then."""
        self.leases.start(self.lease)
        self.patch_stack(stack)
        self.assert_stack(stack, status)

    def ids(self, stack, *names):
        """Ids of what the resources of a stack have made."""
        return [self.resource(stack, name).resource_id for name in names]

    def wakes(self):
        """What was woken: of volumes, then of servers, each in its order."""
        cinder, nova = self.cloud.cinder.changed('os-wake_up'), self.cloud.nova.changed('wake_up')
        return cinder + nova

    def changes(self):
        """What nova and cinder were asked to do."""
        return self.cloud.cinder.changes + self.cloud.nova.changes

    def held(self):
        """Ids of what the lease holds besides the stack."""
        found = self.leases.members(self.lease)
        return {which for kind, which in found if kind != 'virtual:stack'}

    def while_waiting(self, do, until):
        """Do something once, at a look of somebody in heat who waits.

        The test fails at its end if it was not done, or went wrong.

        :param until: tells when
        """
        todo = [do]

        def meanwhile():
            self.leases.run()
            if todo and until():
                todo.pop()()

        def check():
            assert todo == []

        self.bus.meanwhile = meanwhile
        self.addCleanup(check)
