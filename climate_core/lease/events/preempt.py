# SPDX-License-Identifier: Apache-2.0
"""``preempt_lease``: a preemptible lease that runs gives up what it has, and waits.

What it had until then stays among its reservations as a deleted one, so that its usage stays what
it was. Those that wait keep their ids: the servers name them.
"""

import dataclasses
from datetime import datetime
from typing import Final

from oslo_utils import uuidutils

from climate_common import amounts, dates
from climate_core.lease import model, results, schedule, states
from climate_core.lease.events import base, wait_again
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.results import Change, EventWork

_L = states.LeaseStatus
_R = states.ReservationStatus

#: The notification that it has given up what it had: the lease is WAITING.
DONE: Final = 'lease.event.preempt_lease'
#: The reason of a lease that waits.
REASON: Final = 'Another lease needs what it was promised. It waits until there is enough again.'
_GIVING_UP: Final = 'Another lease needs what it has, which is given up.'
#: How the reason of what was given up begins; the date follows. Usage is told by it where the
#: release before has written it.
GIVEN_UP: Final = 'Given up for another lease on '


class PreemptLease(base.EventHandler):
    event_type = model.PREEMPT
    due = '``preemption_notice`` after another lease was promised what the lease has'
    action = (
        'shelves the servers on its hosts, and closes these, or shelves its servers; then the '
        'lease is WAITING'
    )
    on_failure = 'retried for ever'
    notifications = {DONE: 'it has given up what another lease needs, and waits for it again'}
    priority = 1
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('preempt',)
    done_status = _R.PENDING

    def begin(self, lease: Lease, event: Event, now: datetime) -> EventWork:
        if lease.status != _L.ACTIVE:
            return EventWork(lease, skip_reason='The lease has nothing to give up.')
        follows = lease.events_of(model.REALLOCATE)
        lease = schedule.cancel_events(lease, follows, _GIVING_UP, now)
        return EventWork(lease.moved_to(_L.ACTIVE, _GIVING_UP), _held(lease))

    def settle(self, lease: Lease, event: Event, outcomes: base.Outcomes, now: datetime) -> Change:
        after = results.apply_outcomes(lease, outcomes, self.done_status, now)
        left = _held(after)
        given_up = [each for each in _held(lease) if each.id not in {one.id for one in left}]
        had = [_as_it_was(lease, each, now) for each in given_up]
        after = after.with_reservations(
            *(_without_grant(after.get_reservation(each.id)) for each in given_up)
        )
        joined = (*after.reservations, *model.in_order(after.reservations, had))
        after = dataclasses.replace(after, reservations=joined)
        if left:
            told = results.summarize_errors(r for r in left if r.status_reason is not None)
            after = dataclasses.replace(after, status_reason=told or _GIVING_UP)
            return Change(schedule.look_again(after, event, left, outcomes, now))
        after = dataclasses.replace(after, degraded=False)
        after = after.with_events(schedule.complete(event, None, now))
        return Change(wait(after, now), {DONE: REASON})

    def retries_forever(self, lease: Lease, event: Event) -> bool:
        return True


def wait(lease: Lease, now: datetime) -> Lease:
    """Return a lease that waits until there is enough for it again, or until its end."""
    nothing = (
        _without_grant(each) if each.status == _R.PENDING else each for each in lease.reservations
    )
    due = model.new_event(lease.id, model.RETRY, now + wait_again.PAUSE, now)
    after = wait_again.without_grant(lease, due, None, nothing).moved_to(_L.WAITING, REASON)
    return dataclasses.replace(after, retries_left=None)


def _held(lease: Lease) -> tuple[Reservation, ...]:
    return tuple(each for each in lease.reservations if each.status == _R.ACTIVE)


def _without_grant(reservation: Reservation) -> Reservation:
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


def _as_it_was(lease: Lease, reservation: Reservation, now: datetime) -> Reservation:
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
        status_reason=f'{GIVEN_UP}{dates.sentence(now)}.',
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
    before = any(is_done(each) for each in lease.events_of(model.PREEMPT))
    held = reservation.unit_kind is None and lease.kind == states.LeaseKind.IMMEDIATE
    if held and not before:
        return reservation.created_at
    return max(reservation.created_at, lease.start_date)


def is_done(event: Event) -> bool:
    """Tell whether an event had a lease give up what it had."""
    return event.status == states.EventStatus.DONE and event.status_reason is None
