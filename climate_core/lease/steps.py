# SPDX-License-Identifier: Apache-2.0
"""What a lease needs next, part two: what an event that is due does to it. Pure.

An event is handled in two moves. :func:`begin` says what the lease is while the work is done,
:func:`settle` what it is afterwards, from what became of each reservation. Between the two the
world may have changed: ``settle`` is given the lease as it is then.
"""

import dataclasses
import datetime
from collections.abc import Mapping

from climate_core.lease import model, plan, preparation, results, states
from climate_core.lease.results import Outcome, Result, Work

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus


#: Why a lease was over before its start.
CANCELLED = 'Cancelled by its user before its start.'
#: Why nothing of a lease was woken whose start was its user's.
NOT_STARTED = 'Its user did not start it.'
#: Why nothing is prepared any more.
START_FIRST = 'The start came first.'
#: Why there is no start any more.
TOO_LATE = 'The lease ended before it could be started.'
_START_FAILED = f'lease.event.{model.START}.error'


def begin(lease: model.Lease, event: model.Event, now: datetime.datetime) -> Work:
    """Say what is to be done for an event that was claimed."""
    if event.event_type == model.START:
        return _begin_start(lease, now)
    if event.event_type == model.END:
        return _begin_end(lease, now)
    if event.event_type == model.END_RESERVATION:
        return _begin_removal(lease, event)
    if event.event_type == model.PREPARE:
        return preparation.begin(lease, event)
    if event.event_type not in model.AFTERWARDS and lease.deleted_at is not None:
        return Work(lease, pointless='The lease is deleted.')
    if event.event_type == model.READY and (plan.begun(lease, now) or now >= lease.end_date):
        return Work(lease, pointless='There is nothing to start any more.')
    return Work(lease)


def _begin_start(lease: model.Lease, now: datetime.datetime) -> Work:
    if lease.status in states.ENDING or lease.deleted_at is not None:
        return Work(lease, pointless='The lease is over.')
    if now >= lease.end_date:
        return Work(lease, pointless=TOO_LATE)
    if lease.status == _L.PENDING:
        lease = dataclasses.replace(lease, status=_L.STARTING)
    todo = tuple(r for r in lease.reservations if r.status == _R.PENDING)
    # From now on what is not prepared yet is left to the wake-up.
    ids = {r.id for r in todo}
    closed = [
        plan.close(e, START_FIRST, now)
        for e in lease.events
        if e.event_type == model.PREPARE and e.reservation_id in ids
    ]
    return Work(plan.with_events(lease, *closed), todo)


def _begin_end(lease: model.Lease, now: datetime.datetime) -> Work:
    if lease.status == _L.TERMINATED:
        return Work(lease, pointless='The lease is over.')
    starts = [e for e in lease.events if e.event_type == model.START and e.open]
    notices: dict[str, str | None] = {}
    if starts and lease.status not in states.ENDING:
        notices[_START_FAILED] = TOO_LATE
    if lease.status != _L.DELETING:
        target = states.check(states.LEASE, lease.status, _L.TERMINATING)
        lease = dataclasses.replace(lease, status=target, status_reason=ended(lease))
    # What was being taken out of the lease is freed with the rest.
    superseded = (model.START, model.READY, model.END_RESERVATION, model.PREPARE)
    closed = [
        plan.close(e, 'The end of the lease came first.', now)
        for e in lease.events
        if e.event_type in superseded
    ]
    return Work(plan.with_events(lease, *closed), lease.live, notices=notices)


def _begin_removal(lease: model.Lease, event: model.Event) -> Work:
    todo = tuple(r for r in lease.live if r.id == event.reservation_id)
    if not todo or lease.status in states.ENDING:
        return Work(lease, pointless='It is freed with the rest of the lease.')
    return Work(lease, todo)


def so_far(
    lease: model.Lease, event_type: str, outcomes: Mapping[str, Outcome], now: datetime.datetime
) -> model.Lease:
    """Return the lease as those see it that come after others: with what became of these."""
    done = _R.ACTIVE if event_type == model.START else _R.DELETED
    return _with_outcomes(lease, outcomes, done, now)


