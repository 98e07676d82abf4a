# SPDX-License-Identifier: Apache-2.0
"""Create, start, end and delete a lease. Pure."""

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from climate_common import dates
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import events, model, states, transitions
from climate_core.lease.changes import queueing
from climate_core.lease.events import end
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.request import LeaseRequest
from climate_core.lease.transitions import Change

_L = states.LeaseStatus


def new_lease(
    lease_id: str,
    asked: LeaseRequest,
    digest: str | None,
    context: RequestContext,
    reservations: Iterable[Reservation],
    now: datetime,
    before_start: Iterable[int] = (),
    external_end: bool = False,
    kind: str = states.LeaseKind.IMMEDIATE,
) -> Lease:
    """Return a lease with its first events, without a trust.

    :param digest: of a request with an Idempotency-Key
    :param before_start: the seconds before the start of the notices that every lease has
    :param external_end: whether the external service is notified of its end
    :param kind: one of :class:`.states.LeaseKind`
    """
    policy = asked.start_policy or states.StartPolicy.AUTO
    notices = asked.before_start or ()
    first = events.first_events(
        lease_id,
        asked.start,
        asked.end,
        asked.before_end,
        asked.events,
        now,
        manual=policy == states.StartPolicy.MANUAL,
        before_start={*notices, *before_start},
    )
    if external_end:
        first = (*first, end.new_external_end(lease_id, now))
    return Lease(
        id=lease_id,
        name=asked.name,
        project_id=str(context.project_id),
        user_id=str(context.user_id),
        start_date=asked.start,
        end_date=asked.end,
        before_end_date=asked.before_end,
        created_at=now,
        start_policy=policy,
        before_start=notices,
        webhook=asked.webhook,
        request_digest=digest,
        kind=kind,
        priority=asked.priority or 0,
        preemptible=asked.preemptible,
        reservations=model.order_joining((), reservations),
        events=first,
    )


def start_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease whose start is due now.

    :raises climate_core.exceptions.InvalidState: it starts by itself, or cannot start now
    """
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(
            f'Lease {lease.id} starts by itself at {dates.sentence(lease.start_date)}: only one '
            'whose start_policy is manual is started by its user.'
        )
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is over and cannot be started. Make another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waits until there is enough for it and cannot be started before.'
        )
    queueing.check_changeable(lease)
    if lease.has_started(now):
        return Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.sentence(lease.start_date)}. '
            'Move its start_date if it shall be earlier.'
        )
    after = lease.moved_to(_L.STARTING, None) if lease.status == _L.PENDING else lease
    ready = lease.events_of(model.READY)
    after = transitions.cancel_events(after, ready, 'Its user started the lease.', now)
    start = lease.event(model.START)
    new = model.new_event(lease.id, model.START, now, now)
    due = new if start is None else transitions.reschedule_event(start, now, now)
    return Change(after.with_events(due), {'lease.update': None})


def end_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease that ends now and frees its resources.

    A lease that is cancelled before its start keeps its dates. Its other events are cancelled. A
    lease that is ending is not changed.
    """
    if lease.status in states.ENDING:
        return Change(lease)
    has_started = now > lease.start_date and lease.status not in states.UNGRANTED
    after = _with_earlier_end(lease, min(lease.end_date, now)) if has_started else lease
    reason = 'Its user ended the lease.' if has_started else end.CANCELLED
    after = events.cancel_by_stage(after, events.Stage.END_REQUESTED, reason, now)
    if not lease.live:
        ended = events.terminate_lease(after, now, end.end_reason(after))
        return Change(ended, {'lease.update': None, end.ENDED: None})
    ending = after.moved_to(_L.TERMINATING, end.end_reason(after))
    return Change(ending.with_events(end.end_now(ending, now)), {'lease.update': None})


def _with_earlier_end(lease: Lease, time: datetime) -> Lease:
    """Return a lease with an earlier end."""
    before_end = None if lease.before_end_date is None else min(lease.before_end_date, time)
    after = dataclasses.replace(lease, end_date=time, before_end_date=before_end)
    event = lease.event(model.END)
    return after if event is None else after.with_events(dataclasses.replace(event, time=time))


def delete_lease(lease: Lease, now: datetime) -> Change:
    """Return a lease that is deleted, by an end that is due now if it holds resources."""
    status = lease.status if lease.status == _L.TERMINATED else _L.DELETING
    deleting = lease.moved_to(status, lease.status_reason)
    if not lease.live:
        ended = events.terminate_lease(deleting, now, lease.status_reason)
        return Change(dataclasses.replace(ended, deleted_at=now), {'lease.delete': None})
    if lease.status == _L.DELETING:
        return Change(lease)
    reason = 'The lease is deleted.'
    after = events.cancel_by_stage(deleting, events.Stage.END_REQUESTED, reason, now)
    return Change(after.with_events(end.end_now(lease, now)))
