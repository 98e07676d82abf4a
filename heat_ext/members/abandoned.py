# SPDX-License-Identifier: Apache-2.0
"""What an abandoned stack leaves behind, also if it is just being woken.

Heat stops the workers of a stack before it abandons it, for 15 seconds at most. To a resource
whose worker was slower it comes back later, and has forgotten by then that this is no deletion
(heat.engine.check_resource.CheckResource.retrigger_check_resource): the resource would be
deleted, and all that it needs.
"""

from typing import Any

#: Of the resource data: the traversal of the stack that abandons it.
_ABANDONED = 'climate_abandoned'


class Abandonable:
    """A mixin for a heat.engine.resource.Resource that a wake-up may be at work with."""

    def delete_convergence(self, *args: Any, **kwargs: Any) -> None:
        """Delete or abandon it, as the stack was asked; heat calls this until it has the lock."""
        traversal = self.stack.current_traversal
        if self.abandon_in_progress:
            self.data_set(_ABANDONED, traversal)
        elif self.data().get(_ABANDONED) == traversal:
            self.abandon_in_progress = True
        super().delete_convergence(*args, **kwargs)
