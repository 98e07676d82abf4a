# SPDX-License-Identifier: Apache-2.0
"""The events of the start: ``prepare_reservation``, ``start_lease`` and ``ready_to_start``."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, states, transitions
from climate_core.lease.events import base, notices, queue
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EventWork, Outcome, Result

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus

#: The reason to skip a preparation.
START_FIRST: Final = 'The start came first.'


class PrepareReservation(base.EventHandler):
    event_type = model.PREPARE
    follows_grant = True
    due = (
        'when a reservation is written that needs it, before the start; of hosts '
        '``prepare_seconds`` before the start'
    )
    action = (
        'fills a stack, and frees it if it cannot be filled; readies the lanes of hosts, closed'
    )
    on_failure = (
        'retried until the start; a permanent failure puts the reservation and the lease in error '
        'and frees the resource, which is retried for ever; a lease of the kind retry for whose '
        'servers there is no room waits again, as does one for which preemptible leases give way'
    )
    notifications = {'lease.update': 'a resource cannot be prepared'}
    priority = 2
    hidden = True
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('prepare', 'rollback_prepare')

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        """Begin the work on a reservation: prepare it, or free what failed."""
        todo = _unstarted(lease, {event.reservation_id})
        if not todo or lease.status in states.ENDING:
            return EventWork(lease, skip_reason='Its resource is gone, or freed with the lease.')
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        """Return what a lease is after the work on one reservation before its start.

        What cannot be prepared is in ERROR first and freed then, so that any manager that goes
        on with it knows why it is gone.
        """
        ours = next(iter(_unstarted(lease, outcomes.keys())), None)
        if ours is None:
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        outcome = outcomes[ours.id]
        ours = transitions.with_progress(ours, outcome)
        lease = lease.with_reservations(ours)
        if ours.status == _R.PENDING:
            change = _settle_pending(lease, event, ours, outcome, now)
            return dataclasses.replace(change, lease=_unblock_start(lease, change.lease, now))
        # It is freed after its failure, which stays readable.
        if outcome.result is not Result.DONE:
            return Change(lease.with_events(transitions.retry_event(event, [outcome], now)))
        if lease.status == _L.WAITING:
            lease = lease.with_reservations(queue.as_unmade(ours, now))
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        if ours.group:
            # What was made for it is gone, so it counts no more.
            lease = lease.with_reservations(dataclasses.replace(ours, amounts={}, updated_at=now))
        event = transitions.complete_event(event, ours.status_reason, now, _E.ERROR)
        return Change(lease.with_events(event))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        prepare, rollback = self.plugin_methods
        return rollback if reservation.id in failed_preparations(lease) else prepare

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Tell whether it frees what it could not prepare."""
        return event.reservation_id in failed_preparations(lease)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        """Move a preparation some time before the start with the start."""
        if event.time == event.created_at:
            return event
        moved = event.time + (after.start_date - before.start_date)
        return transitions.move_event(event, max(moved, now), now)


def _unstarted(lease: Lease, ids: Iterable[str | None]) -> tuple[Reservation, ...]:
    statuses = (_R.PENDING, _R.ERROR)
    return tuple(r for r in lease.reservations if r.id in ids and r.status in statuses)


def _settle_pending(
    lease: Lease, event: Event, reservation: Reservation, outcome: Outcome, now: datetime
) -> Change:
    failed = outcome.result is Result.FAILED
    if outcome.lacks_capacity and queue.can_requeue(lease, outcome.preempts_others):
        after = queue.requeue(lease, outcome.reason or '', now)
        return Change(after, {'lease.update': after.status_reason})
    new = reservation
    # What is missing of it says why until it is there.
    told = failed or not reservation.missing_resources
    if told and (outcome.result is not Result.WAIT or outcome.reason is not None):
        new = dataclasses.replace(new, status_reason=outcome.reason)
    if failed:
        new = dataclasses.replace(new, status=_R.ERROR)
    if new != reservation:
        lease = lease.with_reservations(dataclasses.replace(new, updated_at=now))
        lease = lease.moved_to(_L.ERROR if failed else lease.status, _reason_before_start(lease))
    if failed:
        lease = _fail_together(lease, new, now)
        rollback = transitions.reschedule_event(event, now, now)
        return Change(lease.with_events(rollback), {'lease.update': lease.status_reason})
    return Change(lease.with_events(transitions.settle_event(event, outcome, now)))


