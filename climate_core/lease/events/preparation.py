# SPDX-License-Identifier: Apache-2.0
"""The event ``prepare_reservation``. Pure.

A preparation is what a resource needs between its reservation and the start. A resource that is
created for a lease, as a stack from a template, claims its capacity as soon as its reservation is
stored. If it cannot, it is freed again, and the lease is in ERROR until its user removes the
reservation. A preparation that only makes the start fast, as of hosts, is done shortly before it.

The resources that one request creates for a lease are created together or not at all: if one
fails, the others are freed with it, also those of other groups. The start waits for all of them.

A forecast for the common pool of hosts is only expected: other projects may be faster between the
grant of a lease and the request to Nova. A lease for whose servers Nova has no capacity is queued
again. Its reservations are in ERROR until all that was created is freed; it is not granted before.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from climate_core.lease import model, states, transitions
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
#: The reason to skip a preparation.
START_FIRST: Final = 'The lease started first.'
#: The time until the next retry: a forecast that is wrong every time builds servers with pauses.
RETRY_PAUSE: Final = timedelta(seconds=60)
#: The retries of a lease that preempts others, if its kind has none.
PREEMPTOR_RETRIES: Final = 12


class PrepareReservation(EventHandler):
    event_type = model.PREPARE
    follows_grant = True
    due = (
        'when a reservation that needs it is stored, before the start; of hosts '
        '``prepare_seconds`` before the start'
    )
    action = (
        'fills a stack, and frees it if it cannot be filled; readies the lanes of hosts, closed'
    )
    on_failure = (
        'retried until the start; a permanent failure puts the reservation and the lease in error '
        'and frees the resource, which is retried without limit; a lease of the kind retry for '
        'whose servers there is no capacity is queued again, as is a lease that preempts others'
    )
    notifications = {'lease.update': 'a resource cannot be prepared'}
    priority = 2
    hidden = True
    cancelled_by = EndStage.END_BEGINS
    plugin_methods = ('prepare', 'rollback_prepare')

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        """Start the work on a reservation: prepare it, or free what failed."""
        todo = _unstarted(lease, {event.reservation_id})
        if not todo or lease.status in states.ENDING:
            return EventWork(
                lease, skip_reason='Its resource does not exist, or is freed with the lease.'
            )
        return EventWork(lease, todo)

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
        """Return the lease after the work on one reservation before its start.

        What cannot be prepared is in ERROR before it is freed, so that any manager that continues
        the work reads the reason.
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
        # It is being freed; the reason of its failure stays readable.
        if outcome.result is not Result.DONE:
            return Change(lease.with_events(transitions.retry_event(event, [outcome], now)))
        if lease.status == _L.WAITING:
            lease = lease.with_reservations(as_unmade(ours, now))
            return Change(lease.with_events(transitions.complete_event(event, None, now)))
        if ours.group:
            # What was created for it is freed, and does not count any more.
            lease = lease.with_reservations(dataclasses.replace(ours, amounts={}, updated_at=now))
        event = transitions.complete_event(event, ours.status_reason, now, _E.ERROR)
        return Change(lease.with_events(event))

    def plugin_method(self, lease: Lease, reservation: Reservation) -> str:
        prepare, rollback = self.plugin_methods
        return rollback if reservation.id in failed_preparations(lease) else prepare

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        """Return whether it frees what it could not prepare."""
        return event.reservation_id in failed_preparations(lease)


def _unstarted(lease: Lease, ids: Iterable[str | None]) -> tuple[Reservation, ...]:
    statuses = (_R.PENDING, _R.ERROR)
    return tuple(r for r in lease.reservations if r.id in ids and r.status in statuses)


