# SPDX-License-Identifier: Apache-2.0
"""The outcomes of the work on an event, and what becomes of the event and its lease."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from climate_common import resource_types
from climate_core.lease import model, states
from climate_core.lease.model import Event, Lease, Reservation

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

#: Why a lease whose time has come is PENDING.
WAITS_FOR_USER: Final = 'Waiting to be started by its user.'
#: Errors of so many resources are named: MariaDB has 64 KiB for a text.
_MAX_NAMED_ERRORS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Describe what a lease becomes; types of notifications are sent with their reasons."""

    lease: Lease
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


class Result(enum.Enum):
    """The result of a call of a plugin."""

    DONE = 'done'
    #: It is in progress, and looked at again later.
    WAIT = 'wait'
    #: It failed for a reason that may pass.
    RETRY = 'retry'
    #: It failed for good.
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Describe what became of one reservation, or of the whole event.

    :param seconds: when to look again, for WAIT and RETRY
    :param reason: a sentence for the user, for RETRY and FAILED; for WAIT if that takes long
    :param progress: what the plugin keeps until the next look; None leaves it as it is. When
        nothing is left to do it is forgotten, unless DONE says what is kept
    :param resource_id: the id of the resource, if it was made just now
    :param lacks_capacity: whether it failed because there is no room for it now
    :param preempts_others: whether there will be, because preemptible leases give way
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
    """Describe what is to be done for an event.

    :param lease: the lease while it is done
    :param reservations: those to work on, in order
    :param skip_reason: why nothing is to be done, if so; the event is completed
    :param notifications: what is told before it is done, as in :class:`Change`
    """

    lease: Lease
    reservations: tuple[Reservation, ...] = ()
    skip_reason: str | None = None
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def with_progress(reservation: Reservation, outcome: Outcome) -> Reservation:
    """Return a reservation with what its plugin keeps until the next look, and has made."""
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
    """Return the lease with outcomes of reservations by id; ``done`` is the status for DONE."""
    return lease.with_reservations(
        *(_apply_outcome(r, outcomes[r.id], done, now) for r in lease.live if r.id in outcomes)
    )


def _apply_outcome(
    reservation: Reservation, outcome: Outcome, done: str, now: datetime
) -> Reservation:
    if done == _R.ACTIVE and reservation.status != _R.PENDING:
        # It was taken out of the lease while it was woken.
        return reservation
    reservation = with_progress(reservation, outcome)
    if outcome.result is Result.WAIT and outcome.reason is None:
        return reservation
    status, reason = reservation.status, outcome.reason
    freeing_asleep = done == _R.DELETED and status in (_R.PENDING, _R.ERROR)
    if outcome.result is Result.DONE:
        status = states.check(states.RESERVATION, status, done)
        # Why it was not woken, or not all of it is there, stays readable.
        kept = freeing_asleep or reservation.missing_resources
        reason = reservation.status_reason if kept else None
    elif outcome.result is Result.FAILED:
        status = states.check(states.RESERVATION, status, _R.ERROR)
    elif freeing_asleep:
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
    """Return the status of a lease that had a failure when some of its resources are gone."""
    started = lease.has_started(now)
    wrong = (_R.ERROR, _R.PENDING) if started else (_R.ERROR,)
    if lease.status != _L.ERROR or any(r.status in wrong for r in lease.reservations):
        return lease.status
    return states.check(states.LEASE, lease.status, _L.ACTIVE if started else _L.PENDING)


def permanent_errors(lease: Lease) -> str | None:
    """Describe the resources that cannot be woken and those that were lost, if there are any."""
    wrong = (r for r in lease.reservations if r.status == _R.ERROR or r.missing_resources)
    return summarize_errors(wrong) or None


def summarize_errors(reservations: Iterable[Reservation]) -> str:
    """Describe what is wrong with resources; of many, the first ones and how many more.

    What is made together fails together, for one reason.
    """
    wrong = list({(r.group or r.id, r.status_reason): r for r in reservations}.values())
    named = [f'{_label(r)}: {r.status_reason}' for r in wrong[:_MAX_NAMED_ERRORS]]
    more = [f'and {len(wrong) - _MAX_NAMED_ERRORS} more'] if len(wrong) > _MAX_NAMED_ERRORS else []
    return '; '.join([*named, *more])


def _label(reservation: Reservation) -> str:
    """Name a reservation; what the calendar promises has no id of its own."""
    shown = resource_types.api_name(reservation.resource_type)
    if reservation.unit_kind is not None:
        return f'{shown} {reservation.id}'
    return f'{shown} {reservation.resource_id}' if reservation.is_made else shown


def user_start_reason(lease: Lease) -> str | None:
    """Return the reason of a lease that only its user can start, if it is one."""
    told = any(e.status == _E.DONE for e in lease.events_of(model.READY))
    return WAITS_FOR_USER if told and lease.status == _L.PENDING else None


def move_before_end(
    before: datetime, old_end: datetime, start: datetime, end: datetime
) -> datetime:
    """Return when to announce the end of a lease that moves: as long before it, but within it.

    :param before: when the old end was announced
    """
    # Durations are compared, because the time itself may lie before the first year.
    return end - max(timedelta(), min(old_end - before, end - start))


def complete_event(event: Event, reason: str | None, now: datetime, status: _E = _E.DONE) -> Event:
    """Return the event as finished; its status is ERROR if it failed for good."""
    return dataclasses.replace(
        event, status=status, status_reason=reason, next_at=None, attempts=0, updated_at=now
    )


def retry_event(event: Event, outcomes: Sequence[Outcome], now: datetime) -> Event:
    """Return the event as due again when the first of its resources is to be looked at."""
    failing = [o for o in outcomes if o.result is Result.RETRY]
    # Resources that are on their way are not kept waiting by one that fails.
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
    """Return the event as what became of its only work says."""
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
    """Return a lease whose event goes on with reservations; at once with one that is new."""
    todo = [outcomes.get(each.id, Outcome(Result.WAIT)) for each in waiting]
    return lease.with_events(retry_event(event, todo, now))


def cancel_event(event: Event, reason: str | None, now: datetime) -> Event:
    """Return the event as done without doing it; a claim on it can no longer be finished."""
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
    """Return a lease with those of its events cancelled that are open."""
    return lease.with_events(*(cancel_event(each, reason, now) for each in events))


def reschedule_event(event: Event, time: datetime, now: datetime) -> Event:
    """Return the event as due at ``time``, once more if it was done.

    It is due from now on if the time is past, so that its delay does not count from before it was
    made due.
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


def move_event(event: Event, time: datetime, now: datetime) -> Event:
    """Move an event to a new time; one that was done is done again if that is in the future."""
    if time == event.time:
        return event
    if event.open or time > now:
        event = reschedule_event(event, time, now)
    return dataclasses.replace(event, time=time)
