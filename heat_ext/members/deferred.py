# SPDX-License-Identifier: Apache-2.0
"""A resource that needs a running server, in a stack whose servers sleep.

``Deferred`` goes before heat's own class. While what it needs sleeps, its creation completes
without having done anything; the first update of the stack after that (the one that wakes the
server, in the order of the template) does it and waits for it.
"""

from typing import Any

from heat_ext.members import abandoned
from heat_ext.stacks import tree

_NOTHING = 'climate: nothing is done yet'


class Deferred(abandoned.Abandonable):
    """A mixin for a heat.engine.resource.Resource."""

    def is_too_early(self) -> bool:
        """Whether what it needs is asleep."""
        return bool(tree.sleepers(self.context, filter(None, self.needed())))

    def needed(self) -> tuple[str | None, ...]:
        """Ids of the servers and volumes that it needs."""
        raise NotImplementedError

    def is_deferred(self) -> bool:
        """Whether its creation is still to be done."""
        return tree.DEFERRED in self.data()

    def handle_create(self) -> Any:
        if self.is_too_early():
            return self._defer()
        return super().handle_create()

    def _defer(self) -> str:
        self.data_set(tree.DEFERRED, 'True')
        return _NOTHING

    def check_create_complete(self, token: Any) -> bool:
        return token == _NOTHING or super().check_create_complete(token)

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        changed = super()._needs_update(*args, **kwargs)
        return changed or (self.is_deferred() and not self.is_too_early())

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        if not self.is_deferred():
            return super().handle_update(json_snippet, tmpl_diff, prop_diff)
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        if self.is_too_early():
            return _NOTHING
        return self._create()

    def _create(self) -> Any:
        """Do what was put off."""
        return super().handle_create()

    def check_update_complete(self, token: Any) -> bool:
        if not self.is_deferred():
            return super().check_update_complete(token)
        if token == _NOTHING:
            return True
        if not super().check_create_complete(token):
            return False
        self.data_delete(tree.DEFERRED)
        return True
