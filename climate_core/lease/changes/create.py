# SPDX-License-Identifier: Apache-2.0
"""Give a new lease its events. Pure."""

import datetime
from collections.abc import Iterable

from climate_core.lease import events, model


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
