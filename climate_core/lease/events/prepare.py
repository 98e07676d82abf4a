# SPDX-License-Identifier: Apache-2.0
"""``prepare_reservation``: does what a resource needs between its reservation and the start.

What is made for a lease, as a stack from a template, is to hold its capacity as soon as the
reservation is written. What cannot be held is freed again, and the lease is in ERROR until its
user takes it out. What only makes the start quick, as for hosts, is done some time before it.

What a request wants to be made for the lease is made together or not at all: if one resource
cannot be, the others are freed with it, also those of other groups. The start waits for them, so
that none is awake before all are there.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, results, schedule, states
from climate_core.lease.events import base, wait_again
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.results import Change, EventWork, Outcome, Result

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
        todo = _asleep(lease, {event.reservation_id})
        if not todo or lease.status in states.ENDING:
            return EventWork(lease, skip_reason='Its resource is gone, or freed with the lease.')
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        """Return what a lease is after the work on one reservation before its start.

        What cannot be prepared is in ERROR first and freed then, so that any manager that goes
        on with it knows why it is gone.
        """
        ours = next(iter(_asleep(lease, outcomes.keys())), None)
        if ours is None:
            return Change(lease.with_events(schedule.complete(event, None, now)))
        outcome = outcomes[ours.id]
        ours = results.with_progress(ours, outcome)
        lease = lease.with_reservations(ours)
        if ours.status == _R.PENDING:
            change = _settle_pending(lease, event, ours, outcome, now)
            return dataclasses.replace(change, lease=_let_start(lease, change.lease, now))
        # It is freed after its failure, which stays readable.
        if outcome.result is not Result.DONE:
            return Change(lease.with_events(schedule.retry(event, [outcome], now)))
        if lease.status == _L.WAITING:
            lease = lease.with_reservations(wait_again.unmade(ours, now))
            return Change(lease.with_events(schedule.complete(event, None, now)))
        if ours.group:
            # What was made for it is gone, so it counts no more.
            lease = lease.with_reservations(dataclasses.replace(ours, amounts={}, updated_at=now))
        event = schedule.complete(event, ours.status_reason, now, _E.ERROR)
        return Change(lease.with_events(event))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        prepare, rollback = self.plugin_methods
        return rollback if reservation.id in unprepared(lease) else prepare

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Tell whether it frees what it could not prepare."""
        return event.reservation_id in unprepared(lease)

    def move(self, event: Event, before: Lease, after: Lease, now: datetime) -> Event:
        """Move a preparation some time before the start with the start."""
        if event.time == event.created_at:
            return event
        moved = event.time + (after.start_date - before.start_date)
        return schedule.move_event(event, max(moved, now), now)


def _asleep(lease: Lease, ids: Iterable[str | None]) -> tuple[Reservation, ...]:
    statuses = (_R.PENDING, _R.ERROR)
    return tuple(r for r in lease.reservations if r.id in ids and r.status in statuses)


def _settle_pending(
    lease: Lease, event: Event, reservation: Reservation, outcome: Outcome, now: datetime
) -> Change:
    failed = outcome.result is Result.FAILED
    if outcome.is_no_room and wait_again.is_possible(lease, outcome.others_give_way):
        after = wait_again.apply(lease, outcome.reason or '', now)
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
        lease = lease.moved_to(_L.ERROR if failed else lease.status, _reason(lease))
    if failed:
        lease = _fail_together(lease, new, now)
        rollback = schedule.reschedule(event, now, now)
        return Change(lease.with_events(rollback), {'lease.update': lease.status_reason})
    return Change(lease.with_events(schedule.settle(event, outcome, now)))


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
    return lease.with_events(*(schedule.reschedule(each, now, now) for each in events))


def holding_start(lease: Lease) -> frozenset[str]:
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


def _let_start(before: Lease, after: Lease, now: datetime) -> Lease:
    """Let the start go on at once that has waited for what is made by now, or cannot be."""
    start = after.event(model.START)
    waited = holding_start(before) and not holding_start(after)
    if not waited or start is None or start.status != _E.UNDONE or start.time > now:
        return after
    # One that is overdue stays as it is.
    return after.with_events(dataclasses.replace(start, next_at=min(start.next_at or now, now)))


def _reason(lease: Lease) -> str | None:
    """Return the reason of a lease that has not begun."""
    troubled = (r for r in lease.live if r.status_reason is not None and r.status == _R.PENDING)
    told = [results.permanent_errors(lease), results.summarize_errors(troubled)]
    return '; '.join(each for each in told if each) or results.waits_for_user(lease)


def add(lease: Lease, preparing: Mapping[str, timedelta | None], now: datetime) -> Lease:
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


def cancel(lease: Lease, reservations: Iterable[Reservation], reason: str, now: datetime) -> Lease:
    """Cancel the preparation of reservations."""
    ids = {each.id for each in reservations}
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in ids)
    return schedule.cancel_events(lease, events, reason, now)


def unprepared(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations whose resource was freed again, or is being so."""
    events = lease.events_of(model.PREPARE)
    failed = {e.reservation_id for e in events if e.open or e.status == _E.ERROR}
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == _R.ERROR)


def was_broken_off(lease: Lease, reservation: Reservation) -> bool:
    """Tell whether a lease ended before a reservation was prepared, and before its start."""
    return any(
        event.status_reason not in (None, START_FIRST)
        for event in lease.events_of(model.PREPARE, reservation_id=reservation.id)
    )
