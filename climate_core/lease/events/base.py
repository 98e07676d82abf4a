# SPDX-License-Identifier: Apache-2.0
"""The base of the handlers of events, and their register. Pure.

A handler has two steps. :meth:`EventHandler.begin` returns the lease during the work,
:meth:`EventHandler.settle` the lease after it, from the outcomes of its reservations. The lease
may change between them: ``settle`` takes the lease as it is then.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from climate_core.lease import model, states, transitions
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome

Outcomes = Mapping[str, Outcome]

#: Stands for all types that users name.
BY_USER: Final = 'of_user'


class Stage(enum.IntEnum):
    """A stage of the end of a lease; it also cancels the open events of the stages before."""

    END_BEGINS = 1
    END_REQUESTED = 2
    TERMINATED = 3
    NEVER = 4


class EventHandler:
    """Handle one type of event.

    The documentation shows the attributes that are texts.
    """

    event_type: ClassVar[str]
    #: When the event is due.
    due: ClassVar[str]
    #: What it does.
    action: ClassVar[str]
    #: What follows from a failure of its calls; empty if it makes none.
    on_failure: ClassVar[str] = ''
    #: Type of a notification -> when it is sent.
    notifications: ClassVar[Mapping[str, str]] = {}
    #: Order of events that are due at the same time, lowest first: notices, events that free
    #: resources, events that claim resources, cleanup.
    priority: ClassVar[int] = 0
    #: Whether users cannot see it.
    hidden: ClassVar[bool] = False
    #: Whether a user may add it to a new lease.
    accepted: ClassVar[bool] = False
    cancelled_by: ClassVar[Stage] = Stage.END_REQUESTED
    #: Whether a lease has it only after its grant, because it depends on the start.
    follows_grant: ClassVar[bool] = False

    #: The methods of a resource plugin, of which it calls one per reservation.
    plugin_methods: ClassVar[tuple[str, ...]] = ()
    #: Called once for the lease instead: an item of ``LeaseOperations.lease_calls``.
    lease_call: ClassVar[str | None] = None
    #: The service that ``lease_call`` needs; plugins need those of their resources.
    service: ClassVar[str | None] = None
    #: The status of a reservation that is done.
    done_status: ClassVar[states.ReservationStatus] = states.ReservationStatus.DELETED
    #: Whether it is done once its resources are active, even if the event did not start them.
    done_when_active: ClassVar[bool] = False
    #: Whether it starts with resources of the lowest rank, not of the highest.
    ascending: ClassVar[bool] = False
    #: Whether it is abandoned shortly before the end of the lease.
    until_end: ClassVar[bool] = False
    #: Whether a bug in a plugin is a permanent failure. If not, the call is retried until the
    #: plugin is repaired.
    bug_is_permanent: ClassVar[bool] = False

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        """Return the work of a claimed event."""
        return EventWork(lease)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        """Return the lease after the work on an event.

        :param event: the event of the lease, as it was claimed
        :param outcomes: by the ids of the reservations; by the id of the event if it works on no
            reservations
        """
        raise NotImplementedError

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return the lease after an event without work."""
        return Change(lease.with_events(transitions.complete_event(event, reason, now)))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        """Return the name of the method of a plugin that is called for a reservation."""
        return self.plugin_methods[0]

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Tell whether it is retried even after a permanent failure, because it frees capacity."""
        return False

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Return a terminated lease with the event of this type that it needs, if any."""
        return lease

    def payload(self, lease: Lease, now: datetime) -> Mapping[str, Any]:
        """Return the fields of its notification beside the lease."""
        return {}


_HANDLERS: dict[str, EventHandler] = {}


def register(handlers: Iterable[EventHandler]) -> None:
    """Register handlers by their types."""
    _HANDLERS.update({handler.event_type: handler for handler in handlers})


def get_handler(event_type: str) -> EventHandler:
    """Return the handler of a type. A type without its own handler was named by a user."""
    return _HANDLERS.get(event_type, _HANDLERS[BY_USER])


def is_user_event(event_type: str) -> bool:
    """Tell whether users named a type of event."""
    return get_handler(event_type).event_type == BY_USER


def cancel_by_stage(lease: Lease, stage: Stage, reason: str, now: datetime) -> Lease:
    """Cancel the open events of a lease that a stage of its end cancels."""
    cancelled = (e for e in lease.events if get_handler(e.event_type).cancelled_by <= stage)
    return transitions.cancel_events(lease, cancelled, reason, now)


def terminate_lease(lease: Lease, now: datetime, reason: str | None) -> Lease:
    """Return a lease without resources as TERMINATED; hide it if it is being deleted."""
    deleting = lease.status == states.LeaseStatus.DELETING
    after = dataclasses.replace(
        lease,
        status=states.check_move(states.LEASE, lease.status, states.LeaseStatus.TERMINATED),
        status_reason=reason,
        deleted_at=now if deleting else lease.deleted_at,
    )
    after = cancel_by_stage(after, Stage.TERMINATED, 'The lease is over.', now)
    for handler in _HANDLERS.values():
        after = handler.after_termination(after, now)
    return after


def without_grant(
    lease: Lease, due: Event, duration: timedelta | None, reservations: Iterable[Reservation]
) -> Lease:
    """Return a lease with one event in place of those that follow from its grant.

    :param duration: its duration from the grant on; None: it ends at its end date
    """
    kept = tuple(e for e in lease.events if not get_handler(e.event_type).follows_grant)
    if duration is not None:
        # Its end depends on the grant.
        ends = lease.events_of(model.END)
        kept = tuple(each for each in kept if each not in ends)
    return dataclasses.replace(
        lease,
        duration=None if duration is None else round(duration.total_seconds()),
        reservations=tuple(reservations),
        events=(*(each for each in kept if each.id != due.id), due),
    )
