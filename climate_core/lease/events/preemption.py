# SPDX-License-Identifier: Apache-2.0
"""The event ``preempt_lease``: a preemptible lease releases its resources and is queued. Pure.

The resources that it had stay among its reservations as deleted ones, so that its usage does not
change.
"""

import dataclasses
from datetime import datetime
from typing import Final

from oslo_utils import uuidutils

from climate_common import dates, resource_types
from climate_core.lease import model, states, transitions
from climate_core.lease.events import preparation
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.transitions import Change, EndStage, EventHandler, EventWork, Outcomes

_L = states.LeaseStatus
_R = states.ReservationStatus
_E = states.EventStatus
#: The notification that the lease has released its resources: it is WAITING.
PREEMPTED: Final = 'lease.event.preempt_lease'
_PREEMPTING_REASON: Final = 'Another lease that needs its resources preempts it.'
#: The reason of a lease that was preempted and is queued.
PREEMPTED_REASON: Final = 'Another lease preempts it. It is queued until capacity is sufficient.'


def preempt_lease(
    lease: Lease, time: datetime, earliest: datetime, now: datetime
) -> Change | None:
    """Return a preemptible lease that is queued now, or preempted at a time if it is active.

    :param time: when an active lease releases its resources
    :param earliest: the earliest time that its notice allows
    :returns: None if it cannot be preempted: it is about to start, or the time is too early
    """
    if not lease.preemptible or lease.preempted_at is not None:
        return None
    if lease.status == _L.PENDING and not _is_prepared(lease) and not _holds_resources(lease):
        return Change(requeue_preempted(lease, now), {'lease.update': PREEMPTED_REASON})
    is_active = lease.status == _L.ACTIVE and all(each.status == _R.ACTIVE for each in lease.live)
    if not is_active or time < earliest:
        return None
    event = model.new_event(lease.id, model.PREEMPT, time, now)
    shelved = 'its servers' if _holds_resources(lease) else 'servers that are on its hosts by then'
    reason = (
        f'Another lease needs its resources: it is preempted on {dates.sentence(time)}, and '
        f'{shelved} are shelved.'
    )
    after = lease.with_events(event).moved_to(_L.ACTIVE, reason)
    return Change(after, {'lease.update': reason})


def _is_prepared(lease: Lease) -> bool:
    """Return whether the preparation of its resources has started."""
    return any(event.status != _E.UNDONE for event in lease.events_of(model.PREPARE))


def _holds_resources(lease: Lease) -> bool:
    """Return whether it has a resource that exists, as a server."""
    return any(each.unit_kind is None and each.is_made for each in lease.live)


class PreemptLease(EventHandler):
    event_type = model.PREEMPT
    due = '``preemption_notice`` after another lease was allocated what the lease has'
    action = (
        'shelves the servers on its hosts, and closes the hosts, or shelves its servers; then the '
        'lease is WAITING'
    )
    on_failure = 'retried without limit'
    notifications = {PREEMPTED: 'it has released what another lease needs, and is queued'}
    priority = 1
    cancelled_by = EndStage.END_BEGINS
    plugin_methods = ('preempt',)
    done_status = _R.PENDING

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status != _L.ACTIVE:
            return EventWork(lease, skip_reason='The lease has nothing to preempt.')
        follows = lease.events_of(model.REALLOCATE)
        lease = transitions.cancel_events(lease, follows, _PREEMPTING_REASON, now)
        return EventWork(
            lease.moved_to(_L.ACTIVE, _PREEMPTING_REASON), _active_reservations(lease)
        )

    def settle(self, lease: Lease, event: Event, outcomes: Outcomes, now: datetime) -> Change:
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
    due = model.new_event(lease.id, model.RETRY, now + preparation.RETRY_PAUSE, now)
    after = transitions.without_grant(lease, due, None, reservations).moved_to(
        _L.WAITING, PREEMPTED_REASON
    )
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
    if resource_types.HOSTS in held:
        held[resource_types.HOSTS] = sum(each.pieces for each in reservation.allocations)
    return dataclasses.replace(
        reservation,
        id=new_id,
        resource_id=new_id if is_allocated else reservation.resource_id,
        status=_R.DELETED,
        status_reason=f'Preempted by another lease on {dates.sentence(now)}.',
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

    A server of an immediate lease claims its host from its reservation on, until it is preempted.
    """
    again = any(was_preempted(event) for event in lease.events_of(model.PREEMPT))
    held = reservation.unit_kind is None and lease.kind == states.LeaseKind.IMMEDIATE
    if held and not again:
        return reservation.created_at
    return max(reservation.created_at, lease.start_date)


def was_preempted(event: Event) -> bool:
    """Return whether an event has preempted its lease."""
    return event.status == _E.DONE and event.status_reason is None
