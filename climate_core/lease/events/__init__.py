# SPDX-License-Identifier: Apache-2.0
"""List the types of events: what each does, its priority and its notifications. Pure.

A new type of event is

- a class in a module of this package, and a row of :data:`TABLE`;
- its name in :mod:`climate_common.event_types`, which clients know;
- if it has a ``lease_call``, what is called: an item of ``LeaseOperations.lease_calls``.

``tests/unit/lease/events/test_table.py`` names the place that is missing.
"""

import operator
from typing import Final, overload

from climate_core.lease.events.base import (
    BY_USER,
    EventHandler,
    Stage,
    cancel_by_stage,
    get_handler,
    register,
    terminate_lease,
)
from climate_core.lease.events.end import EndLease, EndReservation, ExternalEnd, ReleaseTrust
from climate_core.lease.events.notices import BeforeEnd, BeforeStart, UserEvent
from climate_core.lease.events.queue import MakeRoom, PreemptLease, RetryLease
from climate_core.lease.events.reallocation import ReallocateReservation
from climate_core.lease.events.start import PrepareReservation, ReadyToStart, StartLease
from climate_core.lease.model import Event, Lease
from climate_core.lease.views import EventSummary, LeaseSummary

__all__ = ['BY_USER', 'EventHandler', 'Stage', 'cancel_by_stage', 'get_handler', 'terminate_lease']

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

#: Types that the service makes and a user cannot give.
OWN_TYPES: Final = frozenset(each.event_type for each in TABLE if not each.accepted)


def is_user_event(event_type: str) -> bool:
    """Tell whether a type of event is one that users name themselves."""
    return isinstance(get_handler(event_type), UserEvent)
