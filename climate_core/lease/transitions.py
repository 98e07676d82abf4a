# SPDX-License-Identifier: Apache-2.0
"""The base of the handlers of events, outcomes, and transitions of events and leases. Pure.

A handler of :mod:`climate_core.lease.events` has two steps. :meth:`EventHandler.begin` returns the
lease during the work, :meth:`EventHandler.settle` the lease after it, from the outcomes of its
reservations. The lease may change between them: ``settle`` takes the lease as it is then.
"""

import abc
import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from climate_common import dates, resource_types
from climate_core import exceptions
from climate_core.lease import model, states
from climate_core.lease.model import Event, Lease, Reservation

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

#: Why a lease whose time has come is PENDING.
WAITS_FOR_USER: Final = 'Waiting to be started by its user.'
#: The maximum number of errors in a reason: MariaDB limits a text to 64 KiB.
_MAX_NAMED_ERRORS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A changed lease.

    :param notifications: the types of the notifications to send -> their reasons
    """

    lease: Lease
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


class Result(enum.Enum):
    """The result of a call of a plugin."""

    DONE = 'done'
    #: It is in progress, and polled again later.
    WAIT = 'wait'
    #: It failed for a transient reason.
    RETRY = 'retry'
    #: It failed permanently.
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call for one reservation, or for the whole event.

    :param seconds: the delay of the next call, for WAIT and RETRY
    :param reason: a sentence for the user, for RETRY and FAILED, and for a long WAIT
    :param progress: what the plugin stores until the next call; None leaves it as it is. DONE
        and FAILED remove it, except for the progress that DONE itself has
    :param resource_id: the id of the resource, if the call created it
    :param lacks_capacity: whether it failed because the cloud has no capacity for it now
    :param preempts_others: whether preemptible leases are preempted for it
    """

    result: Result
    seconds: float = 0.0
    reason: str | None = None
    progress: Mapping[str, Any] | None = None
    resource_id: str | None = None
    lacks_capacity: bool = False
    preempts_others: bool = False


DONE = Outcome(Result.DONE)


@dataclasses.dataclass(frozen=True, slots=True)
class EventWork:
    """The work of an event that was claimed.

    :param lease: the lease during the work
    :param reservations: the reservations to work on, in order
    :param skip_reason: why there is nothing to do; the event is completed. None: there is
    :param notifications: sent before the work, as in :class:`Change`
    """

    lease: Lease
    reservations: tuple[Reservation, ...] = ()
    skip_reason: str | None = None
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def with_progress(reservation: Reservation, outcome: Outcome) -> Reservation:
    """Return a reservation with the progress and the resource id of an outcome."""
    if outcome.result is Result.DONE:
        progress = outcome.progress
    else:
        failed = outcome.result is Result.FAILED
        progress = None if failed else outcome.progress or reservation.progress
    resource_id = outcome.resource_id or reservation.resource_id
    if reservation.is_made and not resource_id.startswith(model.UNMADE):
        # The service of the resource recorded it before the answer of that came here.
        resource_id = reservation.resource_id
    if (progress, resource_id) == (reservation.progress, reservation.resource_id):
        return reservation
    return dataclasses.replace(reservation, progress=progress, resource_id=resource_id)


def apply_outcomes(
    lease: Lease, outcomes: Mapping[str, Outcome], done: str, now: datetime
) -> Lease:
    """Return the lease after outcomes of its reservations.

    :param outcomes: by the ids of the reservations
    :param done: the status of a reservation whose outcome is DONE
    """
    return lease.with_reservations(
        *(_apply_outcome(r, outcomes[r.id], done, now) for r in lease.live if r.id in outcomes)
    )


def _apply_outcome(
    reservation: Reservation, outcome: Outcome, done: str, now: datetime
) -> Reservation:
    if done == _R.ACTIVE and reservation.status != _R.PENDING:
        # It was removed from the lease while it was started.
        return reservation
    reservation = with_progress(reservation, outcome)
    if outcome.result is Result.WAIT and outcome.reason is None:
        return reservation
    status, reason = reservation.status, outcome.reason
    frees_unstarted = done == _R.DELETED and status in (_R.PENDING, _R.ERROR)
    if outcome.result is Result.DONE:
        status = states.check_move(states.RESERVATION, status, done)
        # The reason of an incomplete or unstarted resource stays readable.
        kept = frees_unstarted or reservation.missing_resources
        reason = reservation.status_reason if kept else None
    elif outcome.result is Result.FAILED:
        status = states.check_move(states.RESERVATION, status, _R.ERROR)
    elif frees_unstarted:
        return reservation
    if (status, reason) == (reservation.status, reservation.status_reason):
        return reservation
    return dataclasses.replace(
        reservation,
        status=status,
        status_reason=reason,
        updated_at=now,
        woken_at=now if status == done == _R.ACTIVE else reservation.woken_at,
        freed_at=now if status == _R.DELETED else None,
    )


