# SPDX-License-Identifier: Apache-2.0
"""What a lease needs next, part three: what is done for a reservation before the start. Pure.

What is made for a lease, as a stack from a template, is to hold its capacity from then on. What
cannot be held is taken back, and the lease is in ERROR until its user takes it out.
"""

import dataclasses
import datetime
from collections.abc import Mapping

from climate_core.lease import model, plan, results, states

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus


def begin(lease: model.Lease, event: model.Event) -> results.Work:
    """Say what is to be done for a reservation: prepare it, or take back what failed."""
    todo = tuple(
        r
        for r in lease.live
        if r.id == event.reservation_id and r.status in (_R.PENDING, _R.ERROR)
    )
    if not todo or lease.status in states.ENDING:
        return results.Work(lease, pointless='Its resource is gone, or freed with the lease.')
    return results.Work(lease, todo)


def takes_back(lease: model.Lease, event: model.Event) -> bool:
    """Tell whether an event frees what it could not prepare."""
    unprepared = event.event_type == model.PREPARE
    return unprepared and event.reservation_id in plan.unprepared(lease)


def settle(
    lease: model.Lease,
    event: model.Event,
    outcomes: Mapping[str, results.Outcome],
    now: datetime.datetime,
) -> plan.Change:
    """Say what a lease is after the work on one reservation before its start.

    What cannot be prepared is in ERROR first and taken back then, so that it is known why it is
    gone, whoever goes on with it.
    """
    ours = next((r for r in lease.live if r.id in outcomes), None)
    if ours is None or ours.status not in (_R.PENDING, _R.ERROR):
        return plan.Change(plan.with_events(lease, results.finish(event, None, now)))
    outcome = outcomes[ours.id]
    if ours.status == _R.ERROR and outcome.result is results.Result.DONE:
        failed = dataclasses.replace(
            results.finish(event, ours.status_reason, now), status=_E.ERROR
        )
        return plan.Change(plan.with_events(lease, failed))
    if ours.status == _R.ERROR:
        return plan.Change(plan.with_events(lease, results.again(event, [outcome], now)))
    if outcome.result is results.Result.FAILED:
        return _unprepared(lease, event, ours, outcome, now)
    done = outcome.result is results.Result.DONE
    after = _with_reason(lease, ours, outcome, now)
    if after is not lease:
        after = dataclasses.replace(after, status_reason=_before_start(after))
    going = results.finish(event, None, now) if done else results.again(event, [outcome], now)
    return plan.Change(plan.with_events(after, going))


def _unprepared(
    lease: model.Lease,
    event: model.Event,
    reservation: model.Reservation,
    outcome: results.Outcome,
    now: datetime.datetime,
) -> plan.Change:
    status = states.check(states.RESERVATION, reservation.status, _R.ERROR)
    after = _with_reason(lease, dataclasses.replace(reservation, status=status), outcome, now)
    reason = _before_start(after)
    status = states.check(states.LEASE, lease.status, _L.ERROR)
    after = dataclasses.replace(after, status=status, status_reason=reason)
    return plan.Change(
        plan.with_events(after, plan.rearm(event, now, now)), {'lease.update': reason}
    )


def _with_reason(
    lease: model.Lease,
    reservation: model.Reservation,
    outcome: results.Outcome,
    now: datetime.datetime,
) -> model.Lease:
    """Put a reservation into a lease with the reason of what became of it, if that has one."""
    kept = outcome.result is results.Result.WAIT and outcome.reason is None
    reason = reservation.status_reason if kept else outcome.reason
    new = dataclasses.replace(reservation, status_reason=reason)
    old = next(r for r in lease.reservations if r.id == new.id)
    if new == old:
        return lease
    new = dataclasses.replace(new, updated_at=now)
    changed = tuple(new if r is old else r for r in lease.reservations)
    return dataclasses.replace(lease, reservations=changed)


def _before_start(lease: model.Lease) -> str | None:
    """Say what is wrong with a lease that has not begun."""
    troubled = (r for r in lease.live if r.status_reason is not None)
    told = [
        results.lasting(lease),
        plan.tell_reasons(r for r in troubled if r.status == _R.PENDING),
    ]
    return '; '.join(each for each in told if each) or plan.waits_for_user(lease)
