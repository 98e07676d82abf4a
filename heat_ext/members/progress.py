# SPDX-License-Identifier: Apache-2.0
"""Follow a resource from the request of its reservation to its start."""

import time
from typing import Any, ClassVar

from heat.common import exception
from oslo_config import cfg

from heat_ext.members import state
from heat_ext.service import conf
from heat_ext.stacks import tree


class StartProgress(state.ReservedState):
    """Waits until a resource is reserved, wakes it up and waits until it has started.

    :cvar WAKEABLE_STATUSES: :attr:`RESERVED_STATUSES`, and the statuses of a failed start that
        nova or cinder lets be requested again
    """

    WAKEABLE_STATUSES: ClassVar[frozenset[str]]
    #: Whether this action of heat has requested the wake-up.
    _wake_requested = False
    #: When it was requested for the last time, or seen for the first time that the lease
    #: service or a user had (:func:`time.monotonic`).
    _wake_requested_at: float | None = None

    def _advance(self, initial: frozenset[str]) -> bool:
        """Do the next step.

        :param initial: the statuses before the start
        :returns: whether nothing is left to do
        :raises heat.common.exception.HeatException: the reservation or the start failed
        """
        found = self._poll()
        if found is None:
            return False
        if self._is_transitional(found):
            if self._is_unanswered(found):
                self._repeat_lost_wake_up()
            return False
        status = self._status(found)
        if status not in initial:
            return self._has_started(found) and self._clear_reservation()
        if self._wake_requested or not self._is_due():
            if not self._wake_requested and status in self.RESERVED_STATUSES:
                self._on_reserved()
                return True
            raise exception.ResourceInError(
                resource_status=status, status_reason=self._failure_reason(found)
            )
        if self._sources_ready():
            self._request_wake_up()
        return False

    def _request_wake_up(self) -> None:
        try:
            self._wake_up()
        except Exception as error:
            if not self.client_plugin().is_conflict(error):
                raise
            found = self._poll()
            reserved = found and self._status(found) in self.RESERVED_STATUSES
            if reserved and not self._is_transitional(found):
                raise
            # Another request woke it up meanwhile.
        self._wake_requested = True
        self._wake_requested_at = time.monotonic()

    def _repeat_lost_wake_up(self) -> None:
        """Request a wake-up again whose message may be lost.

        Heat cannot begin another update of a resource that waits: no other service would. Nova
        and cinder reject it as long as the message may still arrive, and it is safe however
        often it is done: see nova_ext/api/wake_up.py and cinder_ext/api/wake_up.py.
        """
        if self._wake_requested_at is None:
            self._wake_requested_at = time.monotonic()
        lost_after = cfg.CONF[conf.GROUP].lost_wake_up_seconds
        if time.monotonic() - self._wake_requested_at < lost_after:
            return
        if self._is_due():
            self._request_wake_up()
        else:
            self._wake_requested_at = time.monotonic()

    def _has_started(self, found: Any) -> bool:  # noqa: ARG002
        """Return whether the start is complete, and do what heat does after a creation."""
        return super().check_create_complete(self.resource_id)

    def _clear_reservation(self) -> bool:
        self.data_delete(tree.LEASE_KEY)
        return True

    # Differ between servers and volumes.

    def _poll(self) -> Any:
        """Return the server or volume; None if the answer tells nothing."""
        raise NotImplementedError

    def _is_transitional(self, found: Any) -> bool:
        """Return whether nova or cinder is still working on it."""
        raise NotImplementedError

    def _is_unanswered(self, found: Any) -> bool:
        """Return whether nova or cinder has been asked for a start that no process has begun."""
        raise NotImplementedError

    def _failure_reason(self, found: Any) -> str:
        """Return why it could not be reserved or started."""
        raise NotImplementedError

    def _wake_up(self) -> None:
        """Request the start from nova or cinder."""
        raise NotImplementedError

    def _on_reserved(self) -> None:
        """Do what heat does after a creation, as far as a reserved resource allows it."""
        raise NotImplementedError

    def _sources_ready(self) -> bool:
        """Return whether the resources that it starts from exist."""
        raise NotImplementedError
