# SPDX-License-Identifier: Apache-2.0
"""Change when an event is due: complete, retry, cancel, move or repeat it. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from climate_core.lease import states
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.results import Outcome, Result

_E = states.EventStatus


def before_end(before: datetime, old_end: datetime, start: datetime, end: datetime) -> datetime:
    """Return when to announce the end of a lease that moves: as long before it, but within it.

    :param before: when the old end was announced
    """
    # Durations are compared, because the time itself may lie before the first year.
    return end - max(timedelta(), min(old_end - before, end - start))


def complete(event: Event, reason: str | None, now: datetime, status: _E = _E.DONE) -> Event:
    """Return the event as finished; its status is ERROR if it failed for good."""
    return dataclasses.replace(
        event, status=status, status_reason=reason, next_at=None, attempts=0, updated_at=now
    )


def retry(event: Event, outcomes: Sequence[Outcome], now: datetime) -> Event:
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


def settle(event: Event, outcome: Outcome, now: datetime) -> Event:
    """Return the event as what became of its only work says."""
    if outcome.result is Result.DONE:
        return complete(event, None, now)
    if outcome.result is Result.FAILED:
        return complete(event, outcome.reason, now, _E.ERROR)
    return retry(event, [outcome], now)


def look_again(
    lease: Lease,
    event: Event,
    waiting: Iterable[Reservation],
    outcomes: Mapping[str, Outcome],
    now: datetime,
) -> Lease:
    """Return a lease whose event goes on with reservations; at once with one that is new."""
    todo = [outcomes.get(each.id, Outcome(Result.WAIT)) for each in waiting]
    return lease.with_events(retry(event, todo, now))


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


def reschedule(event: Event, time: datetime, now: datetime) -> Event:
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
        event = reschedule(event, time, now)
    return dataclasses.replace(event, time=time)