def _fail_together(lease: Lease, failed: Reservation, now: datetime) -> Lease:
    """Free what the same request wanted to be made as one that cannot be."""
    times = _made_since(lease)
    others = [
        each
        for each in lease.live
        if each.id in times and times[each.id] == times.get(failed.id)
        if each.status == _R.PENDING
    ]
    lease = lease.with_reservations(
        *(
            dataclasses.replace(
                each, status=_R.ERROR, status_reason=failed.status_reason, updated_at=now
            )
            for each in others
        )
    )
    ids = {each.id for each in others}
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in ids)
    return lease.with_events(*(transitions.reschedule_event(each, now, now) for each in events))


def blocks_start(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations with which the start waits until all are made.

    It waits for all that the same request wanted; of a lease of the kind retry, that waits again
    if one finds no room, for all.
    """
    times = _made_since(lease)
    made = [r for r in lease.reservations if r.id in times and r.status == _R.PENDING]
    open_ = {e.reservation_id for e in lease.events_of(model.PREPARE) if e.open}
    making = {times[r.id] for r in made if r.id in open_}
    if making and lease.kind == states.LeaseKind.RETRY:
        return frozenset(r.id for r in made)
    return frozenset(r.id for r in made if times[r.id] in making)


def _made_since(lease: Lease) -> Mapping[str, datetime]:
    """Return when it was asked for that resources are made, by the ids of their reservations.

    What one request asks for, or is made after one grant, has the same time.
    """
    groups = {each.id for each in lease.reservations if each.group}
    times: dict[str, datetime] = {}
    for each in lease.events_of(model.PREPARE):
        if each.reservation_id in groups:
            before = times.get(each.reservation_id, each.created_at)
            times[each.reservation_id] = max(before, each.created_at)
    return times


def _unblock_start(before: Lease, after: Lease, now: datetime) -> Lease:
    """Let the start go on at once that has waited for what is made by now, or cannot be."""
    start = after.event(model.START)
    waited = blocks_start(before) and not blocks_start(after)
    if not waited or start is None or start.status != _E.UNDONE or start.time > now:
        return after
    # One that is overdue stays as it is.
    return after.with_events(dataclasses.replace(start, next_at=min(start.next_at or now, now)))


def _reason_before_start(lease: Lease) -> str | None:
    """Return the reason of a lease that has not begun."""
    troubled = (r for r in lease.live if r.status_reason is not None and r.status == _R.PENDING)
    told = [transitions.permanent_errors(lease), transitions.summarize_errors(troubled)]
    return '; '.join(each for each in told if each) or transitions.user_start_reason(lease)


def add_preparations(
    lease: Lease, preparing: Mapping[str, timedelta | None], now: datetime
) -> Lease:
    """Add the preparation of reservations; except for groups, a start that has begun does it.

    :param preparing: by their ids: how long before the start; None: now
    """
    groups = {each.id for each in lease.reservations if each.group}
    if lease.has_started(now):
        preparing = dict.fromkeys(groups & preparing.keys())
    elif lease.kind != states.LeaseKind.SCHEDULED:
        # What is made for it is held from the moment of the request, or from when it is granted.
        whole = {each.id for each in lease.reservations if each.parts is not None}
        preparing = {**preparing, **dict.fromkeys((groups | whole) & preparing.keys())}
    times = {
        each: now if before is None else max(now, lease.start_date - before)
        for each, before in preparing.items()
    }
    return lease.with_events(
        *(
            model.new_event(lease.id, model.PREPARE, time, now, each)
            for each, time in times.items()
        )
    )


def cancel_preparations(
    lease: Lease, reservations: Iterable[Reservation], reason: str, now: datetime
) -> Lease:
    """Cancel the preparation of reservations."""
    ids = {each.id for each in reservations}
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in ids)
    return transitions.cancel_events(lease, events, reason, now)


def failed_preparations(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations whose resource was freed again, or is being so."""
    events = lease.events_of(model.PREPARE)
    failed = {e.reservation_id for e in events if e.open or e.status == _E.ERROR}
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == _R.ERROR)


def was_interrupted(lease: Lease, reservation: Reservation) -> bool:
    """Tell whether a lease ended before a reservation was prepared, and before its start."""
    return any(
        event.status_reason not in (None, START_FIRST)
        for event in lease.events_of(model.PREPARE, reservation_id=reservation.id)
    )


STARTED: Final = 'lease.event.start_lease'
START_FAILED: Final = 'lease.event.start_lease.error'
START_WARNING: Final = 'lease.event.start_lease.warning'
#: What is made for the lease tells when it is there; this is for when that is lost.
_WHILE_MADE: Final = Outcome(Result.WAIT, 60.0)
#: The reason to skip a start.
TOO_LATE: Final = 'The lease ended before it could be started.'


