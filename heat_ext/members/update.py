# SPDX-License-Identifier: Apache-2.0
"""Update a reserved resource, and wake it up once its lease has started."""

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from heat.common import exception
from heat.engine import resource

from heat_ext.members import progress, replace


class ReservedUpdate(progress.StartProgress, replace.ReservedReplace):
    """Updates what can change while the resource is reserved, and waits for its start.

    :cvar APPLIED_AFTER_START: the updatable properties that nova or cinder takes only after the
        start
    """

    APPLIED_AFTER_START: ClassVar[frozenset[str]]
    #: Whether heat's own part of this update is complete.
    _core_updated = False

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        with self._report_failure():
            if self._was_removed_by_update():
                raise resource.UpdateReplace(self)
            return super()._needs_update(*args, **kwargs) or self._needs_wake_up()

    def _was_removed_by_update(self) -> bool:
        """Return whether the update that is now rolled back removed the resource.

        Heat sets the action ROLLBACK on such a resource and takes it for created again
        (heat.engine.resource.Resource.__init__).
        """
        never_created = self.resource_id is None and self.action == self.ROLLBACK
        return never_created and self.reservation_request() is not None

    @contextlib.contextmanager
    def _report_failure(self) -> Iterator[None]:
        """Fail this resource with an error, which heat would take for an error of its own."""
        try:
            yield
        except (resource.UpdateReplace, exception.ResourceFailure):
            raise
        except Exception as error:
            if not self.lease_id():
                raise
            if self._is_preview():
                # The error crosses heat's message bus, which cannot carry a resource.
                raise exception.StackValidationFailed(message=f'{self.name}: {error}') from error
            raise exception.ResourceFailure(error, self, self.UPDATE) from error

    def _needs_wake_up(self) -> bool:
        found = self._find_live() if self.lease_id() else None
        if found is None:
            return False
        return self._status(found) not in self.WAKEABLE_STATUSES or self._is_due()

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        self._wake_requested = self._core_updated = False
        wakes = self._needs_wake_up()
        if self.is_reserved():
            prop_diff = {
                key: prop_diff[key] for key in prop_diff if key not in self.APPLIED_AFTER_START
            }
            # _has_started applies these after the start, as heat does after a creation.
            self.properties = json_snippet.properties(self.properties_schema, self.context)
        return wakes, super().handle_update(json_snippet, tmpl_diff, prop_diff)

    def check_update_complete(self, cookie: Any) -> bool:
        wakes, token = cookie
        if not self._core_updated:
            self._core_updated = super().check_update_complete(token)
        if not self._core_updated:
            return False
        return not wakes or self._advance(self.WAKEABLE_STATUSES)
