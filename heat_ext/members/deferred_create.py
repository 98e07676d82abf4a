# SPDX-License-Identifier: Apache-2.0
"""Defer the creation of a resource that needs a running server.

``DeferredCreate`` precedes heat's own class. While a server or volume that the resource requires
is reserved, its creation completes without doing anything. The update that wakes up the server
then creates the resource, in the order of the template, and waits for it.
"""

from typing import Any

from heat_ext.members import abandon_guard
from heat_ext.stacks import tree

#: The token of a creation or an update that did nothing.
_DEFERRED = 'climate: nothing is done yet'


class DeferredCreate(abandon_guard.AbandonGuard):
    """A mixin for a heat.engine.resource.Resource."""

    def must_wait(self) -> bool:
        """Return whether a required server or volume is reserved."""
        return bool(tree.list_unstarted(self.context, filter(None, self.required_ids())))

    def required_ids(self) -> tuple[str | None, ...]:
        """Return the ids of the servers and volumes that the resource requires."""
        raise NotImplementedError

    def is_deferred(self) -> bool:
        """Return whether the creation is still to be done."""
        return tree.DEFERRED_KEY in self.data()

    def handle_create(self) -> Any:
        if self.must_wait():
            return self._defer()
        return super().handle_create()

    def _defer(self) -> str:
        self.data_set(tree.DEFERRED_KEY, 'True')
        return _DEFERRED

    def check_create_complete(self, token: Any) -> bool:
        return token == _DEFERRED or super().check_create_complete(token)

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        changed = super()._needs_update(*args, **kwargs)
        return changed or (self.is_deferred() and not self.must_wait())

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        if not self.is_deferred():
            return super().handle_update(json_snippet, tmpl_diff, prop_diff)
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        if self.must_wait():
            return _DEFERRED
        return self._create_deferred()

    def _create_deferred(self) -> Any:
        """Start the creation that was deferred, and return the token that heat checks."""
        return super().handle_create()

    def check_update_complete(self, token: Any) -> bool:
        if not self.is_deferred():
            return super().check_update_complete(token)
        if token == _DEFERRED:
            return True
        if not super().check_create_complete(token):
            return False
        self.data_delete(tree.DEFERRED_KEY)
        return True