def recovered_status(lease: Lease, now: datetime) -> str:
    """Return the status of a lease some of whose resources were removed or lost.

    A lease in ERROR recovers when nothing that failed is left.
    """
    started = lease.has_started(now)
    wrong = (_R.ERROR, _R.PENDING) if started else (_R.ERROR,)
    if lease.status != _L.ERROR or any(r.status in wrong for r in lease.reservations):
        return lease.status
    return states.check_move(states.LEASE, lease.status, _L.ACTIVE if started else _L.PENDING)


def check_changeable(lease: Lease) -> None:
    """Reject changes of a lease that is being preempted, was never granted, or drains hosts.

    :raises climate_core.exceptions.InvalidState: it is such a lease
    """
    if lease.preempted_at is not None:
        time = dates.sentence(lease.preempted_at)
        raise exceptions.InvalidState(
            f'Lease {lease.id} is preempted on {time}: until then only its name can be changed.'
        )
    if lease.never_granted:
        raise exceptions.InvalidState(
            f'Lease {lease.id} was never granted: only its name can be changed. Create another '
            'lease.'
        )
    if lease.status == _L.IN_PROGRESS:
        raise exceptions.InvalidState(
            f'Hosts are being drained for lease {lease.id}: until then only its name can be '
            'changed. To request something else, end it and create another lease.'
        )


def summarize_permanent_errors(lease: Lease) -> str | None:
    """Describe the resources that cannot be started and those that were lost, if any."""
    wrong = (r for r in lease.reservations if r.status == _R.ERROR or r.missing_resources)
    return summarize_errors(wrong) or None


def summarize_errors(reservations: Iterable[Reservation]) -> str:
    """Describe the errors of resources: the first ones, and the number of the rest.

    Resources that are created together share one reason.
    """
    wrong = list({(r.group or r.id, r.status_reason): r for r in reservations}.values())
    named = [f'{_label(r)}: {r.status_reason}' for r in wrong[:_MAX_NAMED_ERRORS]]
    more = [f'and {len(wrong) - _MAX_NAMED_ERRORS} more'] if len(wrong) > _MAX_NAMED_ERRORS else []
    return '; '.join([*named, *more])


def _label(reservation: Reservation) -> str:
    """Name a reservation; what the calendar allocates has no separate id."""
    shown = resource_types.api_name(reservation.resource_type)
    if reservation.unit_kind is not None:
        return f'{shown} {reservation.id}'
    return f'{shown} {reservation.resource_id}' if reservation.is_made else shown


def user_start_reason(lease: Lease) -> str | None:
    """Return the reason of a lease that its user must start, if its start date has passed."""
    is_ready = any(e.status == _E.DONE for e in lease.events_of(model.READY))
    return WAITS_FOR_USER if is_ready and lease.status == _L.PENDING else None


def complete_event(event: Event, reason: str | None, now: datetime, status: _E = _E.DONE) -> Event:
    """Return the event as finished; ERROR is the status of a permanent failure."""
    return dataclasses.replace(
        event, status=status, status_reason=reason, next_at=None, attempts=0, updated_at=now
    )


def retry_event(event: Event, outcomes: Sequence[Outcome], now: datetime) -> Event:
    """Return the event as due again when the first of its resources is to be polled."""
    failing = [o for o in outcomes if o.result is Result.RETRY]
    # A resource that fails does not delay those in progress.
    seconds = min(o.seconds for o in outcomes)
    return dataclasses.replace(
        event,
        status=_E.UNDONE,
        status_reason=failing[0].reason if failing else None,
        attempts=event.attempts + 1 if failing else 0,
        next_at=now + timedelta(seconds=max(0.0, seconds)),
        updated_at=now,
    )


