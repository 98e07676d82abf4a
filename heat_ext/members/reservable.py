# SPDX-License-Identifier: Apache-2.0
"""A server or volume of a stack that can be reserved.

``Reservable`` goes before heat's own class. What is not reserved is heat's own resource: the same
calls in the same order. A reserved one is complete as soon as it is asleep, and its resource data
say so until it is awake (:data:`heat_ext.stacks.tree.ASLEEP`). Every update of its stack looks at
it:

* before the start of the lease, what cannot be changed in its sleep is reserved anew and then
  freed (heat replaces it), so that a lack of room leaves all as it was;
* after the start it is woken, in the order of the template, and the update waits for it. A spare
  of a group stays asleep;
* what somebody else has woken is completed.

That it is heat that wakes the members of its stacks is what keeps their order; the lease service
only asks for an update that changes nothing.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from heat.common import exception
from heat.engine import resource

from climateclient import models
from climateclient.extension import hints
from heat_ext.members import abandoned, wishes
from heat_ext.service import leases
from heat_ext.stacks import paths, tree


class Reservable(abandoned.Abandonable):
    """A mixin for a heat.engine.resource.Resource that has scheduler hints.

    :cvar ASLEEP: the statuses of a resource that waits for its start
    :cvar WAKEABLE: these, and those in which a start that failed can be asked for again
    :cvar IN_SLEEP: the properties that can change meanwhile
    :cvar WHEN_AWAKE: those of them that nova or cinder are told of after the start
    """

    ASLEEP: ClassVar[frozenset[str]]
    WAKEABLE: ClassVar[frozenset[str]]
    IN_SLEEP: ClassVar[frozenset[str]]
    WHEN_AWAKE: ClassVar[frozenset[str]]
    HINTS: ClassVar[str] = 'scheduler_hints'

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._wish: wishes.Wish | None = None
        self._asked = False
        self._updated = False
        self._hints_may_change = False
        super().__init__(name, definition, stack)

    # What is asked for, and what is.

    def wish(self, properties: Mapping[str, Any] | None = None) -> wishes.Wish | None:
        """Read the reservation that the template or the environment asks for.

        :param properties: those of an update, else the resource's own
        :raises climateclient.extension.hints.BadHint: it makes no sense
        """
        given = (self.properties if properties is None else properties)[self.HINTS]
        return wishes.read(given, self.stack.env.param_defaults)

    def lease_id(self) -> str | None:
        """The lease that it sleeps in, as far as heat knows."""
        return self.data().get(tree.ASLEEP) if self.resource_id else None

    def is_spare(self) -> bool:
        """Whether it belongs to a member of a group that is not wanted now."""
        spares = self.stack.env.param_defaults.get(paths.SPARES)
        return paths.among(self.stack, self.name, spares)

    def asleep(self) -> bool:
        """Look whether it waits for its start; no call is made for what is not reserved."""
        found = self._look() if self.lease_id() else None
        return found is not None and self._status(found) in self.ASLEEP

    def _look(self) -> Any:
        with self.client_plugin().ignore_not_found:
            return getattr(self.client(), self.entity).get(self.resource_id)
        return None

    def _lease(self) -> models.Lease | None:
        return leases.find(self.client('climate'), self.lease_id())

    def _due(self) -> bool:
        """Whether it is to run now.

        What a stack that was adopted says of its lease its user may have written: the lease itself
        has to know the resource.
        """
        if not self.lease_id() or self.is_spare():
            return False
        lease = self._lease()
        return leases.has_started(lease, leases.now()) and leases.has(lease, self.resource_id)

    # Creation.

    def validate(self) -> Any:
        result = super().validate()
        try:
            self.wish()
        except hints.BadHint as error:
            raise exception.StackValidationFailed(message=f'{self.name}: {error}')
        return result

    def _scheduler_hints(self, scheduler_hints: Any) -> Any:
        if self._wish is not None:
            root = self.stack.root_stack_id()
            scheduler_hints = self._wish.as_hints(self.data()[tree.ASLEEP], root)
        return super()._scheduler_hints(scheduler_hints)

    def handle_create(self) -> Any:
        self._asked = False
        self._wish = self.wish()
        if self._wish is None:
            return super().handle_create()
        if self._wish.lease_id and not self._wish.alone:
            client = self.client('climate')
            leases.hold(client, self._wish.lease_id, self.stack.root_stack_id())
        self.data_set(tree.ASLEEP, self._wish.new_id())
        return self._reserve()

    def _reserve(self) -> Any:
        return super().handle_create()

    def check_create_complete(self, token: Any) -> bool:
        if not self.lease_id():
            return super().check_create_complete(token)
        return self._progress(self.ASLEEP)

    def _progress(self, before: frozenset[str]) -> bool:
        """Do the next step of a reservation and of a wake-up.

        :param before: the statuses before the start
        :returns: whether nothing is left to do
        :raises heat.common.exception.HeatException: it could not be reserved or started
        """
        found = self._fetch()
        if found is None or self._is_in_between(found):
            return False
        status = self._status(found)
        if status not in before:
            return self._is_awake(found) and self._forget()
        if self._asked or not self._due():
            if not self._asked and status in self.ASLEEP:
                self._fall_asleep()
                return True
            raise exception.ResourceInError(
                resource_status=status, status_reason=self._reason(found)
            )
        if self._sources_are_there():
            self._ask()
        return False

    def _ask(self) -> None:
        try:
            self._wake_up()
        except Exception as error:
            if not self.client_plugin().is_conflict(error):
                raise
            found = self._fetch()
            if found and self._status(found) in self.ASLEEP and not self._is_in_between(found):
                raise
            # Somebody was faster.
        self._asked = True

    def _is_awake(self, found: Any) -> bool:  # noqa: ARG002
        """Wait for the end of the start, and do what heat does after a creation."""
        return super().check_create_complete(self.resource_id)

    def _forget(self) -> bool:
        self.data_delete(tree.ASLEEP)
        return True

    # Updates.

    @property
    def always_replace_on_check_failed(self) -> bool:
        """Heat replaces what a check did not find running; what sleeps is to be woken."""
        return super().always_replace_on_check_failed and not self.asleep()

    def needs_replace(self, after_props: Any) -> bool:
        if super().needs_replace(after_props):
            return True
        if not self.lease_id():
            return False
        wish, found = self.wish(after_props), self._look()
        if found is None:
            return self._can_be_had_again(wish)
        return self._status(found) in self.ASLEEP and self._moves(wish)

    def _can_be_had_again(self, wish: wishes.Wish | None) -> bool:
        """Whether what was deleted in its sleep is made again.

        At its end a lease takes away what was never woken, and there is nothing to do about it.
        """
        if wish is None:
            return True
        lease_id = wish.lease_id or self.lease_id()
        return leases.is_joinable(leases.find(self.client('climate'), lease_id))

    def _moves(self, wish: wishes.Wish | None) -> bool:
        if wish is None:
            return True
        if wish.lease_id in (None, self.lease_id()) or self._is_foreseen(wish):
            return False
        if leases.holds(self._lease(), self.stack.root_stack_id()):
            # That lease would take the whole stack away at its end.
            raise exception.Error(
                f'The stack is reserved in lease {self.lease_id()} and cannot move to lease '
                f'{wish.lease_id}: change the dates of its lease, or create a new stack.'
            )
        return True

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        with self._failing():
            if self._is_gone_by_an_update():
                raise resource.UpdateReplace(self)
            return super()._needs_update(*args, **kwargs) or self._is_to_wake()

    def _is_gone_by_an_update(self) -> bool:
        """Whether an update that is rolled back had taken it out.

        Heat takes it for made again by that alone (heat.engine.resource.Resource.__init__).
        """
        never_made = self.resource_id is None and self.action == self.ROLLBACK
        return never_made and self.wish() is not None

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Say whose failure it is; heat takes what is raised here for one of its own."""
        try:
            yield
        except (resource.UpdateReplace, exception.ResourceFailure):
            raise
        except Exception as error:
            if not self.lease_id():
                raise
            if self._is_preview():
                # It goes over heat's bus, which does not take resources.
                raise exception.StackValidationFailed(message=f'{self.name}: {error}') from error
            raise exception.ResourceFailure(error, self, self.UPDATE) from error

    def _is_preview(self) -> bool:
        """Whether heat only wants to know what an update would do."""
        return self._calling_engine_id is None

    def _is_foreseen(self, wish: wishes.Wish | None) -> bool:
        """Whether a preview names a lease of the template, of which it does not know the id."""
        if wish is None or wish.lease_id is None or wishes.is_id(wish.lease_id):
            return False
        return self._is_preview()

    def _is_to_wake(self) -> bool:
        found = self._look() if self.lease_id() else None
        return found is not None and (self._status(found) not in self.WAKEABLE or self._due())

    def update_template_diff_properties(self, after_props: Any, before_props: Any) -> Any:
        self._hints_may_change = self._has_outgrown(after_props, before_props)
        return super().update_template_diff_properties(after_props, before_props)

    def calc_update_allowed(self, props: Any) -> set[str]:
        allowed = super().calc_update_allowed(props)
        return allowed | {self.HINTS} if self._hints_may_change else allowed

    def _has_outgrown(self, after_props: Any, before_props: Any) -> bool:
        """Whether only the lease of what was reserved is written differently.

        Heat would replace it: a running server, because its lease is over and taken out of the
        template. What still sleeps is replaced, see :meth:`needs_replace_with_prop_diff`.
        """
        before, after = (dict(each[self.HINTS] or {}) for each in (before_props, after_props))
        if before == after or not hints.mentioned(before) or not self.resource_id:
            return False
        if _others(before) != _others(after):
            return False
        return hints.wants_reservation(before)

    def needs_replace_with_prop_diff(
        self, changed_properties_set: set[str], after_props: Any, before_props: Any
    ) -> bool:
        changed = changed_properties_set - self._changeable(after_props)
        if self._is_foreseen(self.wish(after_props)):
            changed = changed - {self.HINTS}
        if changed and self.asleep():
            return True
        return super().needs_replace_with_prop_diff(
            changed_properties_set, after_props, before_props
        )

    def _changeable(self, after_props: Any) -> frozenset[str]:  # noqa: ARG002
        return self.IN_SLEEP

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        self._asked = self._updated = False
        wakes = self._is_to_wake()
        if self.asleep():
            prop_diff = {key: prop_diff[key] for key in prop_diff if key not in self.WHEN_AWAKE}
            # What heat does after a creation is done with these when it is awake.
            self.properties = json_snippet.properties(self.properties_schema, self.context)
        return wakes, super().handle_update(json_snippet, tmpl_diff, prop_diff)

    def check_update_complete(self, progress: Any) -> bool:
        wakes, token = progress
        if not self._updated:
            self._updated = super().check_update_complete(token)
        if not self._updated:
            return False
        return not wakes or self._progress(self.WAKEABLE)

    # The other actions leave alone what sleeps.

    def handle_check(self) -> None:
        if self.asleep() and self._may_sleep():
            return
        super().handle_check()

    def _may_sleep(self) -> bool:
        lease = self._lease()
        if not leases.is_joinable(lease):
            return False
        return self.is_spare() or not leases.has_started(lease, leases.now())

    def handle_snapshot(self) -> Any:
        return None if self.asleep() else super().handle_snapshot()

    def check_snapshot_complete(self, token: Any) -> bool:
        return token is None or super().check_snapshot_complete(token)

    def handle_snapshot_delete(self, state: Any) -> Any:
        if self.asleep():
            return self.handle_delete()
        return super().handle_snapshot_delete(state)


def _others(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in hints.NAMES}
