# SPDX-License-Identifier: Apache-2.0
"""Keep the resources of an abandoned stack, even if one of them is just being woken up.

Heat waits at most 15 seconds for the workers of a stack before it abandons the stack. When a
slower worker ends, heat checks its resource again without the flag that the stack is abandoned
(heat.engine.check_resource.CheckResource.retrigger_check_resource), and would delete the resource
and everything that it requires.
"""

from typing import Any

#: Key in the resource data; the value is the traversal that abandons the stack.
_ABANDONED_KEY = 'climate_abandoned'


class AbandonGuard:
    """A mixin for a heat.engine.resource.Resource that a wake-up may be working on."""

    def delete_convergence(self, *args: Any, **kwargs: Any) -> None:
        """Delete or abandon the resource, as its stack does.

        Heat calls this again until it gets the lock of the resource.
        """
        traversal = self.stack.current_traversal
        if self.abandon_in_progress:
            self.data_set(_ABANDONED_KEY, traversal)
        elif self.data().get(_ABANDONED_KEY) == traversal:
            self.abandon_in_progress = True
        super().delete_convergence(*args, **kwargs)
