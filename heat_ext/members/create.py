# SPDX-License-Identifier: Apache-2.0
"""Create a resource as reserved."""

from typing import Any

from heat.common import exception

from climateclient.extension import hints
from heat_ext.members import progress, reservation_request
from heat_ext.service import leases
from heat_ext.stacks import tree


class ReservedCreate(progress.StartProgress):
    """Validates the request, sends the hints, and completes when the resource is reserved."""

    #: What the creation requests.
    _request: reservation_request.ReservationRequest | None = None

    def validate(self) -> Any:
        result = super().validate()
        try:
            self.reservation_request()
        except hints.BadHint as error:
            raise exception.StackValidationFailed(message=f'{self.name}: {error}')
        return result

    def _scheduler_hints(self, scheduler_hints: Any) -> Any:
        if self._request is not None:
            root = self.stack.root_stack_id()
            scheduler_hints = self._request.to_hints(self.data()[tree.LEASE_KEY], root)
        return super()._scheduler_hints(scheduler_hints)

    def handle_create(self) -> Any:
        self._wake_requested = False
        self._request = self.reservation_request()
        if self._request is None:
            return super().handle_create()
        if self._request.lease_id and not self._request.separate:
            client = self.client('climate')
            leases.add_stack(client, self._request.lease_id, self.stack.root_stack_id())
        self.data_set(tree.LEASE_KEY, self._request.choose_lease_id())
        return self._reserve()

    def _reserve(self) -> Any:
        """Create the resource with the hints of its reservation."""
        return super().handle_create()

    def check_create_complete(self, token: Any) -> bool:
        if not self.lease_id():
            return super().check_create_complete(token)
        return self._advance(self.RESERVED_STATUSES)
