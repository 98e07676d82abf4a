# SPDX-License-Identifier: Apache-2.0
"""Change when an event is due: cancel, move or repeat it. Pure."""

import dataclasses
import datetime

from climate_core.lease import model, states


def cancel_event(event: model.Event, reason: str | None, now: datetime.datetime) -> model.Event:
    """Return the event as done without doing it; a claim on it can no longer be finished."""
    if not event.open:
        return event
    return dataclasses.replace(
        event,
        status=states.EventStatus.DONE,
        status_reason=reason,
        generation=event.generation + 1,
        next_at=None,
        updated_at=now,
    )


def reschedule(event: model.Event, time: datetime.datetime, now: datetime.datetime) -> model.Event:
    """Return the event as due at ``time``, once more if it was done."""
    return dataclasses.replace(
        event,
        status=states.EventStatus.UNDONE,
        status_reason=None,
        generation=event.generation + 1,
        attempts=0,
        next_at=time,
        updated_at=now,
    )


def move_event(event: model.Event, time: datetime.datetime, now: datetime.datetime) -> model.Event:
    """Give an event a new time; one that was done is done again if that is to come."""
    if event.open or time > now:
        event = reschedule(event, time, now)
    return dataclasses.replace(event, time=time)
