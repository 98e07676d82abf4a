# SPDX-License-Identifier: Apache-2.0
"""The table of the types of events: their work, priorities and notifications. Pure.

A new type of event is

- a class in a module of this package, and a row of :data:`TABLE`;
- its name in :mod:`climate_common.event_types`, which clients know;
- if it has a ``lease_call``, what is called: an item of ``LeaseOperations.lease_calls``.

``tests/unit/lease/events/test_table.py`` names a place that is missing.
"""

from typing import Final

from climate_core.lease.events.end import EndLease, EndReservation, ExternalEnd, ReleaseTrust
from climate_core.lease.events.preemption import PreemptLease
from climate_core.lease.events.preparation import PrepareReservation
from climate_core.lease.events.queue import MakeRoom, RetryLease
from climate_core.lease.events.start import (
    BeforeEnd,
    BeforeStart,
    ReadyToStart,
    ReallocateReservation,
    StartLease,
    UserEvent,
)
from climate_core.lease.transitions import (
    USER_EVENT,
    EndStage,
    EventHandler,
    cancel_by_stage,
    get_handler,
    is_user_event,
    register,
    terminate_lease,
)

__all__ = [
    'USER_EVENT',
    'EndStage',
    'EventHandler',
    'cancel_by_stage',
    'get_handler',
    'is_user_event',
    'terminate_lease',
]

#: In the order of the life of a lease.
TABLE: Final[tuple[EventHandler, ...]] = (
    RetryLease(),
    MakeRoom(),
    PrepareReservation(),
    BeforeStart(),
    ReadyToStart(),
    StartLease(),
    ReallocateReservation(),
    PreemptLease(),
    BeforeEnd(),
    EndReservation(),
    EndLease(),
    ExternalEnd(),
    ReleaseTrust(),
    UserEvent(),
)
register(TABLE)

#: The types that a user cannot add to a lease.
RESERVED_TYPES: Final = frozenset(each.event_type for each in TABLE if not each.users_may_add)
