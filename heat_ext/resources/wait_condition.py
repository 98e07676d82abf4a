# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::WaitCondition``: ``OS::Heat::WaitCondition`` for signals of reserved servers.

The signals are expected from the resources that refer to the handle, directly or through a
software configuration, and from the resources that the condition depends on; in both cases also
from what is nested in them. As soon as one of these is reserved and is not woken up now, the
condition completes without a signal: before the start of its lease, and also if this action has
passed the resource before the lease started. The update that wakes them up waits for the signals,
with the whole timeout.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from heat.engine.resources import stack_resource
from heat.engine.resources.openstack.heat import wait_condition

from heat_ext.members import deferred_create, reservable
from heat_ext.service import leases
from heat_ext.stacks import paths, tree


class WaitCondition(deferred_create.DeferredCreate, wait_condition.HeatWaitCondition):
    """A condition that begins to wait when its servers are started."""

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._senders: frozenset[str] | None = None
        self._all_started = False
        super().__init__(name, definition, stack)

    def must_wait(self) -> bool:
        if self._all_started:
            return False
        progress = tree.find_progress(self.context, self.stack, self.signal_senders())
        self._all_started = progress.finished and not progress.unstarted
        if not progress.unstarted:
            return False
        if progress.passed or self._is_standby():
            return True
        return not self._leases_have_started(progress.unstarted)

    def _is_standby(self) -> bool:
        standby = self.stack.env.param_defaults.get(paths.STANDBY)
        return paths.is_listed(self.stack, self.name, standby)

    def _leases_have_started(self, unstarted: Iterable[tree.Row]) -> bool:
        client, now = self.client('climate'), leases.now()
        return all(
            leases.has_started(leases.find(client, lease_id), now)
            for lease_id in {row.lease_id for row in unstarted}
        )

    def check_create_complete(self, token: Any) -> bool:
        """Return whether all signals have come.

        A server may be created after the condition, so this may be the first time that it shows
        as reserved.
        """
        if not self.is_deferred() and self.must_wait():
            self._defer()
            return True
        return super().check_create_complete(token)

    def check_update_complete(self, token: Any) -> bool:
        if self.is_deferred() and self.must_wait():
            return True
        return super().check_update_complete(token)

    def signal_senders(self) -> frozenset[str]:
        """Return the resources of this stack that send the signals and can be reserved."""
        if self._senders is None:
            handle = self._get_handle_resource()
            requires = {
                name: self.stack.defn.resource_definition(name).required_resource_names()
                for name in self.stack.defn.enabled_rsrc_names()
            }
            required_by = {
                name: {each for each in requires if name in requires[each] and each != self.name}
                for name in requires
            }
            found = _reachable(requires, requires[self.name])
            if handle is not None:
                found |= _reachable(required_by, required_by[handle.name])
            self._senders = frozenset(name for name in found if self._can_be_reserved(name))
        return self._senders

    def _can_be_reserved(self, name: str) -> bool:
        found = self.stack[name]
        if isinstance(found, reservable.Reservable):
            return found.reservation_request() is not None
        return isinstance(found, stack_resource.StackResource)


TYPES = {'OS::Climate::WaitCondition': WaitCondition}


def _reachable(edges: Mapping[str, Iterable[str]], start: Iterable[str]) -> set[str]:
    """Return the nodes that can be reached along the edges, with the start."""
    found: set[str] = set()
    todo = [name for name in start if name in edges]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(each for each in edges[name] if each in edges)
    return found
