# SPDX-License-Identifier: Apache-2.0
"""The events of leases in the queue: ``retry_lease``, ``make_room`` and ``preempt_lease``."""

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

_R = states.ReservationStatus
_E = states.EventStatus


class UngrantedEvent(base.EventHandler):
    """Make one call for a lease, as long as it has the status in which it is not granted."""

    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    #: The status of the lease while there is something to do.
    lease_status: ClassVar[states.LeaseStatus]
    #: The reason to skip it in another status.
    obsolete_reason: ClassVar[str]
    #: The status of a lease that is given up, and the type of the notification.
    given_up_status: ClassVar[states.LeaseStatus]
    given_up_notification: ClassVar[str]

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
        """Return what a lease is after a call that did not grant it."""
        raise NotImplementedError

    def give_up(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Return a lease that is not tried any more; the event is in error."""
        failed = (
            dataclasses.replace(
                each, amounts={}, status=_R.ERROR, status_reason=reason, updated_at=now
            )
            for each in lease.live
            if each.status == _R.PENDING
        )
        after = lease.with_reservations(*failed).moved_to(self.given_up_status, reason)
        if lease.retries_left is not None:
            after = dataclasses.replace(after, retries_left=0)
        if after.event(model.END) is None:
            # The lease stays readable for as long as it would have lasted.
            end = now + timedelta(seconds=lease.duration or 0)
            after = dataclasses.replace(after, end_date=max(end, after.end_date))
            after = after.with_events(model.new_event(lease.id, model.END, after.end_date, now))
        event = transitions.complete_event(event, reason, now, _E.ERROR)
        return Change(after.with_events(event), {self.given_up_notification: reason})


#: The notification that there is enough: the lease is PENDING.
RETRY_GRANTED: Final = 'lease.event.retry_lease'
#: The notification that it is not tried any more.
RETRY_FAILED: Final = 'lease.event.retry_lease.error'
_RETRIES_EXHAUSTED: Final = 'There was not enough for it as often as it was tried. {}'


class RetryLease(UngrantedEvent):
    event_type = model.RETRY
    due = 'each ``[queue] retry_interval``, while the lease is WAITING'
    action = 'looks whether there is enough for it, after those that wait for longer'
    on_failure = 'retried; after a permanent failure, or the last try, the lease is in error'
    notifications = {
        RETRY_GRANTED: 'there is enough for it by now: it starts at its start date, or at once',
        RETRY_FAILED: 'it was tried as often as it may be, and is not tried any more',
    }
    lease_status = states.LeaseStatus.WAITING
    obsolete_reason = 'The lease does not wait any more.'
    given_up_status = states.LeaseStatus.ERROR
    given_up_notification = RETRY_FAILED
    lease_call = 'retry_lease'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.RETRY:
            return Change(lease.with_events(transitions.retry_event(event, [outcome], now)))
        # One that is preempted is tried until its end, however late that is.
        left = None if lease.retries_left is None else lease.retries_left - 1
        if outcome.result is Result.FAILED or left == -1:
            why = outcome.reason or ''
            if outcome.result is not Result.FAILED:
                why = _RETRIES_EXHAUSTED.format(why).strip()
            return self.give_up(lease, event, why, now)
        after = dataclasses.replace(lease, retries_left=left, status_reason=outcome.reason)
        due = transitions.retry_event(event, [outcome], now)
        return Change(after.with_events(dataclasses.replace(due, time=due.next_at or now)))


#: The notification that its hosts are empty: the lease is PENDING.
HOSTS_DRAINED: Final = 'lease.event.make_room'
#: The notification that they were not empty in time.
DRAIN_TIMED_OUT: Final = 'lease.event.make_room.error'


class MakeRoom(UngrantedEvent):
    event_type = model.MAKE_ROOM
    due = 'when a lease of the kind ``best_effort`` is created for which there is not enough'
    action = 'has the servers of shared hosts moved to other hosts, until the hosts are empty'
    on_failure = 'retried; after ``best_effort_timeout`` the lease is ``TIMEDOUT``'
    notifications = {
        HOSTS_DRAINED: 'its hosts are empty by now: it starts at its start date, or at once',
        DRAIN_TIMED_OUT: 'its hosts were not empty in time, and are given back',
    }
    lease_status = states.LeaseStatus.IN_PROGRESS
    obsolete_reason = 'The lease needs no room any more.'
    given_up_status = states.LeaseStatus.TIMEDOUT
    given_up_notification = DRAIN_TIMED_OUT
    lease_call = 'make_room'
    service = 'nova'

    def settle_outcome(
        self, lease: Lease, event: Event, outcome: Outcome, now: datetime
    ) -> Change:
        if outcome.result is Result.FAILED:
            return self.give_up(lease, event, outcome.reason or '', now)
        kept = (
            dataclasses.replace(each, progress=outcome.progress)
            for each in lease.live
            if outcome.progress is not None
        )
        after = lease.with_reservations(*kept)
        if outcome.reason:
            after = dataclasses.replace(after, status_reason=outcome.reason)
        return Change(after.with_events(transitions.retry_event(event, [outcome], now)))


_L = states.LeaseStatus

#: Until the next try; a forecast that errs always makes no servers without a pause.
RETRY_PAUSE: Final = timedelta(seconds=60)
#: How often a lease is tried for which others give way, if it is not of a kind that waits.
PREEMPTOR_RETRIES: Final = 12


def without_grant(
    lease: Lease, due: Event, duration: timedelta | None, reservations: Iterable[Reservation]
) -> Lease:
    """Return a lease with one event in place of those that follow from its grant.

    :param duration: how long it lasts from when it is granted; None: until its end date
    """
    kept = tuple(e for e in lease.events if not base.get_handler(e.event_type).follows_grant)
    if duration is not None:
        # When it ends is not known before it is granted.
        ends = lease.events_of(model.END)
        kept = tuple(each for each in kept if each not in ends)
    return dataclasses.replace(
        lease,
        duration=None if duration is None else round(duration.total_seconds()),
        reservations=tuple(reservations),
        events=(*(each for each in kept if each.id != due.id), due),
    )


def can_requeue(lease: Lease, preempts_others: bool = False) -> bool:
    """Tell whether a lease may be tried again of which something finds no room.

    :param preempts_others: whether there will be room because preemptible leases give way
    """
    made = all(each.group and each.status != _R.ACTIVE for each in lease.live)
    is_granted = lease.status in (_L.PENDING, _L.STARTING)
    if not made or not is_granted or lease.preemptible:
        return False
    if lease.kind == states.LeaseKind.RETRY:
        return bool(lease.retries_left)
    return preempts_others and lease.retries_left != 0


def requeue(lease: Lease, reason: str, now: datetime) -> Lease:
    """Return a lease that waits again, and frees what was made for it; that counts as a try."""
    failed = {
        each.id: dataclasses.replace(each, status=_R.ERROR, status_reason=reason, updated_at=now)
        for each in lease.live
        if each.status == _R.PENDING
    }
    preparations = lease.events_of(model.PREPARE)
    frees = (
        transitions.reschedule_event(e, now, now)
        for e in preparations
        if e.reservation_id in failed
    )
    tries = lease.events_of(model.RETRY)[:1]
    due = next(iter(tries), model.new_event(lease.id, model.RETRY, now + RETRY_PAUSE, now))
    due = dataclasses.replace(
        transitions.reschedule_event(due, now + RETRY_PAUSE, now), time=now + RETRY_PAUSE
    )
    duration = None if lease.duration is None else timedelta(seconds=lease.duration)
    reservations = (failed.get(each.id, each) for each in lease.reservations)
    after = without_grant(lease, due, duration, reservations).moved_to(_L.WAITING, reason)
    left = PREEMPTOR_RETRIES if lease.retries_left is None else lease.retries_left
    after = dataclasses.replace(after, retries_left=left - 1)
    return after.with_events(*frees)


def as_unmade(reservation: Reservation, now: datetime) -> Reservation:
    """Return a reservation of which nothing is left as one that is to be made again."""
    return dataclasses.replace(
        reservation,
        status=states.check(states.RESERVATION, reservation.status, _R.PENDING),
        status_reason=None,
        resource_id=f'{model.UNMADE}{reservation.id}',
        amounts={},
        progress=None,
        updated_at=now,
    )


def is_freeing(lease: Lease) -> bool:
    """Tell whether a lease that waits has not freed yet what was made for it before."""
    return any(each.status == _R.ERROR for each in lease.live)


#: The notification that it has given up what it had: the lease is WAITING.
PREEMPTED: Final = 'lease.event.preempt_lease'
#: The reason of a lease that waits.
PREEMPTED_REASON: Final = (
    'Another lease needs what it was promised. It waits until there is enough again.'
)
_PREEMPTING_REASON: Final = 'Another lease needs what it has, which is given up.'
#: How the reason of what was given up begins; the date follows. Usage is told by it where the
#: release before has written it.
GIVEN_UP_REASON: Final = 'Given up for another lease on '


class PreemptLease(base.EventHandler):
    event_type = model.PREEMPT
    due = '``preemption_notice`` after another lease was promised what the lease has'
    action = (
        'shelves the servers on its hosts, and closes these, or shelves its servers; then the '
        'lease is WAITING'
    )
    on_failure = 'retried for ever'
    notifications = {PREEMPTED: 'it has given up what another lease needs, and waits for it again'}
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
        given_up = [
            each for each in _active_reservations(lease) if each.id not in {one.id for one in left}
        ]
        had = [_given_up(lease, each, now) for each in given_up]
        after = after.with_reservations(
            *(_without_resources(after.get_reservation(each.id)) for each in given_up)
        )
        joined = (*after.reservations, *model.order_joining(after.reservations, had))
        after = dataclasses.replace(after, reservations=joined)
        if left:
            told = transitions.summarize_errors(r for r in left if r.status_reason is not None)
            after = dataclasses.replace(after, status_reason=told or _PREEMPTING_REASON)
            return Change(transitions.poll_again(after, event, left, outcomes, now))
        after = dataclasses.replace(after, degraded=False)
        after = after.with_events(transitions.complete_event(event, None, now))
        return Change(requeue_preempted(after, now), {PREEMPTED: PREEMPTED_REASON})

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        return True


def requeue_preempted(lease: Lease, now: datetime) -> Lease:
    """Return a lease that waits until there is enough for it again, or until its end."""
    nothing = (
        _without_resources(each) if each.status == _R.PENDING else each
        for each in lease.reservations
    )
    due = model.new_event(lease.id, model.RETRY, now + RETRY_PAUSE, now)
    after = without_grant(lease, due, None, nothing).moved_to(_L.WAITING, PREEMPTED_REASON)
    return dataclasses.replace(after, retries_left=None)


def _active_reservations(lease: Lease) -> tuple[Reservation, ...]:
    return tuple(each for each in lease.reservations if each.status == _R.ACTIVE)


def _without_resources(reservation: Reservation) -> Reservation:
    params = reservation.params
    if reservation.amounts and reservation.unit_kind is None:
        # What was there before the lease says nothing of what it takes when it is granted again.
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
    """Return what a reservation of a lease had until now, as one that is over."""
    made = uuidutils.generate_uuid()
    promised = reservation.unit_kind is not None
    held = dict(reservation.amounts)
    if amounts.HOSTS in held:
        held[amounts.HOSTS] = sum(each.pieces for each in reservation.allocations)
    return dataclasses.replace(
        reservation,
        id=made,
        resource_id=made if promised else reservation.resource_id,
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
    """Return since when a reservation had something.

    A server that is there before its lease holds its host from then on, but not the second time.
    """
    before = any(was_preempted(each) for each in lease.events_of(model.PREEMPT))
    held = reservation.unit_kind is None and lease.kind == states.LeaseKind.IMMEDIATE
    if held and not before:
        return reservation.created_at
    return max(reservation.created_at, lease.start_date)


def was_preempted(event: Event) -> bool:
    """Tell whether an event had a lease give up what it had."""
    return event.status == states.EventStatus.DONE and event.status_reason is None
