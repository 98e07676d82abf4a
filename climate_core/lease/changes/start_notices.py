# SPDX-License-Identifier: Apache-2.0
"""Move the events ``before_start_lease`` of a lease with its start. Pure."""

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta

from climate_core.lease import model, schedule, states
from climate_core.lease.model import Event, Lease


def apply(before: Lease, after: Lease, always: Iterable[int], now: datetime) -> Lease:
    """Return a lease whose notices follow its start and its ``before_start``.

    Each keeps its distance from the start. One that was told is told again if its new time is to
    come; of several whose time has passed one is told, now; none when the start is now.

    :param always: how many seconds before its start every lease is told
    """
    same = (before.start_date, before.before_start) == (after.start_date, after.before_start)
    if same or after.status != states.LeaseStatus.PENDING:
        return after
    old, new = {*always, *before.before_start}, {*always, *after.before_start}
    kept: list[Event] = []
    gone: set[str] = set()
    for event in after.events_of(model.BEFORE_START):
        distance = (before.start_date - event.time).total_seconds()
        if distance in old - new:
            if event.open:
                gone.add(event.id)
            continue
        if distance not in old and not (event.open and event.time > now):
            # It stands for several that were past when they were made: its distance from the start
            # means nothing.
            kept.append(event)
            continue
        new.discard(int(distance))
        time = after.start_date - timedelta(seconds=distance)
        kept.append(schedule.move_event(event, time, now))
    coming = after.start_date > now
    for seconds in sorted(new):
        time = after.start_date - timedelta(seconds=seconds)
        if coming and (time > now or seconds not in old):
            kept.append(model.new_event(after.id, model.BEFORE_START, time, now))
    kept = _one_now(kept, coming, now)
    events = tuple(e for e in after.events if e.id not in gone)
    return dataclasses.replace(after, events=events).with_events(*kept)


def _one_now(events: list[Event], coming: bool, now: datetime) -> list[Event]:
    """Keep only the last one of those that are due, and none if the start is past."""
    due = [e for e in events if e.open and e.next_at is not None and e.next_at <= now]
    due.sort(key=lambda e: e.time)
    closed = {e.id for e in (due[:-1] if coming else due)}
    why = 'One was told for all whose time had passed.' if coming else 'The lease starts now.'
    return [schedule.cancel_event(e, why, now) if e.id in closed else e for e in events]