class StartLease(base.EventHandler):
    event_type = model.START
    follows_grant = True
    due = '``start_date``, or when the user starts the lease'
    action = 'wakes every pending resource, those of the lowest rank first'
    on_failure = (
        'retried until shortly before the end of the lease; a permanent failure or a bug puts '
        'the resource and the lease in error, the other resources go on'
    )
    notifications = {
        STARTED: 'its start is done: everything runs',
        START_FAILED: 'something of it cannot be started, or was not started before its end',
        START_WARNING: 'it is known shortly before its start that this will fail',
    }
    priority = 2
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('wake_up',)
    done_status = _R.ACTIVE
    done_when_active = True
    ascending = True
    until_end = True
    # A bug does not pass by itself: the start fails at once, and the user knows.
    bug_is_permanent = True

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status in states.ENDING or lease.deleted_at is not None:
            return EventWork(lease, skip_reason='The lease is over.')
        if now >= lease.end_date:
            return EventWork(lease, skip_reason=TOO_LATE)
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status=_L.STARTING)
        held = blocks_start(lease)
        todo = tuple(r for r in lease.reservations if r.status == _R.PENDING and r.id not in held)
        # From now on what is not prepared yet is left to the wake-up.
        return EventWork(cancel_preparations(lease, todo, START_FIRST, now), todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = transitions.apply_outcomes(lease, outcomes, self.done_status, now)
        waiting = [r for r in after.reservations if r.status == _R.PENDING]
        if waiting:
            # The last reason stays until its resource is awake, also while that is on its way.
            troubled = [r for r in waiting if r.status_reason is not None][:1]
            reason = transitions.summarize_errors(troubled) or transitions.permanent_errors(after)
            after = dataclasses.replace(after, status_reason=reason)
            later = dict.fromkeys(blocks_start(after), _WHILE_MADE)
            outcomes = {**later, **outcomes}
            return Change(transitions.poll_again(after, event, waiting, outcomes, now))
        failed = [r for r in after.reservations if r.status == _R.ERROR]
        if failed:
            reason = transitions.summarize_errors(failed)
            after = after.moved_to(_L.ERROR, reason)
            event = transitions.complete_event(event, reason, now, _E.ERROR)
            return Change(after.with_events(event), {START_FAILED: reason})
        after = after.moved_to(_L.ACTIVE, transitions.permanent_errors(after))
        after = dataclasses.replace(after, retries_left=None, duration=None)
        return Change(
            after.with_events(transitions.complete_event(event, None, now)), {STARTED: None}
        )

    def skip(self, lease: Lease, event: Event, reason: str, now: datetime) -> Change:
        """Notify that the lease was never started, unless its user gave it up."""
        after = lease.with_events(transitions.complete_event(event, reason, now, _E.ERROR))
        told = lease.status not in states.ENDING and lease.deleted_at is None
        return Change(after, {START_FAILED: reason} if told else {})

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        manual = after.start_policy == states.StartPolicy.MANUAL
        if after.status == _L.PENDING and manual:
            return _with_type(event, model.READY, after, now)
        return _move_with_start(event, before, after, now, given_up=True)


class ReadyToStart(notices.Notice):
    event_type = model.READY
    follows_grant = True
    due = '``start_date``, if ``start_policy`` is ``manual``'
    action = 'notifies; the lease waits for its user to start it'
    notifications = {
        'lease.event.ready_to_start': 'its start has come, and it waits for its user to start it'
    }
    cancelled_by = base.Stage.END_BEGINS

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        work = super().begin(lease, event, now)
        if work.skip_reason is None and (lease.has_started(now) or now >= lease.end_date):
            return EventWork(lease, skip_reason='There is nothing to start any more.')
        return work

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        if lease.status == _L.PENDING:
            lease = dataclasses.replace(lease, status_reason=transitions.WAITS_FOR_USER)
        return super().settle(lease, event, outcomes, now)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        if after.status != _L.PENDING:
            return event
        if after.start_policy == states.StartPolicy.AUTO:
            return _with_type(event, model.START, after, now)
        return _move_with_start(
            event, before, after, now, given_up=event.status_reason is not None
        )


def _with_type(event: Event, event_type: str, lease: Lease, now: datetime) -> Event:
    """Return the event as one of another type, due at the start of the lease."""
    due = transitions.reschedule_event(event, lease.start_date, now)
    return dataclasses.replace(due, event_type=event_type, time=lease.start_date)


def _move_with_start(
    event: Event, before: Lease, after: Lease, now: datetime, given_up: bool
) -> Event:
    """Move a start with its lease.

    :param given_up: whether an event that is done was given up because the lease was over. If it
        is not over any more, the event is due now
    """
    asleep = any(r.status == _R.PENDING for r in after.reservations)
    if asleep and given_up and not event.open and now < after.end_date:
        return transitions.reschedule_event(event, now, now)
    if before.start_date == after.start_date:
        return event
    return transitions.move_event(event, after.start_date, now)
