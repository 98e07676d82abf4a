# SPDX-License-Identifier: Apache-2.0
"""The table of the types of events: their work, priorities and notifications. Pure.

A new type of event is

- a class in a module of this package, and a row of :data:`TABLE`;
- its name in :mod:`climate_common.event_types`, which clients know;
- if it has a ``lease_call``, what is called: an item of ``LeaseOperations.lease_calls``.

``tests/unit/lease/events/test_table.py`` names a place that is missing.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model
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
from climate_core.lease.model import Event

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

#: The types that a user cannot add to a lease.
OWN_TYPES: Final = frozenset(each.event_type for each in TABLE if not each.accepted)


def is_user_event(event_type: str) -> bool:
    """Tell whether users named a type of event."""
    return isinstance(get_handler(event_type), UserEvent)


def first_events(
    lease_id: str,
    start: datetime,
    end: datetime,
    before_end: datetime | None,
    given: Iterable[tuple[str, datetime]],
    now: datetime,
    manual: bool = False,
    before_start: Iterable[int] = (),
) -> tuple[Event, ...]:
    """Return the events of a lease that is created or granted.

    :param before_end: when ``before_end_lease`` is due; None: never
    :param given: types and times of the events that the user adds
    :param manual: whether the user starts the lease
    :param before_start: the seconds before the start at which ``before_start_lease`` is due. A
        start that is now has no such event; notices whose time has passed share one event
    """
    wanted = [(model.READY if manual else model.START, start), (model.END, end), *given]
    if start > now:
        notices = {max(now, start - timedelta(seconds=each)) for each in before_start}
        wanted += [(model.BEFORE_START, time) for time in sorted(notices)]
    if before_end is not None:
        wanted.append((model.BEFORE_END, before_end))
    wanted.sort(key=lambda item: (item[1], get_handler(item[0]).priority))
    return tuple(model.new_event(lease_id, kind, time, now) for kind, time in wanted)
