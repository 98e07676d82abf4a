# SPDX-License-Identifier: Apache-2.0
"""Decide whether an update replaces a reserved resource."""

import collections
from collections.abc import Mapping
from typing import Any, ClassVar

from heat.common import exception
from heat.engine import function
from heat.engine.properties import Properties

from climateclient.extension import hints
from heat_ext.members import reservation_request, state
from heat_ext.service import leases


class ReservedReplace(state.ReservedState):
    """Replaces what cannot change while it is reserved, and nothing else.

    :cvar UPDATABLE: the properties that can change while the resource is reserved
    """

    UPDATABLE: ClassVar[frozenset[str]]
    #: Whether this update may change the hints of the resource in place.
    _hints_updatable = False

    @property
    def always_replace_on_check_failed(self) -> bool:
        """Wake up a reserved resource; heat replaces others that a check did not find running."""
        return super().always_replace_on_check_failed and not self.is_reserved()

    def needs_replace(self, after_props: Any) -> bool:
        if super().needs_replace(after_props):
            return True
        if not self.lease_id():
            return False
        request, found = self.reservation_request(after_props), self._find_live()
        if found is None:
            return self._can_be_recreated(request)
        return self._status(found) in self.RESERVED_STATUSES and self._changes_lease(request)

    def _can_be_recreated(self, request: reservation_request.ReservationRequest | None) -> bool:
        """Return whether to create a reserved resource again that was deleted.

        A lease that ends deletes what was never woken up; nothing can be reserved in it then.
        """
        if request is None:
            return True
        lease_id = request.lease_id or self.lease_id()
        return leases.is_joinable(leases.find(self.client('climate'), lease_id))

    def _changes_lease(self, request: reservation_request.ReservationRequest | None) -> bool:
        if request is None:
            return True
        if request.lease_id in (None, self.lease_id()) or self._names_future_lease(request):
            return False
        if leases.holds_stack(self._find_lease(), self.stack.root_stack_id()):
            # The old lease would delete the whole stack at its end.
            raise exception.Error(
                f'The stack is reserved in lease {self.lease_id()} and cannot move to lease '
                f'{request.lease_id}: change the dates of its lease, or create a new stack.'
            )
        return True

    def _names_future_lease(self, request: reservation_request.ReservationRequest | None) -> bool:
        """Return whether a preview names a lease of the template that has no id yet."""
        if request is None or request.lease_id is None:
            return False
        return not reservation_request.is_lease_id(request.lease_id) and self._is_preview()

    def _is_preview(self) -> bool:
        """Return whether heat only asks what an update would change."""
        return self._calling_engine_id is None

    def update_template_diff_properties(self, after_props: Any, before_props: Any) -> Any:
        self._hints_updatable = self._only_lease_hints_differ(after_props, before_props)
        if self.lease_id():
            before_props = _looked_up_alike(before_props, after_props)
        return super().update_template_diff_properties(after_props, before_props)

    def calc_update_allowed(self, props: Any) -> set[str]:
        allowed = super().calc_update_allowed(props)
        return allowed | {self.HINTS} if self._hints_updatable else allowed

    def _only_lease_hints_differ(self, after_props: Any, before_props: Any) -> bool:
        """Return whether only the lease hints of a reserved or woken resource differ.

        Heat would replace a running server because its lease is over and was taken out of the
        template. :meth:`needs_replace_with_prop_diff` replaces what is still reserved.
        """
        before, after = (dict(each[self.HINTS] or {}) for each in (before_props, after_props))
        if before == after or not hints.mentioned(before) or not self.resource_id:
            return False
        if _other_hints(before) != _other_hints(after):
            return False
        return hints.wants_reservation(before)

    def needs_replace_with_prop_diff(
        self, changed_properties_set: set[str], after_props: Any, before_props: Any
    ) -> bool:
        changed = changed_properties_set - self._updatable(after_props)
        if self._names_future_lease(self.reservation_request(after_props)):
            changed = changed - {self.HINTS}
        if changed and self.is_reserved():
            return True
        return super().needs_replace_with_prop_diff(
            changed_properties_set, after_props, before_props
        )

    def _updatable(self, after_props: Mapping[str, Any]) -> frozenset[str]:  # noqa: ARG002
        """Return the properties that this update can change while the resource is reserved."""
        return self.UPDATABLE


def _looked_up_alike(before: Properties, after: Properties) -> Mapping[str, Any]:
    """Return the properties before an update, with the new values of those with the same text.

    Heat looks up the id that a name of a flavor, an image or a network stands for. When that
    fails it takes the name for the value before the update (heat.engine.translation), so an
    outage looks like a change, for which a reserved resource would be replaced.
    """
    same = {
        key: after[key]
        for key in before.data.keys() & after.data.keys() & after.props.keys()
        if function.resolve(before.data[key]) == function.resolve(after.data[key])
    }
    return collections.ChainMap(same, before)


def _other_hints(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in hints.NAMES}
