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
    cancel_events,
    of,
    register,
    terminate,
)
from climate_core.lease.events.cleanup import ExternalEnd, ReleaseTrust
from climate_core.lease.events.end import EndLease, EndReservation
from climate_core.lease.events.notices import BeforeEnd, BeforeStart, UserEvent
from climate_core.lease.events.preempt import PreemptLease
from climate_core.lease.events.prepare import PrepareReservation
from climate_core.lease.events.reallocate import ReallocateReservation
from climate_core.lease.events.retry import RetryLease
from climate_core.lease.events.room import MakeRoom
from climate_core.lease.events.start import ReadyToStart, StartLease
from climate_core.lease.listed import ListedEvent, ListedLease
from climate_core.lease.model import Event, Lease

__all__ = ['BY_USER', 'EventHandler', 'Stage', 'cancel_events', 'of', 'terminate']

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

_IN_ORDER: Final = operator.attrgetter('time', 'id')
#: Types that the service makes and a user cannot give.
OWN_TYPES: Final = frozenset(each.event_type for each in TABLE if not each.accepted)


@overload
def visible(lease: Lease) -> tuple[Event, ...]: ...
@overload
def visible(lease: ListedLease) -> tuple[ListedEvent, ...]: ...
def visible(lease: Lease | ListedLease) -> tuple[Event | ListedEvent, ...]:
    """Return the events of a lease that users may see, by their times."""
    seen = (each for each in lease.events if not of(each.event_type).hidden)
    return tuple(sorted(seen, key=_IN_ORDER))


def named_by_user(event_type: str) -> bool:
    """Tell whether a type of event is one that users name themselves."""
    return isinstance(of(event_type), UserEvent)
