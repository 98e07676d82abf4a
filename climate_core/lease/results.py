# SPDX-License-Identifier: Apache-2.0
"""Describe the work of an event, its outcome, and what a lease becomes. Pure."""

import dataclasses
import datetime
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from climate_core.lease import model, states

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus

#: Why a lease whose time has come is PENDING.
WAITS_FOR_USER: Final = 'Waiting to be started by its user.'
#: Errors of so many resources are named: MariaDB has 64 KiB for a text.
_NAMED = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Describe what a lease becomes, and which notifications are sent.

    :param notifications: type of the notification -> reason, None where there is none
    """

    lease: model.Lease
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


class Result(enum.Enum):
    DONE = 'done'
    WAIT = 'wait'
    RETRY = 'retry'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Describe what became of one reservation, or of the whole event.

    :param seconds: when to look again, for WAIT and RETRY
    :param reason: a sentence for the user, for RETRY and FAILED; for WAIT if that takes long
    :param progress: what the plugin keeps until the next look; None leaves it as it is. It is
        forgotten when nothing is left to do
    """

    result: Result
    seconds: float = 0.0
    reason: str | None = None
    progress: Mapping[str, Any] | None = None


DONE = Outcome(Result.DONE)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Describe what is to be done for an event.

    :param lease: the lease while it is done
    :param reservations: those to work on, in order
    :param skip_reason: why nothing is to be done, if so; the event is completed
    :param notifications: what is told before it is done, as in :class:`Change`
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()
    skip_reason: str | None = None
    notifications: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def with_progress(reservation: model.Reservation, outcome: Outcome) -> model.Reservation:
    """Return a reservation with what its plugin keeps until the next look."""
    over = outcome.result in (Result.DONE, Result.FAILED)
    progress = None if over else outcome.progress or reservation.progress
    if progress == reservation.progress:
        return reservation
    return dataclasses.replace(reservation, progress=progress)


def reschedule(
    event: model.Event, outcomes: Sequence[Outcome], now: datetime.datetime
) -> model.Event:
    """Return the event as due again when the first of its resources is to be looked at."""
    failing = [o for o in outcomes if o.result is Result.RETRY]
    # Resources that are on their way are not kept waiting by one that fails.
    seconds = min(o.seconds for o in outcomes)
    return dataclasses.replace(
        event,
        status=_E.UNDONE,
        status_reason=failing[0].reason if failing else None,
        attempts=event.attempts + 1 if failing else 0,
        next_at=now + datetime.timedelta(seconds=max(0.0, seconds)),
        updated_at=now,
    )


def complete(
    event: model.Event,
    reason: str | None,
    now: datetime.datetime,
    status: states.EventStatus = _E.DONE,
) -> model.Event:
    """Return the event as finished.

    :param status: ERROR if it failed for good
    """
    return dataclasses.replace(
        event, status=status, status_reason=reason, next_at=None, attempts=0, updated_at=now
    )


def apply_outcomes(
    lease: model.Lease, outcomes: Mapping[str, Outcome], done: str, now: datetime.datetime
) -> model.Lease:
    """Return the lease with what became of its reservations.

    :param outcomes: reservation id -> outcome
    :param done: the status of a reservation whose outcome is DONE: ACTIVE or DELETED
    """
    return lease.with_reservations(
        *(_after(r, outcomes[r.id], done, now) for r in lease.live if r.id in outcomes)
    )


def _after(
    reservation: model.Reservation, outcome: Outcome, done: str, now: datetime.datetime
) -> model.Reservation:
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
        # Why it was not woken stays readable after it is freed.
        reason = reservation.status_reason if freeing_asleep else None
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


def recovered_status(lease: model.Lease, now: datetime.datetime) -> str:
    """Return the status of a lease that had a failure when some of its resources are gone."""
    started = lease.has_started(now)
    wrong = (_R.ERROR, _R.PENDING) if started else (_R.ERROR,)
    if lease.status != _L.ERROR or any(r.status in wrong for r in lease.reservations):
        return lease.status
    return states.check(states.LEASE, lease.status, _L.ACTIVE if started else _L.PENDING)


def permanent_errors(lease: model.Lease) -> str | None:
    """Describe the resources that cannot be woken and those that were lost, if there are any."""
    wrong = (r for r in lease.reservations if r.status == _R.ERROR or r.missing_resources)
    return summarize_errors(wrong) or None


def summarize_errors(reservations: Iterable[model.Reservation]) -> str:
    """Describe what is wrong with resources; of many, the first ones and how many more."""
    wrong = list(reservations)
    named = [f'{r.resource_type} {r.resource_id}: {r.status_reason}' for r in wrong[:_NAMED]]
    more = [f'and {len(wrong) - _NAMED} more'] if len(wrong) > _NAMED else []
    return '; '.join([*named, *more])


def waits_for_user(lease: model.Lease) -> str | None:
    """Return the reason of a lease that only its user can start, if it is one."""
    told = any(e.status == _E.DONE for e in lease.events_of(model.READY))
    return WAITS_FOR_USER if told and lease.status == _L.PENDING else None
