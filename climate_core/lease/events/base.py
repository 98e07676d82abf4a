# SPDX-License-Identifier: Apache-2.0
"""Define what a type of event has. Pure.

An event is handled in two moves. :meth:`EventHandler.begin` says what the lease is while the work
is done, :meth:`EventHandler.settle` what it is afterwards, from what became of each reservation.
Between the two the world may have changed: ``settle`` is given the lease as it is then.
"""

import datetime
import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from climate_core.lease import model, results, schedule, states

Outcomes = Mapping[str, results.Outcome]

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

    #: The methods of a resource plugin of which it calls one for each reservation.
    plugin_methods: ClassVar[tuple[str, ...]] = ()
    #: The call of the engine that it makes instead, once for the lease: ``release_trust`` or
    #: ``notify_external_end``.
    lease_call: ClassVar[str | None] = None
    #: The status of a reservation that is done.
    done_status: ClassVar[states.ReservationStatus] = states.ReservationStatus.DELETED
    #: Whether it takes resources of the lowest rank first, not of the highest.
    ascending: ClassVar[bool] = False
    #: Whether it is given up shortly before the end of the lease.
    until_end: ClassVar[bool] = False
    #: Whether a bug in a plugin is a permanent failure. If not, the call is retried: a plugin
    #: that is repaired does it.
    bug_is_permanent: ClassVar[bool] = False

    def begin(
        self, lease: model.Lease, event: model.Event, now: datetime.datetime
    ) -> results.Work:
        """Return the work of an event that was claimed."""
        return results.Work(lease)

    def settle(
        self, lease: model.Lease, event: model.Event, outcomes: Outcomes, now: datetime.datetime
    ) -> results.Change:
        """Return what a lease is after the work on an event.

        :param event: the event as it was claimed, one of the lease's
        :param outcomes: reservation id -> what became of it; for an event without reservations
            the event's own id
        """
        raise NotImplementedError

    def skip(
        self, lease: model.Lease, event: model.Event, reason: str, now: datetime.datetime
    ) -> results.Change:
        """Return what a lease is after an event of which there is nothing to do."""
        return results.Change(lease.with_events(results.complete(event, reason, now)))

    def plugin_method(self, lease: model.Lease, reservation: model.Reservation) -> str:
        """Return the name of the method of a plugin that is called for a reservation."""
        return self.plugin_methods[0]

    def retries_forever(self, lease: model.Lease, event: model.Event) -> bool:
        """Tell whether it is retried after a permanent failure, too, because it frees capacity."""
        return False

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        """Return the event of a lease whose dates or start policy were changed."""
        return event

    def after_termination(self, lease: model.Lease, now: datetime.datetime) -> model.Lease:
        """Return a lease that was just terminated, with its event of this type if it needs one."""
        return lease

    def payload(self, lease: model.Lease, now: datetime.datetime) -> Mapping[str, Any]:
        """Return what its notification has beside the lease."""
        return {}


class Notice(EventHandler):
    """Handle an event that only notifies."""

    def begin(
        self, lease: model.Lease, event: model.Event, now: datetime.datetime
    ) -> results.Work:
        skip_reason = None if lease.deleted_at is None else 'The lease is deleted.'
        return results.Work(lease, skip_reason=skip_reason)

    def settle(
        self, lease: model.Lease, event: model.Event, outcomes: Outcomes, now: datetime.datetime
    ) -> results.Change:
        after = lease.with_events(results.complete(event, None, now))
        return results.Change(after, {f'lease.event.{event.event_type}': None})

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        return move_to(event, min(event.time, after.end_date), now)


class Cleanup(EventHandler):
    """Handle an event that is done after the end of the lease, without a notification."""

    on_failure = 'retried; given up after a permanent failure'
    priority = 3
    hidden = True
    cancelled_by = Stage.NEVER

    def settle(
        self, lease: model.Lease, event: model.Event, outcomes: Outcomes, now: datetime.datetime
    ) -> results.Change:
        outcome = outcomes[event.id]
        if outcome.result is results.Result.DONE:
            settled = results.complete(event, None, now)
        elif outcome.result is results.Result.FAILED:
            settled = results.complete(event, outcome.reason, now, states.EventStatus.ERROR)
        else:
            settled = results.reschedule(event, [outcome], now)
        return results.Change(lease.with_events(settled))


def move_to(event: model.Event, time: datetime.datetime, now: datetime.datetime) -> model.Event:
    """Return the event at a new time, if that is another one."""
    return event if time == event.time else schedule.move_event(event, time, now)