def settle(
    lease: model.Lease,
    event: model.Event,
    outcomes: Mapping[str, Outcome],
    now: datetime.datetime,
) -> plan.Change:
    """Say what a lease is after the work on an event.

    :param event: the event as it was claimed, one of the lease's
    :param outcomes: reservation id -> what became of it; for an event without reservations the
        event's own id
    """
    if event.event_type == model.START:
        return _settle_start(lease, event, outcomes, now)
    if event.event_type == model.END:
        return _settle_end(lease, event, outcomes, now)
    if event.event_type == model.END_RESERVATION:
        return _settle_removal(lease, event, outcomes, now)
    if event.event_type == model.PREPARE:
        return preparation.settle(lease, event, outcomes, now)
    if event.event_type == model.RELEASE_TRUST:
        return _settle_trust(lease, event, outcomes[event.id], now)
    if event.event_type == model.EXTERNAL_END:
        return _settle_alone(lease, event, outcomes[event.id], now)
    if event.event_type == model.READY and lease.status == _L.PENDING:
        lease = dataclasses.replace(lease, status_reason=plan.WAITS_FOR_USER)
    notice = f'lease.event.{event.event_type}'
    return plan.Change(plan.with_events(lease, results.finish(event, None, now)), {notice: None})


def drop(
    lease: model.Lease, event: model.Event, reason: str, now: datetime.datetime
) -> plan.Change:
    """Say what a lease is after an event that was found to be pointless.

    That a lease was never started is told, unless its user did not want it any more.
    """
    start = event.event_type == model.START
    status = _E.ERROR if start else _E.DONE
    finished = dataclasses.replace(results.finish(event, reason, now), status=status)
    told = start and lease.status not in states.ENDING and lease.deleted_at is None
    return plan.Change(plan.with_events(lease, finished), {_START_FAILED: reason} if told else {})


def _settle_start(
    lease: model.Lease,
    event: model.Event,
    outcomes: Mapping[str, Outcome],
    now: datetime.datetime,
) -> plan.Change:
    after = _with_outcomes(lease, outcomes, _R.ACTIVE, now)
    waiting = [r for r in after.reservations if r.status == _R.PENDING]
    if waiting:
        # One that joined meanwhile has no outcome: look again at once.
        todo = [outcomes.get(r.id, Outcome(Result.WAIT)) for r in waiting]
        # The last trouble is told until its resource is awake, also while that is on its way.
        troubled = [r for r in waiting if r.status_reason is not None][:1]
        reason = plan.tell_reasons(troubled) or results.lasting(after)
        after = dataclasses.replace(after, status_reason=reason)
        return plan.Change(plan.with_events(after, results.again(event, todo, now)))
    failed = [r for r in after.reservations if r.status == _R.ERROR]
    if not failed:
        after = dataclasses.replace(
            after,
            status=states.check(states.LEASE, after.status, _L.ACTIVE),
            status_reason=results.lasting(after),
        )
        after = plan.with_events(after, results.finish(event, None, now))
        return plan.Change(after, {'lease.event.start_lease': None})
    reason = plan.tell_reasons(failed)
    after = dataclasses.replace(
        after,
        status=states.check(states.LEASE, after.status, _L.ERROR),
        status_reason=reason,
    )
    finished = dataclasses.replace(results.finish(event, reason, now), status=_E.ERROR)
    after = plan.with_events(after, finished)
    return plan.Change(after, {_START_FAILED: reason})


def _settle_end(
    lease: model.Lease,
    event: model.Event,
    outcomes: Mapping[str, Outcome],
    now: datetime.datetime,
) -> plan.Change:
    after = _with_outcomes(lease, outcomes, _R.DELETED, now)
    if after.live:
        todo = [outcomes.get(r.id, Outcome(Result.WAIT)) for r in after.live]
        after = dataclasses.replace(after, status_reason=_freeing(after, outcomes))
        return plan.Change(plan.with_events(after, results.again(event, todo, now)))
    after = plan.with_events(after, results.finish(event, None, now))
    notices: dict[str, str | None] = {'lease.event.end_lease': None}
    if lease.status == _L.DELETING:
        notices['lease.delete'] = None
    return plan.Change(plan.over(after, now, ended(after)), notices)


