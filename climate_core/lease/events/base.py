# SPDX-License-Identifier: Apache-2.0
"""Define what a type of event has, and find the handler of a type. Pure.

An event is handled in two moves. :meth:`EventHandler.begin` says what the lease is while the work
is done, :meth:`EventHandler.settle` what it is afterwards, from what became of each reservation.
Between the two the world may have changed: ``settle`` is given the lease as it is then.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

from climate_core.lease import states, transitions
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome

Outcomes = Mapping[str, Outcome]

#: Stands for all types that users name themselves.
BY_USER: Final = 'of_user'


class Stage(enum.IntEnum):
    """Stage of the end of a lease; it cancels the open events of the stages before, too."""

    END_BEGINS = 1
    END_REQUESTED = 2
    TERMINATED = 3
    NEVER = 4


class EventHandler:
    """Handle one type of event.

    The attributes that are texts are shown in the documents.
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
    #: Order among events that are due at the same time, lowest first: what only notifies, then
    #: what frees, then what takes, then what cleans up.
    priority: ClassVar[int] = 0
    #: Whether users never see it.
    hidden: ClassVar[bool] = False
    #: Whether a user may give it with a new lease.
    accepted: ClassVar[bool] = False
    cancelled_by: ClassVar[Stage] = Stage.END_REQUESTED
    #: Whether a lease has it only from when it is granted, because it follows from the start.
    follows_grant: ClassVar[bool] = False

    #: The methods of a resource plugin of which it calls one for each reservation.
    plugin_methods: ClassVar[tuple[str, ...]] = ()
    #: What is called instead, once for the lease: an item of ``LeaseOperations.lease_calls``.
    lease_call: ClassVar[str | None] = None
    #: The service that this asks; what plugins call depends on the types of the resources.
    service: ClassVar[str | None] = None
    #: The status of a reservation that is done.
    done_status: ClassVar[states.ReservationStatus] = states.ReservationStatus.DELETED
    #: Whether it is done once its resources are awake, whoever sees that.
    done_when_active: ClassVar[bool] = False
    #: Whether it takes resources of the lowest rank first, not of the highest.
    ascending: ClassVar[bool] = False
    #: Whether it is given up shortly before the end of the lease.
    until_end: ClassVar[bool] = False
    #: Whether a bug in a plugin is a permanent failure. If not, the call is retried: a plugin
    #: that is repaired does it.
    bug_is_permanent: ClassVar[bool] = False

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        """Return the work of an event that was claimed."""
        return EventWork(lease)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        """Return what a lease is after the work on an event.

        :param event: the event as it was claimed, one of the lease's
        :param outcomes: reservation id -> what became of it; for an event without reservations
            the event's own id
        """
        raise NotImplementedError

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return what a lease is after an event of which there is nothing to do."""
        return Change(lease.with_events(transitions.complete_event(event, reason, now)))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        """Return the name of the method of a plugin that is called for a reservation."""
        return self.plugin_methods[0]

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Tell whether it is retried after a permanent failure, too, because it frees capacity."""
        return False

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        """Return the event of a lease whose dates or start policy were changed."""
        return event

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Return a lease that was just terminated, with its event of this type if it needs one."""
        return lease

    def payload(self, lease: Lease, now: datetime) -> Mapping[str, Any]:
        """Return what its notification has beside the lease."""
        return {}


_HANDLERS: dict[str, EventHandler] = {}


def register(handlers: Iterable[EventHandler]) -> None:
    """Add handlers to those that are found by their type."""
    _HANDLERS.update({handler.event_type: handler for handler in handlers})


def get_handler(event_type: str) -> EventHandler:
    """Return the handler of a type; one without a handler of its own was named by a user."""
    return _HANDLERS.get(event_type, _HANDLERS[BY_USER])


def cancel_by_stage(lease: Lease, stage: Stage, reason: str, now: datetime) -> Lease:
    """Cancel the open events of a lease that have no place after a stage of its end."""
    cancelled = (e for e in lease.events if get_handler(e.event_type).cancelled_by <= stage)
    return transitions.cancel_events(lease, cancelled, reason, now)


def terminate_lease(lease: Lease, now: datetime, reason: str | None) -> Lease:
    """Return a lease that holds nothing as TERMINATED; hide it if it is being deleted."""
    deleting = lease.status == states.LeaseStatus.DELETING
    after = dataclasses.replace(
        lease,
        status=states.check(states.LEASE, lease.status, states.LeaseStatus.TERMINATED),
        status_reason=reason,
        deleted_at=now if deleting else lease.deleted_at,
    )
    after = cancel_by_stage(after, Stage.TERMINATED, 'The lease is over.', now)
    for handler in _HANDLERS.values():
        after = handler.after_termination(after, now)
    return after
