# SPDX-License-Identifier: Apache-2.0
"""The events of leases in the queue: ``retry_lease``, ``make_room`` and ``preempt_lease``. Pure.

A forecast for the common pool of hosts is only expected: other projects may be faster between the
grant of a lease and the request to Nova. A lease for whose servers Nova has no capacity is queued
again. Its reservations are in ERROR until all that was created is freed; it is not granted before.

A lease that is preempted is queued as well. The resources that it had stay among its reservations
as deleted ones, so that its usage does not change. Queued reservations keep their ids, which
servers refer to.
"""

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Final

from oslo_utils import uuidutils

from climate_common import amounts, dates
from climate_core.lease import model, states, transitions
from climate_core.lease.events import base
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome, Result

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
#: The notification that the lease has released its resources: it is WAITING.
PREEMPTED: Final = 'lease.event.preempt_lease'

_RETRIES_EXHAUSTED: Final = 'There was not enough for it as often as it was tried. {}'
_PREEMPTING_REASON: Final = 'Another lease needs what it has, which is given up.'
#: The reason of a lease that was preempted and is queued.
PREEMPTED_REASON: Final = (
    'Another lease needs what it was promised. It waits until there is enough again.'
)
#: How the reason of a reservation begins that its lease gave up; the date follows. Usage reads it
#: in rows of the release before.
GIVEN_UP_REASON: Final = 'Given up for another lease on '
#: The time until the next retry: a forecast that is wrong every time builds servers with pauses.
RETRY_PAUSE: Final = timedelta(seconds=60)
#: The retries of a lease that preempts others, if its kind has none.
PREEMPTOR_RETRIES: Final = 12


class UngrantedEvent(base.EventHandler):
    """Make one call for a lease until it is granted."""

    priority = 2
    cancelled_by = base.Stage.END_BEGINS
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

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if lease.status != self.lease_status:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        return self.settle_outcome(lease, event, outcomes[event.id], now)

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        """Return the lease after a call that did not grant it."""
        raise NotImplementedError

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
    obsolete_reason = 'The lease does not wait any more.'
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
    obsolete_reason = 'The lease needs no room any more.'
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


def without_grant(
    lease: Lease, due: Event, duration: timedelta | None, reservations: Iterable[Reservation]
) -> Lease:
    """Return a lease with one event in place of those that follow from its grant.

    :param duration: its duration from the grant on; None: it ends at its end date
    """
    kept = tuple(e for e in lease.events if not base.get_handler(e.event_type).follows_grant)
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


def can_requeue(lease: Lease, preempts_others: bool = False) -> bool:
    """Tell whether a lease may be queued again if Nova has no capacity for its servers.

    :param preempts_others: whether preemptible leases are preempted for it
    """
    created = all(each.group and each.status != _R.ACTIVE for each in lease.live)
    is_granted = lease.status in (_L.PENDING, _L.STARTING)
    if not created or not is_granted or lease.preemptible:
        return False
    if lease.kind == states.LeaseKind.RETRY:
        return bool(lease.retries_left)
    return preempts_others and lease.retries_left != 0


def requeue(lease: Lease, reason: str, now: datetime) -> Lease:
    """Return a lease that is queued again, and frees what was created for it. It is a retry."""
    failed = {
        each.id: dataclasses.replace(each, status=_R.ERROR, status_reason=reason, updated_at=now)
        for each in lease.live
        if each.status == _R.PENDING
    }
    rollbacks = (
        transitions.reschedule_event(event, now, now)
        for event in lease.events_of(model.PREPARE)
        if event.reservation_id in failed
    )
    time = now + RETRY_PAUSE
    retry = lease.event(model.RETRY) or model.new_event(lease.id, model.RETRY, time, now)
    due = transitions.repeat_event(retry, time, now)
    duration = None if lease.duration is None else timedelta(seconds=lease.duration)
    reservations = (failed.get(each.id, each) for each in lease.reservations)
    after = without_grant(lease, due, duration, reservations).moved_to(_L.WAITING, reason)
    left = PREEMPTOR_RETRIES if lease.retries_left is None else lease.retries_left
    after = dataclasses.replace(after, retries_left=left - 1)
    return after.with_events(*rollbacks)


def as_unmade(reservation: Reservation, now: datetime) -> Reservation:
    """Return a reservation whose resource was freed as one to create again."""
    return dataclasses.replace(
        reservation,
        status=states.check_move(states.RESERVATION, reservation.status, _R.PENDING),
        status_reason=None,
        resource_id=f'{model.UNMADE}{reservation.id}',
        amounts={},
        progress=None,
        updated_at=now,
    )


