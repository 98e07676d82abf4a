# SPDX-License-Identifier: Apache-2.0
"""The queue: leases stay in it until ``retry_lease`` or ``make_room`` grants them. Pure.

Queued reservations keep their ids, which servers refer to.
"""

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from climate_core.lease import model, states, transitions
from climate_core.lease.events import preparation, schedule
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import (
    Change,
    EndStage,
    EventHandler,
    EventWork,
    Outcome,
    Outcomes,
    Result,
)

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
#: The notification that the lease is granted: it is PENDING.
RETRY_GRANTED: Final = 'lease.event.retry_lease'
#: The notification that the lease is not retried any more.
RETRY_FAILED: Final = 'lease.event.retry_lease.error'
#: The notification that the hosts of the lease are drained: it is PENDING.
HOSTS_DRAINED: Final = 'lease.event.make_room'
#: The notification that the hosts were not drained in time.
DRAIN_TIMED_OUT: Final = 'lease.event.make_room.error'
_RETRIES_EXHAUSTED: Final = 'Capacity was insufficient in every retry. {}'
_GRANTED: Final = 'Capacity is sufficient for the lease now.'


class UngrantedEvent(EventHandler):
    """Make one call for a lease until it is granted."""

    priority = 2
    cancelled_by = EndStage.END_BEGINS
    #: The status of a lease that is not granted.
    lease_status: ClassVar[states.LeaseStatus]
    #: The reason to skip the event of a lease in another status.
    obsolete_reason: ClassVar[str]
    #: The status of an abandoned lease, and the type of the notification.
    abandoned_status: ClassVar[states.LeaseStatus]
    abandoned_notification: ClassVar[str]

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status != self.lease_status:
            return EventWork(lease, skip_reason=self.obsolete_reason)
        return EventWork(lease)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        if lease.status != self.lease_status:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        return self.settle_outcome(lease, event, outcomes[event.id], now)

    @abc.abstractmethod
    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        """Return the lease after a call that did not grant it."""

    def abandon(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return a lease that is not retried any more; its event is in error."""
        failed = (
            dataclasses.replace(
                each, amounts={}, status=_R.ERROR, status_reason=reason, updated_at=now
            )
            for each in lease.live
            if each.status == _R.PENDING
        )
        after = lease.with_reservations(*failed).moved_to(self.abandoned_status, reason)
        if lease.retries_left is not None:
            after = dataclasses.replace(after, retries_left=0)
        if after.event(model.END) is None:
            # The lease stays readable for its duration.
            end = now + timedelta(seconds=lease.duration or 0)
            after = dataclasses.replace(after, end_date=max(end, after.end_date))
            after = after.with_events(model.new_event(lease.id, model.END, after.end_date, now))
        event = transitions.complete_event(event, reason, now, _E.ERROR)
        return Change(after.with_events(event), {self.abandoned_notification: reason})


class RetryLease(UngrantedEvent):
    event_type = model.RETRY
    due = 'every ``[queue] retry_interval``, while the lease is WAITING'
    action = 'checks capacity for it, after the leases before it in the queue'
    on_failure = 'retried; after a permanent failure, or the last retry, the lease is in error'
    notifications = {
        RETRY_GRANTED: 'there is capacity for it: it starts at its start date, or immediately',
        RETRY_FAILED: 'it had its last retry',
    }
    lease_status = states.LeaseStatus.WAITING
    obsolete_reason = 'The lease is no longer queued.'
    abandoned_status = states.LeaseStatus.ERROR
    abandoned_notification = RETRY_FAILED
    lease_call = 'retry_lease'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.RETRY:
            return Change(lease.with_events(transitions.retry_event(event, [outcome], now)))
        # A preempted lease has no limit: it is retried until its end.
        left = None if lease.retries_left is None else lease.retries_left - 1
        if outcome.result is Result.FAILED or left == -1:
            why = outcome.reason or ''
            if outcome.result is not Result.FAILED:
                why = _RETRIES_EXHAUSTED.format(why).strip()
            return self.abandon(lease, event, why, now)
        after = dataclasses.replace(lease, retries_left=left, status_reason=outcome.reason)
        due = transitions.retry_event(event, [outcome], now)
        return Change(after.with_events(dataclasses.replace(due, time=due.next_at or now)))


class MakeRoom(UngrantedEvent):
    event_type = model.MAKE_ROOM
    due = 'when a lease of the kind ``best_effort`` is created for which there is no capacity'
    action = 'migrates the servers of shared hosts to other hosts, until the hosts are drained'
    on_failure = 'retried; after ``best_effort_timeout`` the lease is ``TIMEDOUT``'
    notifications = {
        HOSTS_DRAINED: 'its hosts are drained: it starts at its start date, or immediately',
        DRAIN_TIMED_OUT: 'its hosts were not drained in time, and are returned',
    }
    lease_status = states.LeaseStatus.IN_PROGRESS
    obsolete_reason = 'The lease needs no hosts any more.'
    abandoned_status = states.LeaseStatus.TIMEDOUT
    abandoned_notification = DRAIN_TIMED_OUT
    lease_call = 'make_room'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.FAILED:
            return self.abandon(lease, event, outcome.reason or '', now)
        kept = (
            dataclasses.replace(each, progress=outcome.progress)
            for each in lease.live
            if outcome.progress is not None
        )
        after = lease.with_reservations(*kept)
        if outcome.reason:
            after = dataclasses.replace(after, status_reason=outcome.reason)
        return Change(after.with_events(transitions.retry_event(event, [outcome], now)))


def queue_lease(
    lease: Lease,
    retries: int,
    duration: timedelta | None,
    reason: str | None,
    now: datetime,
    seconds: float = 0.0,
) -> Lease:
    """Return a new lease that is queued and claims no resources.

    :param retries: the maximum number of retries
    :param duration: its duration if it is granted after its start date; None: it ends at its end
        date in any case
    :param reason: what the cloud lacks
    :param seconds: until the next retry
    """
    due = model.new_event(lease.id, model.RETRY, now + timedelta(seconds=seconds), now)
    reservations = (dataclasses.replace(each, amounts={}) for each in lease.reservations)
    after = transitions.without_grant(lease, due, duration, reservations)
    return dataclasses.replace(
        after, status=_L.WAITING, status_reason=reason, retries_left=retries
    )


def drain_hosts_for(
    lease: Lease,
    progress: Mapping[str, Any],
    duration: timedelta | None,
    reason: str | None,
    now: datetime,
) -> Lease:
    """Return a new lease for which hosts are drained.

    It claims no host yet, but its amounts count for the limits of its project, so that the limits
    bound the number of hosts that a project has drained concurrently.

    :param progress: the progress of its reservations
    :param duration: see :func:`queue_lease`
    """
    due = model.new_event(lease.id, model.MAKE_ROOM, now, now)
    reservations = (dataclasses.replace(each, progress=progress) for each in lease.reservations)
    after = transitions.without_grant(lease, due, duration, reservations)
    return dataclasses.replace(after, status=_L.IN_PROGRESS, status_reason=reason)


def allow_requeue(lease: Lease, retries: int, duration: timedelta | None) -> Lease:
    """Return a new lease that is granted, and is queued if Nova has no capacity for its servers.

    :param retries: the maximum number of retries
    :param duration: see :func:`queue_lease`
    """
    if not any(each.group for each in lease.reservations):
        return lease
    seconds = None if duration is None else round(duration.total_seconds())
    return dataclasses.replace(lease, retries_left=retries, duration=seconds)


def grant_lease(
    lease: Lease,
    amounts: Mapping[str, Mapping[str, int]],
    now: datetime,
    before_start: Iterable[int] = (),
) -> Change:
    """Return a queued lease as granted.

    :param amounts: the amounts that its reservations claim from now on, by their ids
    :param before_start: the seconds before the start of the notices that every lease has
    """
    start, end = granted_period(lease, now)
    held = (
        dataclasses.replace(
            each,
            amounts=amounts.get(each.id, {}),
            # The progress of a drain is of no use any more; that of shelved servers is.
            progress=None if lease.status == _L.IN_PROGRESS else each.progress,
            updated_at=now,
        )
        for each in pending_reservations(lease)
    )
    after = schedule.shift_period(
        lease.with_reservations(*held).moved_to(_L.PENDING, None), start, end, now
    )
    if not any(each.group for each in pending_reservations(after)):
        # Only a lease whose servers are still to be created may be queued again.
        after = dataclasses.replace(after, retries_left=None, duration=None)
    after = transitions.cancel_events(after, _next_retries(after), _GRANTED, now)
    first = schedule.first_events(after, (), now, before_start)
    after = after.with_events(
        *(e for e in first if transitions.get_handler(e.event_type).follows_grant)
    )
    if after.event(model.END) is None:
        after = after.with_events(model.new_event(lease.id, model.END, end, now))
    # A resource that exists was shelved; the start unshelves it.
    preparing = dict.fromkeys(each.id for each in pending_reservations(after) if each.is_uncreated)
    after = preparation.add_preparations(after, preparing, now)
    drained = lease.status == _L.IN_PROGRESS
    return Change(after, {HOSTS_DRAINED if drained else RETRY_GRANTED: None})


def granted_period(lease: Lease, now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end of a queued lease if it is granted now."""
    start = max(lease.start_date, now)
    if lease.duration is None:
        return start, lease.end_date
    return start, max(lease.end_date, start + timedelta(seconds=lease.duration))


def pending_reservations(lease: Lease) -> tuple[Reservation, ...]:
    """Return the reservations of a queued lease that are not being removed from it."""
    return tuple(each for each in lease.live if each.status == _R.PENDING)


def retry_now(lease: Lease, now: datetime) -> Lease:
    """Return a queued lease that its user changed, with a retry that is due now.

    It has an ``end_lease`` event unless its end date depends on the grant.
    """
    ends = lease.events_of(model.END)
    if lease.duration is not None:
        kept = tuple(each for each in lease.events if each not in ends)
        lease = dataclasses.replace(lease, events=kept)
    elif not ends:
        lease = lease.with_events(model.new_event(lease.id, model.END, lease.end_date, now))
    due = (transitions.repeat_event(event, now, now) for event in _next_retries(lease))
    return lease.with_events(*due)


def _next_retries(lease: Lease) -> Iterable[Event]:
    """Return the next retries of a queued lease."""
    return (e for e in lease.events_of(model.RETRY) if e.status == _E.UNDONE)


def is_freeing(lease: Lease) -> bool:
    """Return whether a queued lease still frees what was created for it before."""
    return any(each.status == _R.ERROR for each in lease.live)
