# SPDX-License-Identifier: Apache-2.0
"""What one look at the end of a reservation has at hand, whatever its resource is."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from climate_core.plugins.base import Wait
from climate_core.plugins.patience import Patience

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.lease.model import Lease, Reservation


@dataclasses.dataclass(frozen=True, slots=True)
class EndContext:
    """One look at the end of one reservation.

    :param conn: the rights to end it with: the owner's, or the service's if there are none
    :param service: the rights of the service
    :param reservation: with the end action that it has now, see
        :meth:`climate_core.plugins.parent_stacks.ParentStacks.at_end`
    :param patience: what was asked for in the looks before
    :param prefix: what the name of an image, a copy or a snapshot begins with
    """

    conn: 'connection.Connection'
    service: 'connection.Connection'
    lease: 'Lease'
    reservation: 'Reservation'
    patience: Patience
    prefix: str

    @property
    def as_service(self) -> bool:
        """Whether the owner's rights are no more."""
        return self.conn is self.service

    @property
    def resource_id(self) -> str:
        return self.reservation.resource_id

    @property
    def on_end(self) -> str:
        return str(self.reservation.params.get('on_end', 'delete'))

    @property
    def has_run(self) -> bool:
        """Whether it was ever noted as awake; what is taken out of its lease is active no more."""
        return self.reservation.status == 'active' or self.reservation.woken_at is not None

    @property
    def looks(self) -> int:
        return self.patience.looks(self.reservation.id)

    @property
    def failures(self) -> int:
        return self.patience.failures(self.reservation.id)

    def is_due(self, looks: int) -> bool:
        return self.patience.is_due(self.reservation.id, looks)

    def wait(self, doing: str | None = None) -> Wait:
        return self.patience.wait(self.reservation.id, doing)

    def again(self, what: str, failed: Callable[[], str]) -> Wait | None:
        return self.patience.again(self.reservation.id, what, failed)

    def ask(self, what: str, ask: Callable[[], None]) -> Wait:
        return self.patience.ask(self.reservation.id, what, ask)

    def once(self, what: str, failed: Callable[[], str], ask: Callable[[], None]) -> Wait:
        return self.patience.once(self.reservation.id, what, failed, ask)
