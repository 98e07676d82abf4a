# SPDX-License-Identifier: Apache-2.0
"""``end_reservation``: frees one resource that its user took out of the lease."""

import dataclasses
import datetime

from climate_core.lease import model, results, states
from climate_core.lease.events import base
from climate_core.lease.results import Change, Work


class EndReservation(base.EventHandler):
    event_type = model.END_RESERVATION
    due = 'when the user takes a resource out of the lease'
    action = 'does the end action of this resource'
    on_failure = 'retried for ever'
    notifications = {'lease.update': 'a resource left the lease'}
    priority = 1
    hidden = True
    cancelled_by = base.Stage.END_BEGINS
    plugin_methods = ('end',)

    def begin(self, lease: model.Lease, event: model.Event, now: datetime.datetime) -> Work:
        todo = tuple(r for r in lease.live if r.id == event.reservation_id)
        if not todo or lease.status in states.ENDING:
            return Work(lease, skip_reason='It is freed with the rest of the lease.')
        return Work(lease, todo)

    def settle(
        self,
        lease: model.Lease,
        event: model.Event,
        outcomes: base.Outcomes,
        now: datetime.datetime,
    ) -> Change:
        after = results.apply_outcomes(lease, outcomes, self.done_status, now)
        if any(r.id == event.reservation_id for r in after.live):
            todo = list(outcomes.values())
            return Change(after.with_events(results.reschedule(event, todo, now)))
        after = after.with_events(results.complete(event, None, now))
        if lease.status == states.LeaseStatus.ERROR:
            # What was taken out may be what was wrong.
            after = dataclasses.replace(after, status=results.recovered_status(after, now))
            reason = results.permanent_errors(after) or results.waits_for_user(after)
            after = dataclasses.replace(after, status_reason=reason)
        return Change(after, {'lease.update': None})

    def retries_forever(self, lease: model.Lease, event: model.Event) -> bool:
        return True
