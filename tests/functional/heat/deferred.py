# SPDX-License-Identifier: Apache-2.0
"""A stack with something that waits for its servers, and what its tests do meanwhile."""

from tests.functional.heat.reserved import ReservedTest


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
