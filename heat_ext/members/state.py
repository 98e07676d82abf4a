# SPDX-License-Identifier: Apache-2.0
"""Read the state of a reserved resource: its request, its lease, its server or volume."""

from collections.abc import Mapping
from typing import Any, ClassVar

from climateclient import models
from heat_ext.members import abandon_guard, reservation_request
from heat_ext.service import leases
from heat_ext.stacks import paths, tree


class ReservedState(abandon_guard.AbandonGuard):
    """A mixin for a heat.engine.resource.Resource that has scheduler hints.

    :cvar RESERVED_STATUSES: the statuses of a resource that waits for the start of its lease
    :cvar HINTS: the name of the property with the scheduler hints
    """

    RESERVED_STATUSES: ClassVar[frozenset[str]]
    HINTS: ClassVar[str] = 'scheduler_hints'

    def reservation_request(
        self, properties: Mapping[str, Any] | None = None
    ) -> reservation_request.ReservationRequest | None:
        """Return the reservation that the template or the environment requests.

        :param properties: those of an update; by default the resource's own
        :raises climateclient.extension.hints.BadHint: see :func:`.reservation_request.parse`
        """
        given = (self.properties if properties is None else properties)[self.HINTS]
        return reservation_request.parse(given, self.stack.env.param_defaults)

    def lease_id(self) -> str | None:
        """Return the lease in which the resource is reserved, according to heat's database."""
        return self.data().get(tree.LEASE_KEY) if self.resource_id else None

    def is_standby(self) -> bool:
        """Return whether the resource belongs to a standby member of a group."""
        standby = self.stack.env.param_defaults.get(paths.STANDBY)
        return paths.is_listed(self.stack, self.name, standby)

    def is_reserved(self) -> bool:
        """Return whether nova or cinder shows the resource as reserved.

        An ordinary resource costs no request.
        """
        found = self._find_live() if self.lease_id() else None
        return found is not None and self._status(found) in self.RESERVED_STATUSES

    def _find_live(self) -> Any:
        """Return the server or volume; None if it is gone."""
        with self.client_plugin().ignore_not_found:
            return getattr(self.client(), self.entity).get(self.resource_id)
        return None

    def _find_lease(self) -> models.Lease | None:
        return leases.find(self.client('climate'), self.lease_id())

    def _is_due(self) -> bool:
        """Return whether the resource has to run now.

        The data of an adopted stack come from its user, so the lease itself has to hold the
        resource.
        """
        if not self.lease_id() or self.is_standby():
            return False
        lease = self._find_lease()
        started = leases.has_started(lease, leases.now())
        return started and leases.holds_resource(lease, self.resource_id)

    # Differ between servers and volumes.

    def _status(self, found: Any) -> str:
        """Return the status of a server or volume."""
        raise NotImplementedError
