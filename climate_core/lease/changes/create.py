# SPDX-License-Identifier: Apache-2.0
"""Create a lease with its first events. Pure."""

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING

from climate_core.lease import events, model, states
from climate_core.lease.request import LeaseRequest

if TYPE_CHECKING:
    from climate_core.context import RequestContext


def new_lease(
    lease_id: str,
    asked: LeaseRequest,
    digest: str | None,
    context: 'RequestContext',
    reservations: Iterable[model.Reservation],
    now: datetime.datetime,
    before_start: Iterable[int] = (),
    external_end: bool = False,
) -> model.Lease:
    """Return a lease with its first events; it has no trust yet.

    :param digest: of a request with an Idempotency-Key
    :param context: of its owner
    :param before_start: seconds before the start at which the start is told, besides those of the
        request
    :param external_end: whether the external service is told of its end
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
        events_ = (*events_, events.external_end.waiting(lease_id, now))
    return model.Lease(
        id=lease_id,
        name=asked.name,
        project_id=str(context.project_id),
        user_id=str(context.user_id),
        start_date=asked.start,
        end_date=asked.end,
        before_end_date=asked.before_end,
        status=states.LeaseStatus.PENDING,
        status_reason=None,
        degraded=False,
        trust_id=None,
        generation=0,
        created_at=now,
        updated_at=None,
        deleted_at=None,
        start_policy=policy,
        before_start=told,
        webhook=asked.webhook,
        request_digest=digest,
        reservations=model.in_order((), reservations),
        events=events_,
    )


def first_events(
    lease_id: str,
    start: datetime.datetime,
    end: datetime.datetime,
    before_end: datetime.datetime | None,
    given: Iterable[tuple[str, datetime.datetime]],
    now: datetime.datetime,
    manual: bool = False,
    before_start: Iterable[int] = (),
) -> tuple[model.Event, ...]:
    """Return the events that a lease has at its creation.

    :param before_end: when ``before_end_lease`` is due; None for never
    :param given: types and times of the events that the user wants
    :param manual: whether the user starts the lease
    :param before_start: how many seconds before the start ``before_start_lease`` is due
    """
    wanted = [(model.READY if manual else model.START, start), (model.END, end), *given]
    wanted += [(model.BEFORE_START, time) for time in start_notices(start, before_start, now)]
    if before_end is not None:
        wanted.append((model.BEFORE_END, before_end))
    wanted.sort(key=lambda item: (item[1], events.of(item[0]).priority))
    return tuple(model.new_event(lease_id, kind, time, now) for kind, time in wanted)


def start_notices(
    start: datetime.datetime, seconds: Iterable[int], now: datetime.datetime
) -> list[datetime.datetime]:
    """Return when a coming start is told: never when it is now, once for all that is past."""
    if start <= now:
        return []
    return sorted({max(now, start - datetime.timedelta(seconds=each)) for each in seconds})
