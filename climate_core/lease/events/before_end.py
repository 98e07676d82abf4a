# SPDX-License-Identifier: Apache-2.0
"""``before_end_lease``: the end of the lease is near."""

import datetime
from typing import Final

from climate_core.lease import model, states
from climate_core.lease.events import base

#: The end that was near is not near any more.
STOP: Final = f'lease.event.{model.BEFORE_END}.stop'


class BeforeEnd(base.Notice):
    event_type = model.BEFORE_END
    due = '``before_end_date`` of the lease'
    action = 'notifies'
    notifications = {
        'lease.event.before_end_lease': 'its end is near',
        STOP: (
            'it was prolonged after it was told that its end is near: that does not hold any more'
        ),
    }
    # Clients of Blazar give it with a new lease.
    accepted = True

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        if event.time == before.before_end_date and after.before_end_date is not None:
            return base.move_to(event, after.before_end_date, now)
        return super().move(event, before, after, now)


def add_missing(before: model.Lease, after: model.Lease, now: datetime.datetime) -> model.Lease:
    """Give a lease its event if its ``before_end_date`` is new."""
    followed = (e.time == before.before_end_date for e in before.events_of(model.BEFORE_END))
    if after.before_end_date is None or any(followed):
        return after
    return after.with_events(
        model.new_event(after.id, model.BEFORE_END, after.before_end_date, now)
    )


def is_revoked(before: model.Lease, after: model.Lease) -> bool:
    """Tell whether an end that was told to be near is not near any more."""
    done = states.EventStatus.DONE
    told = {e.id for e in before.events_of(model.BEFORE_END) if e.status == done}
    return any(e.id in told and e.open for e in after.events)
