# SPDX-License-Identifier: Apache-2.0
"""The end of a lease: ``end_lease`` and ``end_reservation`` do the end action of resources.

``external_end`` and ``release_trust`` follow after the end. Pure.
"""

import dataclasses
from datetime import datetime, timedelta
from typing import Final

from climate_common import dates
from climate_core.lease import model, states, transitions
from climate_core.lease.events import start
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
ENDED: Final = 'lease.event.end_lease'
#: The reason of a lease that was cancelled.
CANCELLED: Final = 'Cancelled by its user before its start.'
#: The reason of a lease that ended in the queue.
NEVER_ENOUGH: Final = 'Capacity was insufficient until its end.'
#: The reason of a lease with ``start_policy`` manual that its user never started.
NOT_STARTED: Final = 'Its user did not start it.'
#: The reason of a resource that was not started, if it has no other reason.
NEVER_AWAKE: Final = 'It did not become active before the end of the lease.'


def end_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease that ends now and frees its resources.

    A lease that is cancelled before its start keeps its dates. Its other events are cancelled. A
    lease that is ending is not changed.
    """
    if lease.status in states.ENDING:
        return Change(lease)
    has_started = now > lease.start_date and lease.status not in states.UNGRANTED
    after = _with_earlier_end(lease, min(lease.end_date, now)) if has_started else lease
    reason = 'Its user ended the lease.' if has_started else CANCELLED
    after = transitions.cancel_by_stage(after, EndStage.END_REQUESTED, reason, now)
    if not lease.live:
        ended = transitions.terminate_lease(after, now, end_reason(after))
        return Change(ended, {'lease.update': None, ENDED: None})
    ending = after.moved_to(_L.TERMINATING, end_reason(after))
    return Change(ending.with_events(end_now(ending, now)), {'lease.update': None})


def _with_earlier_end(lease: Lease, time: datetime) -> Lease:
    """Return a lease with an earlier end."""
    before_end = None if lease.before_end_date is None else min(lease.before_end_date, time)
    after = dataclasses.replace(lease, end_date=time, before_end_date=before_end)
    event = lease.event(model.END)
    return after if event is None else after.with_events(dataclasses.replace(event, time=time))


def delete_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease that is deleted, by an end that is due now if it claims resources."""
    status = lease.status if lease.status == _L.TERMINATED else _L.DELETING
    deleting = lease.moved_to(status, lease.status_reason)
    if not lease.live:
        ended = transitions.terminate_lease(deleting, now, lease.status_reason)
        return Change(dataclasses.replace(ended, deleted_at=now), {'lease.delete': None})
    if lease.status == _L.DELETING:
        return Change(lease)
    reason = 'The lease is deleted.'
    after = transitions.cancel_by_stage(deleting, EndStage.END_REQUESTED, reason, now)
    return Change(after.with_events(end_now(lease, now)))


class EndLease(EventHandler):
    event_type = model.END
    due = '``end_date``, or when the user ends or deletes the lease'
    action = 'does the end action of every resource, those of the highest rank first'
    on_failure = 'retried without limit'
    notifications = {
        ENDED: 'its end is done: everything is freed, or was lost before',
        'lease.update': 'servers on its hosts have a grace period, or are migrated',
    }
    priority = 1
    cancelled_by = EndStage.TERMINATED
    plugin_methods = ('end',)

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status == _L.TERMINATED:
            return EventWork(lease, skip_reason='The lease has ended.')
        before = lease
        never_started = any(e.open for e in lease.events_of(model.START))
        start_failed = never_started and lease.status not in states.ENDING
        if lease.status in (_L.PENDING, _L.STARTING) and end_reason(lease) != CANCELLED:
            lease = _with_never_awake(lease, now)
        # A lease whose end is retried keeps its reason.
        if lease.status not in states.ENDING:
            lease = lease.moved_to(_L.TERMINATING, end_reason(lease))
        # A resource that was being removed from the lease is freed with the rest.
        reason = 'The lease ended first.'
        after = transitions.cancel_by_stage(lease, EndStage.END_BEGINS, reason, now)
        if start_failed:
            notifications: dict[str, str | None] = {start.START_FAILED: start.TOO_LATE}
        else:
            notifications = _grace_notifications(before, now)
        return EventWork(after, lease.live, notifications=notifications)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        if after.live:
            after = dataclasses.replace(after, status_reason=_freeing_reason(after, outcomes))
            return Change(transitions.poll_again(after, event, after.live, outcomes, now))
        after = after.with_events(transitions.complete_event(event, None, now))
        notifications: dict[str, str | None] = {ENDED: None}
        if lease.status == _L.DELETING:
            notifications['lease.delete'] = None
        return Change(transitions.terminate_lease(after, now, end_reason(after)), notifications)

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        return True


class EndReservation(EventHandler):
    event_type = model.END_RESERVATION
    due = (
        'when the user removes a resource from the lease, or at the end that it keeps when the '
        'lease is extended without it'
    )
    action = 'does the end action of this resource'
    on_failure = 'retried without limit'
    notifications = {'lease.update': 'a resource left the lease'}
    priority = 1
    hidden = True
    cancelled_by = EndStage.END_BEGINS
    plugin_methods = ('end',)

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        todo = tuple(r for r in lease.live if r.id == event.reservation_id)
        if not todo or lease.status in states.ENDING:
            return EventWork(lease, skip_reason='It is freed with the rest of the lease.')
        # A resource that was not extended with its lease leaves it now.
        leaving = tuple(
            each
            if each.status == _R.DELETING
            else dataclasses.replace(each, status=_R.DELETING, updated_at=now)
            for each in todo
        )
        return EventWork(lease.with_reservations(*leaving), leaving)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        left = [r for r in after.live if r.id == event.reservation_id]
        if left:
            return Change(transitions.poll_again(after, event, left, outcomes, now))
        after = after.with_events(transitions.complete_event(event, None, now))
        if lease.status == _L.ERROR:
            # The removed resource may be the one that had failed.
            after = dataclasses.replace(after, status=transitions.recovered_status(after, now))
            reason = transitions.summarize_permanent_errors(
                after
            ) or transitions.user_start_reason(after)
            after = dataclasses.replace(after, status_reason=reason)
        return Change(after, {'lease.update': None})

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        return True


