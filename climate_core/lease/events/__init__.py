# SPDX-License-Identifier: Apache-2.0
"""List the types of events: what each does, its priority and its notifications. Pure.

A new type of event is a module of this package and a row here.
"""

from typing import Final

from climate_core.lease import model
from climate_core.lease.events import registry
from climate_core.lease.events.base import BY_USER, EventHandler, Stage
from climate_core.lease.events.before_end import BeforeEnd
from climate_core.lease.events.before_start import BeforeStart
from climate_core.lease.events.end import EndLease
from climate_core.lease.events.end_reservation import EndReservation
from climate_core.lease.events.external_end import ExternalEnd
from climate_core.lease.events.prepare import PrepareReservation
from climate_core.lease.events.ready import ReadyToStart
from climate_core.lease.events.registry import cancel_events, of, terminate
from climate_core.lease.events.release_trust import ReleaseTrust
from climate_core.lease.events.start import StartLease
from climate_core.lease.events.user import UserEvent

__all__ = ['BY_USER', 'EventHandler', 'Stage', 'cancel_events', 'of', 'terminate']

#: In the order of the life of a lease.
TABLE: Final[tuple[EventHandler, ...]] = (
    PrepareReservation(),
    BeforeStart(),
    ReadyToStart(),
    StartLease(),
    BeforeEnd(),
    EndReservation(),
    EndLease(),
    ExternalEnd(),
    ReleaseTrust(),
    UserEvent(),
)
registry.register(TABLE)

#: Types that the service makes and a user cannot give.
OWN_TYPES: Final = frozenset(each.event_type for each in TABLE if not each.accepted)


def shown(lease: model.Lease) -> tuple[model.Event, ...]:
    """Return the events of a lease that users may see."""
    return tuple(each for each in lease.events if not of(each.event_type).hidden)


def named_by_user(event_type: str) -> bool:
    """Tell whether a type of event is one that users name themselves."""
    return isinstance(of(event_type), UserEvent)
