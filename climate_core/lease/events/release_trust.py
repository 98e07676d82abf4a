# SPDX-License-Identifier: Apache-2.0
"""``release_trust``: deletes the trust of the lease's owner."""

import dataclasses
import datetime

from climate_core.lease import model, results
from climate_core.lease.events import base


class ReleaseTrust(base.Cleanup):
    event_type = model.RELEASE_TRUST
    due = 'when the lease is over'
    action = "deletes the owner's trust in Keystone"
    lease_call = 'release_trust'

    def settle(
        self,
        lease: model.Lease,
        event: model.Event,
        outcomes: base.Outcomes,
        now: datetime.datetime,
    ) -> results.Change:
        if outcomes[event.id].result is results.Result.DONE:
            lease = dataclasses.replace(lease, trust_id=None)
        return super().settle(lease, event, outcomes, now)

    def after_termination(self, lease: model.Lease, now: datetime.datetime) -> model.Lease:
        """Have the trust deleted, if there is one and no event does so."""
        if lease.trust_id is None or any(e.open for e in lease.events_of(self.event_type)):
            return lease
        return lease.with_events(model.new_event(lease.id, self.event_type, now, now))