def _settle_pending(
    lease: Lease, event: Event, reservation: Reservation, outcome: Outcome, now: datetime
) -> Change:
    failed = outcome.result is Result.FAILED
    if outcome.lacks_capacity and can_requeue(lease, outcome.preempts_others):
        after = requeue(lease, outcome.reason or '', now)
        return Change(after, {'lease.update': after.status_reason})
    new = reservation
    # A resource with missing parts keeps its reason until they exist.
    has_news = failed or not reservation.missing_resources
    if has_news and (outcome.result is not Result.WAIT or outcome.reason is not None):
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
    """Free the other resources of the request that a failed one belongs to."""
    times = _created_since(lease)
    others = {
        r.id: dataclasses.replace(
            r, status=_R.ERROR, status_reason=failed.status_reason, updated_at=now
        )
        for r in lease.live
        if r.id in times and times[r.id] == times.get(failed.id) and r.status == _R.PENDING
    }
    events = (e for e in lease.events_of(model.PREPARE) if e.reservation_id in others)
    rollbacks = (transitions.reschedule_event(event, now, now) for event in events)
    return lease.with_reservations(*others.values()).with_events(*rollbacks)


def blocks_start(lease: Lease) -> frozenset[str]:
    """Return the ids of the reservations that the start leaves out until all are created.

    It waits for all resources of one request. A lease of the kind retry, which is queued again if
    one of them lacks capacity, waits for all of its resources.
    """
    times = _created_since(lease)
    pending = [r for r in lease.reservations if r.id in times and r.status == _R.PENDING]
    preparing = {e.reservation_id for e in lease.events_of(model.PREPARE) if e.open}
    incomplete = {times[r.id] for r in pending if r.id in preparing}
    if incomplete and lease.kind == states.LeaseKind.RETRY:
        return frozenset(r.id for r in pending)
    return frozenset(r.id for r in pending if times[r.id] in incomplete)


def _created_since(lease: Lease) -> Mapping[str, datetime]:
    """Return the times of the requests that create resources, by the ids of their reservations.

    The resources of one request, or of one grant, have the same time.
    """
    groups = {r.id for r in lease.reservations if r.group}
    times: dict[str, datetime] = {}
    for event in lease.events_of(model.PREPARE):
        if event.reservation_id in groups:
            before = times.get(event.reservation_id, event.created_at)
            times[event.reservation_id] = max(before, event.created_at)
    return times


def _unblock_start(before: Lease, after: Lease, now: datetime) -> Lease:
    """Continue a start immediately that has waited for resources that exist now, or failed."""
    start = after.event(model.START)
    waited = blocks_start(before) and not blocks_start(after)
    if not waited or start is None or start.status != _E.UNDONE or start.time > now:
        return after
    # A start that is overdue is not changed.
    return after.with_events(dataclasses.replace(start, next_at=min(start.next_at or now, now)))


def _reason_before_start(lease: Lease) -> str | None:
    """Return the reason of a lease that has not started."""
    failing = (r for r in lease.live if r.status_reason is not None and r.status == _R.PENDING)
    reasons = [
        transitions.summarize_permanent_errors(lease),
        transitions.summarize_errors(failing),
    ]
    return '; '.join(filter(None, reasons)) or transitions.user_start_reason(lease)


def add_preparations(
    lease: Lease, preparing: Mapping[str, timedelta | None], now: datetime
) -> Lease:
    """Add preparations of reservations. In a lease that has started only groups have them.

    :param preparing: the ids of the reservations -> the time before the start; None: now
    """
    groups = {each.id for each in lease.reservations if each.group}
    if lease.has_started(now):
        preparing = dict.fromkeys(groups & preparing.keys())
    elif lease.kind != states.LeaseKind.SCHEDULED:
        # What is created for the lease claims capacity from the request, or from the grant, on.
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
    """Return the ids of the reservations whose preparation failed; their resources are freed."""
    events = lease.events_of(model.PREPARE)
    failed = {e.reservation_id for e in events if e.open or e.status == _E.ERROR}
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == _R.ERROR)


def was_interrupted(lease: Lease, reservation: Reservation) -> bool:
    """Return whether a lease ended before a reservation was prepared, and before its start."""
    return any(
        event.status_reason not in (None, START_FIRST)
        for event in lease.events_of(model.PREPARE, reservation_id=reservation.id)
    )


def can_requeue(lease: Lease, preempts_others: bool = False) -> bool:
    """Return whether a lease may be queued again if Nova has no capacity for its servers.

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
    after = transitions.without_grant(lease, due, duration, reservations).moved_to(
        _L.WAITING, reason
    )
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