def _settle_removal(
    lease: model.Lease,
    event: model.Event,
    outcomes: Mapping[str, Outcome],
    now: datetime.datetime,
) -> plan.Change:
    after = _with_outcomes(lease, outcomes, _R.DELETED, now)
    if any(r.id == event.reservation_id for r in after.live):
        todo = list(outcomes.values())
        return plan.Change(plan.with_events(after, results.again(event, todo, now)))
    after = plan.with_events(after, results.finish(event, None, now))
    status = plan.healed(after, now)
    if lease.status == _L.ERROR:
        # What was taken out may be what was wrong.
        after = dataclasses.replace(after, status=status)
        reason = results.lasting(after) or plan.waits_for_user(after)
        after = dataclasses.replace(after, status_reason=reason)
    return plan.Change(after, {'lease.update': None})


def _settle_trust(
    lease: model.Lease, event: model.Event, outcome: Outcome, now: datetime.datetime
) -> plan.Change:
    done = outcome.result is Result.DONE
    after = dataclasses.replace(lease, trust_id=None) if done else lease
    return _settle_alone(after, event, outcome, now)


def _settle_alone(
    lease: model.Lease, event: model.Event, outcome: Outcome, now: datetime.datetime
) -> plan.Change:
    """Settle an event that is about no resource and of which nobody is told."""
    if outcome.result is Result.FAILED:
        failed = dataclasses.replace(results.finish(event, outcome.reason, now), status=_E.ERROR)
        return plan.Change(plan.with_events(lease, failed))
    if outcome.result is not Result.DONE:
        return plan.Change(plan.with_events(lease, results.again(event, [outcome], now)))
    return plan.Change(plan.with_events(lease, results.finish(event, None, now)))


def _with_outcomes(
    lease: model.Lease, outcomes: Mapping[str, Outcome], done: str, now: datetime.datetime
) -> model.Lease:
    def change(reservation: model.Reservation) -> model.Reservation:
        outcome = outcomes.get(reservation.id)
        if outcome is None or not reservation.live:
            return reservation
        if outcome.result is Result.WAIT and outcome.reason is None:
            return reservation
        if done == _R.ACTIVE and reservation.status != _R.PENDING:
            # It was taken out of the lease while it was woken.
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

    return dataclasses.replace(lease, reservations=tuple(change(r) for r in lease.reservations))


def _freeing(lease: model.Lease, outcomes: Mapping[str, Outcome]) -> str | None:
    """Say what keeps a lease that ends from being over; the last trouble is told until then."""
    told = []
    for each in lease.live:
        outcome = outcomes.get(each.id, Outcome(Result.WAIT))
        reason = outcome.reason or each.status_reason
        if reason is not None:
            told.append(dataclasses.replace(each, status_reason=reason))
    return plan.tell_reasons(told) or ended(lease)


def ended(lease: model.Lease) -> str | None:
    """Say how a lease came to its end, if there is something to say."""
    starts = [e for e in lease.events if e.event_type in (model.START, model.READY)]
    if lease.status_reason == CANCELLED or any(e.status_reason == CANCELLED for e in starts):
        return CANCELLED
    out = {e.reservation_id for e in lease.events if e.event_type == model.END_RESERVATION}
    wrong = [
        r
        for r in lease.reservations
        if r.id not in out and r.status_reason is not None and _failed(r)
    ]
    if wrong or any(e.event_type == model.START for e in starts):
        return plan.tell_reasons(wrong) or None
    return NOT_STARTED if starts else None


def _failed(reservation: model.Reservation) -> bool:
    failed = reservation.status in (_R.PENDING, _R.ERROR, _R.DELETED)
    return failed or reservation.missing_resources