def _grace_notifications(lease: Lease, now: datetime) -> dict[str, str | None]:
    """Return a notification about servers on the hosts of a lease that are not deleted yet.

    It is sent when the end starts, unless the user deleted the lease.
    """
    if lease.status in states.ENDING:
        return {}
    for each in lease.live:
        if each.unit_kind is None or each.woken_at is None:
            continue
        if each.params.get('on_end') == 'migrate':
            return {'lease.update': 'The servers on its hosts are migrated.'}
        if each.params.get('grace'):
            until = dates.sentence(now + timedelta(seconds=each.params['grace']))
            return {'lease.update': f'The servers on its hosts are deleted at {until}.'}
    return {}


def _with_never_awake(lease: Lease, now: datetime) -> Lease:
    """Return a lease that was never ACTIVE with reasons of the resources that were not started.

    The reasons stay readable when the resources are freed, and in the history. A lease that its
    user did not start has another reason.
    """
    if lease.event(model.START) is None:
        return lease
    return lease.with_reservations(
        *(
            dataclasses.replace(each, status_reason=NEVER_AWAKE, updated_at=now)
            for each in lease.live
            if each.status == _R.PENDING and each.status_reason is None
        )
    )


def _freeing_reason(lease: Lease, outcomes: Outcomes) -> str | None:
    """Return why a lease is still ending; the last reason stays until its end."""
    failing = []
    for each in lease.live:
        reason = outcomes.get(each.id, Outcome(Result.WAIT)).reason or each.status_reason
        if reason is not None:
            failing.append(dataclasses.replace(each, status_reason=reason))
    return transitions.summarize_errors(failing) or end_reason(lease)


def end_now(lease: Lease, now: datetime) -> Event:
    """Return the ``end_lease`` of a lease as due now."""
    end = lease.event(model.END)
    if end is None:
        return model.new_event(lease.id, model.END, now, now)
    # A manager that works on the end reads the lease when it finishes.
    return end if end.status == _E.IN_PROGRESS else transitions.reschedule_event(end, now, now)


def end_reason(lease: Lease) -> str | None:
    """Return the reason of a lease that has ended, if there is something to report."""
    starts = lease.events_of(model.START, model.READY)
    tried = (*starts, *lease.events_of(model.RETRY, model.MAKE_ROOM))
    if lease.status_reason == CANCELLED or any(e.status_reason == CANCELLED for e in tried):
        return CANCELLED
    has_run = any(each.woken_at is not None for each in lease.reservations)
    waits = lease.status in states.UNGRANTED and not has_run
    if waits or lease.status_reason == NEVER_ENOUGH:
        return NEVER_ENOUGH
    removed = {e.reservation_id for e in lease.events_of(model.END_RESERVATION)}
    wrong = [r for r in lease.reservations if r.id not in removed and _failed(r)]
    if wrong or lease.event(model.START) is not None:
        return transitions.summarize_errors(wrong) or None
    return NOT_STARTED if starts else None


def _failed(reservation: Reservation) -> bool:
    failed = reservation.status in (_R.PENDING, _R.ERROR, _R.DELETED)
    return reservation.status_reason is not None and (failed or reservation.missing_resources)


class Cleanup(EventHandler):
    """Handle an event after the end of the lease, without a notification."""

    on_failure = 'retried; abandoned after a permanent failure'
    priority = 3
    hidden = True
    cancelled_by = EndStage.NEVER

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        return Change(lease.with_events(transitions.settle_event(event, outcomes[event.id], now)))


class ReleaseTrust(Cleanup):
    event_type = model.RELEASE_TRUST
    due = 'when the lease has ended'
    action = "releases the owner's trust"
    lease_call = 'release_trust'
    service = 'keystone'

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        if outcomes[event.id].result is Result.DONE:
            lease = dataclasses.replace(lease, trust_id=None)
        return super().settle(lease, event, outcomes, now)

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Add an event that releases the trust, if the lease has one and no such event."""
        if lease.trust_id is None or any(e.open for e in lease.events_of(self.event_type)):
            return lease
        return lease.with_events(model.new_event(lease.id, self.event_type, now, now))


class ExternalEnd(Cleanup):
    """Notify the external service of the end of a lease, if the service checked the lease."""

    event_type = model.EXTERNAL_END
    due = 'when the lease has ended, if the external service checked it'
    action = 'notifies the external service'
    lease_call = 'notify_external_end'
    service = 'external'

    def after_termination(self, lease: Lease, now: datetime) -> Lease:
        """Make the event due now if it is due after the end of the lease."""
        event = lease.event(self.event_type)
        if event is None or event.status != _E.UNDONE or event.next_at is not None:
            return lease
        return lease.with_events(transitions.repeat_event(event, now, now))


def new_external_end(lease_id: str, now: datetime) -> Event:
    """Return a new ``external_end`` that is not due before the end of its lease."""
    event = model.new_event(lease_id, model.EXTERNAL_END, now, now)
    return dataclasses.replace(event, next_at=None)