def is_freeing(lease: Lease) -> bool:
    """Tell whether a queued lease still frees what was created for it before."""
    return any(each.status == _R.ERROR for each in lease.live)


class PreemptLease(base.EventHandler):
    event_type = model.PREEMPT
    due = '``preemption_notice`` after another lease was allocated what the lease has'
    action = (
        'shelves the servers on its hosts, and closes the hosts, or shelves its servers; then the '
        'lease is WAITING'
    )
    on_failure = 'retried for ever'
    notifications = {PREEMPTED: 'it has released what another lease needs, and is queued'}
    priority = 1
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('preempt',)
    done_status = _R.PENDING

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status != _L.ACTIVE:
            return EventWork(lease, skip_reason='The lease has nothing to give up.')
        follows = lease.events_of(model.REALLOCATE)
        lease = transitions.cancel_events(lease, follows, _PREEMPTING_REASON, now)
        return EventWork(
            lease.moved_to(_L.ACTIVE, _PREEMPTING_REASON), _active_reservations(lease)
        )

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        left = _active_reservations(after)
        left_ids = {r.id for r in left}
        given_up = [r for r in _active_reservations(lease) if r.id not in left_ids]
        deleted = [_given_up(lease, r, now) for r in given_up]
        after = after.with_reservations(
            *(_without_resources(after.get_reservation(r.id)) for r in given_up)
        )
        reservations = (*after.reservations, *model.order_joining(after.reservations, deleted))
        after = dataclasses.replace(after, reservations=reservations)
        if left:
            errors = transitions.summarize_errors(r for r in left if r.status_reason is not None)
            after = dataclasses.replace(after, status_reason=errors or _PREEMPTING_REASON)
            return Change(transitions.poll_again(after, event, left, outcomes, now))
        after = dataclasses.replace(after, degraded=False)
        after = after.with_events(transitions.complete_event(event, None, now))
        return Change(requeue_preempted(after, now), {PREEMPTED: PREEMPTED_REASON})

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        return True


def requeue_preempted(lease: Lease, now: datetime) -> Lease:
    """Return a preempted lease as queued, until it is granted again or until its end."""
    reservations = (
        _without_resources(each) if each.status == _R.PENDING else each
        for each in lease.reservations
    )
    due = model.new_event(lease.id, model.RETRY, now + RETRY_PAUSE, now)
    after = without_grant(lease, due, None, reservations).moved_to(_L.WAITING, PREEMPTED_REASON)
    return dataclasses.replace(after, retries_left=None)


def _active_reservations(lease: Lease) -> tuple[Reservation, ...]:
    return tuple(each for each in lease.reservations if each.status == _R.ACTIVE)


def _without_resources(reservation: Reservation) -> Reservation:
    params = reservation.params
    if reservation.amounts and reservation.unit_kind is None:
        # A server that existed before its lease has no specification of its amounts.
        params = {**params, model.HOLDS: dict(reservation.amounts)}
    return dataclasses.replace(
        reservation,
        params=params,
        status_reason=None,
        missing_resources=False,
        resources_changed=False,
        amounts={},
        woken_at=None,
    )


def _given_up(lease: Lease, reservation: Reservation, now: datetime) -> Reservation:
    """Return a deleted reservation of what a reservation had until now."""
    new_id = uuidutils.generate_uuid()
    is_allocated = reservation.unit_kind is not None
    held = dict(reservation.amounts)
    if amounts.HOSTS in held:
        held[amounts.HOSTS] = sum(each.pieces for each in reservation.allocations)
    return dataclasses.replace(
        reservation,
        id=new_id,
        resource_id=new_id if is_allocated else reservation.resource_id,
        status=_R.DELETED,
        status_reason=f'{GIVEN_UP_REASON}{dates.sentence(now)}.',
        given_up=True,
        amounts=held,
        progress=None,
        created_at=_held_since(lease, reservation),
        updated_at=now,
        freed_at=now,
        allocations=(),
        released=(),
    )


def _held_since(lease: Lease, reservation: Reservation) -> datetime:
    """Return since when a reservation had its resources.

    A server of an immediate lease holds its host from its reservation on, until it is preempted.
    """
    again = any(was_preempted(event) for event in lease.events_of(model.PREEMPT))
    held = reservation.unit_kind is None and lease.kind == states.LeaseKind.IMMEDIATE
    if held and not again:
        return reservation.created_at
    return max(reservation.created_at, lease.start_date)


def was_preempted(event: Event) -> bool:
    """Tell whether an event has preempted its lease."""
    return event.status == _E.DONE and event.status_reason is None
