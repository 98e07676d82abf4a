# SPDX-License-Identifier: Apache-2.0
"""A stack with something that waits for its servers."""

from tests.functional.heat.reserved import ReservedTest


class DeferredTest(ReservedTest):
    def data(self, stack, name):
        return self.resource(stack, name).data()
