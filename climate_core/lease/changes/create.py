# SPDX-License-Identifier: Apache-2.0
"""Create a lease with its first events. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from climate_core.context import RequestContext
from climate_core.lease import events, model, states
from climate_core.lease.events import cleanup
from climate_core.lease.model import Event, Lease, Reservation
from climate_core.lease.request import LeaseRequest


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
    """Return a lease with its first events; it has no trust yet.

    :param digest: of a request with an Idempotency-Key
    :param before_start: seconds before the start at which every lease is told
    :param external_end: whether the external service is told of its end
    :param kind: one of :class:`.states.Kind`
    """
    policy = asked.start_policy or states.StartPolicy.AUTO
    told = asked.before_start or ()
    events_ = first_events(
        lease_id,
        asked.start,
        asked.end,
        asked.before_end,
        asked.events,
        now,
        manual=policy == states.StartPolicy.MANUAL,
        before_start={*told, *before_start},
    )
    if external_end:
        events_ = (*events_, cleanup.external_end(lease_id, now))
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
        before_start=told,
        webhook=asked.webhook,
        request_digest=digest,
        kind=kind,
        priority=asked.priority or 0,
        preemptible=asked.preemptible,
        reservations=model.in_order((), reservations),
        events=events_,
    )


def first_events(
    lease_id: str,
    start: datetime,
    end: datetime,
    before_end: datetime | None,
    given: Iterable[tuple[str, datetime]],
    now: datetime,
    manual: bool = False,
    before_start: Iterable[int] = (),
) -> tuple[Event, ...]:
    """Return the events that a lease has at its creation.

    :param before_end: when ``before_end_lease`` is due; None for never
    :param given: types and times of the events that the user wants
    :param manual: whether the user starts the lease
    :param before_start: how many seconds before the start ``before_start_lease`` is due: never
        when the start is now, once for all that is past
    """
    wanted = [(model.READY if manual else model.START, start), (model.END, end), *given]
    if start > now:
        notices = {max(now, start - timedelta(seconds=each)) for each in before_start}
        wanted += [(model.BEFORE_START, time) for time in sorted(notices)]
    if before_end is not None:
        wanted.append((model.BEFORE_END, before_end))
    wanted.sort(key=lambda item: (item[1], events.of(item[0]).priority))
    return tuple(model.new_event(lease_id, kind, time, now) for kind, time in wanted)
