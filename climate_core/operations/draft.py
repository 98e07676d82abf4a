# SPDX-License-Identifier: Apache-2.0
"""The draft of what a request adds: a new lease, or reservations that join one."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from climate_core.lease import model, states
from climate_core.lease.request import LeaseRequest


class Item(NamedTuple):
    """A reservation that a request adds.

    :param values: the part of the request that asks for it
    :param field: where that stands, as ``reservations[2]``; empty if it is the whole request
    """

    reservation: model.Reservation
    values: Mapping[str, Any]
    field: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The reservations, or the lease with them, that a request adds.

    :param lease: the lease as it shall be; a new one has no trust yet
    :param items: what is added; without any to a lease that is there, nothing is to be written
    :param before: the lease that the items join; None: it is new
    :param found: the reservations of that lease that were asked for as well
    :param asked: what was asked for if that is a whole lease
    :param proposed: the ids of units that had what it demands when the calendar was asked
    :param waits: why it waits until there is enough for it; None: it does not
    :param emptied: the ids of the shared hosts that are to be emptied for it
    :param preempted: the ids of the leases that are to wait for it
    :param given_up_at: when those that run give up what they have; None: at its start
    :param generation: that of the lease that the user has seen; None: it does not matter
    """

    lease: model.Lease
    items: tuple[Item, ...]
    now: datetime.datetime
    before: model.Lease | None = None
    found: tuple[model.Reservation, ...] = ()
    asked: LeaseRequest | None = None
    generation: int | None = None
    proposed: frozenset[int] = frozenset()
    waits: str | None = None
    emptied: tuple[int, ...] = ()
    preempted: tuple[str, ...] = ()
    given_up_at: datetime.datetime | None = None

    @property
    def may_wait(self) -> bool:
        """Return whether it is a new lease that may wait until there is enough for it."""
        return self.before is None and self.lease.kind == states.LeaseKind.RETRY
