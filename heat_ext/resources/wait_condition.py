# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::WaitCondition``: ``OS::Heat::WaitCondition`` for signals of servers that sleep.

The signals are expected from what refers to the handle, directly or by way of a software
configuration, and from what the condition depends on; of both from what is nested in it, too. As
soon as one of these sleeps and will not be woken now, the condition completes without a signal:
before the start of its lease, and also when its turn was over before the lease started. The
update that wakes them waits for the signals, with the whole timeout.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from heat.engine.resources import stack_resource
from heat.engine.resources.openstack.heat import wait_condition

from heat_ext.members import deferred, reservable
from heat_ext.service import leases
from heat_ext.stacks import paths, tree


class WaitCondition(deferred.Deferred, wait_condition.HeatWaitCondition):
    """A condition that waits from the moment on when its servers are started."""

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._senders: frozenset[str] | None = None
        self._all_awake = False
        super().__init__(name, definition, stack)

    def is_too_early(self) -> bool:
        if self._all_awake:
            return False
        turn = tree.turn_of(self.context, self.stack, self.senders())
        self._all_awake = turn.is_over and not turn.sleepers
        if not turn.sleepers:
            return False
        return bool(turn.passed) or self._is_spare() or not self._have_started(turn.sleepers)

    def _is_spare(self) -> bool:
        spares = self.stack.env.param_defaults.get(paths.SPARES)
        return paths.among(self.stack, self.name, spares)

    def _have_started(self, sleepers: Iterable[tree.Row]) -> bool:
        client, now = self.client('climate'), leases.now()
        return all(
            leases.has_started(leases.find(client, lease_id), now)
            for lease_id in {row.lease_id for row in sleepers}
        )

    def check_create_complete(self, token: Any) -> bool:
        """Look for the signals.

        A server need not be there before the condition, so that only now it may be seen that one
        sleeps.
        """
        if not self.is_deferred() and self.is_too_early():
            self._defer()
            return True
        return super().check_create_complete(token)

    def check_update_complete(self, token: Any) -> bool:
        if self.is_deferred() and self.is_too_early():
            return True
        return super().check_update_complete(token)

    def senders(self) -> frozenset[str]:
        """Names of the resources of this stack that may sleep and are to send the signals."""
        if self._senders is None:
            handle = self._get_handle_resource()
            needs = {
                name: self.stack.defn.resource_definition(name).required_resource_names()
                for name in self.stack.defn.enabled_rsrc_names()
            }
            used_by = {
                name: {each for each in needs if name in needs[each] and each != self.name}
                for name in needs
            }
            found = _reachable(needs, needs[self.name])
            if handle is not None:
                found |= _reachable(used_by, used_by[handle.name])
            self._senders = frozenset(name for name in found if self._may_sleep(name))
        return self._senders

    def _may_sleep(self, name: str) -> bool:
        found = self.stack[name]
        if isinstance(found, reservable.Reservable):
            return found.wish() is not None
        return isinstance(found, stack_resource.StackResource)


TYPES = {'OS::Climate::WaitCondition': WaitCondition}


def _reachable(edges: Mapping[str, Iterable[str]], start: Iterable[str]) -> set[str]:
    """Follow the edges, as far as they lead within the stack."""
    found: set[str] = set()
    todo = [name for name in start if name in edges]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(each for each in edges[name] if each in edges)
    return found