def settle_event(event: Event, outcome: Outcome, now: datetime) -> Event:
    """Return the event after the outcome of its only call."""
    if outcome.result is Result.DONE:
        return complete_event(event, None, now)
    if outcome.result is Result.FAILED:
        return complete_event(event, outcome.reason, now, _E.ERROR)
    return retry_event(event, [outcome], now)


def poll_again(
    lease: Lease,
    event: Event,
    waiting: Iterable[Reservation],
    outcomes: Mapping[str, Outcome],
    now: datetime,
) -> Lease:
    """Return a lease whose event continues with reservations, immediately with new ones."""
    todo = [outcomes.get(each.id, Outcome(Result.WAIT)) for each in waiting]
    return lease.with_events(retry_event(event, todo, now))


def cancel_event(event: Event, reason: str | None, now: datetime) -> Event:
    """Return the event as done without its work; a claim on it cannot be finished any more."""
    if not event.open:
        return event
    return dataclasses.replace(
        event,
        status=_E.DONE,
        status_reason=reason,
        generation=event.generation + 1,
        next_at=None,
        updated_at=now,
    )


def cancel_events(lease: Lease, events: Iterable[Event], reason: str, now: datetime) -> Lease:
    """Return a lease with the open ones of some events cancelled."""
    return lease.with_events(*(cancel_event(each, reason, now) for each in events))


def reschedule_event(event: Event, time: datetime, now: datetime) -> Event:
    """Return the event as due at ``time``, once more if it was done.

    An event whose time has passed is due from now on: its delay counts from this change.
    """
    return dataclasses.replace(
        event,
        status=_E.UNDONE,
        status_reason=None,
        generation=event.generation + 1,
        attempts=0,
        next_at=max(time, now),
        updated_at=now,
    )


def repeat_event(event: Event, time: datetime, now: datetime) -> Event:
    """Return the event with a new time, as due then, once more if it was done."""
    return dataclasses.replace(reschedule_event(event, time, now), time=time)


def move_event(event: Event, time: datetime, now: datetime) -> Event:
    """Move an event to a new time; it is repeated if it was done and the time is in the future."""
    if time == event.time:
        return event
    if event.open or time > now:
        event = reschedule_event(event, time, now)
    return dataclasses.replace(event, time=time)


Outcomes = Mapping[str, Outcome]

#: Stands for all types that users name.
USER_EVENT: Final = 'of_user'


class EndStage(enum.IntEnum):
    """A stage of the end of a lease; it also cancels the open events of the stages before."""

    END_BEGINS = 1
    END_REQUESTED = 2
    TERMINATED = 3
    NEVER = 4


class EventHandler(abc.ABC):
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
    users_may_add: ClassVar[bool] = False
    cancelled_by: ClassVar[EndStage] = EndStage.END_REQUESTED
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

    @abc.abstractmethod
    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        """Return the lease after the work on an event.

        :param event: the event of the lease, as it was claimed
        :param outcomes: by the ids of the reservations; by the id of the event if it works on no
            reservations
        """

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return the lease after an event without work."""
        return Change(lease.with_events(complete_event(event, reason, now)))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        """Return the name of the method of a plugin that is called for a reservation."""
        return self.plugin_methods[0]

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Return whether it is retried even after a permanent failure: it frees capacity."""
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
    return _HANDLERS.get(event_type, _HANDLERS[USER_EVENT])


def is_user_event(event_type: str) -> bool:
    """Return whether users named a type of event."""
    return get_handler(event_type).event_type == USER_EVENT


def cancel_by_stage(lease: Lease, stage: EndStage, reason: str, now: datetime) -> Lease:
    """Cancel the open events of a lease that a stage of its end cancels."""
    cancelled = (e for e in lease.events if get_handler(e.event_type).cancelled_by <= stage)
    return cancel_events(lease, cancelled, reason, now)


def terminate_lease(lease: Lease, now: datetime, reason: str | None) -> Lease:
    """Return a lease without resources as TERMINATED; hide it if it is being deleted."""
    deleting = lease.status == states.LeaseStatus.DELETING
    after = dataclasses.replace(
        lease,
        status=states.check_move(states.LEASE, lease.status, states.LeaseStatus.TERMINATED),
        status_reason=reason,
        deleted_at=now if deleting else lease.deleted_at,
    )
    after = cancel_by_stage(after, EndStage.TERMINATED, 'The lease has ended.', now)
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
