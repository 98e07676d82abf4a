# SPDX-License-Identifier: Apache-2.0
"""Delete a lease. Pure."""

import dataclasses
import datetime

from climate_core.lease import events, model, states
from climate_core.lease.events import end
from climate_core.lease.results import Change

_L = states.LeaseStatus


def apply(lease: model.Lease, now: datetime.datetime) -> Change:
    """Return a lease that is deleted: at once if it holds nothing, otherwise by an end due now."""
    status = lease.status
    if status != _L.TERMINATED:
        status = states.check(states.LEASE, status, _L.DELETING)
    deleting = dataclasses.replace(lease, status=status)
    if not lease.live:
        gone = events.terminate(deleting, now, lease.status_reason)
        return Change(dataclasses.replace(gone, deleted_at=now), {'lease.delete': None})
    if lease.status == _L.DELETING:
        return Change(lease)
    stage = events.Stage.END_REQUESTED
    after = events.cancel_events(deleting, stage, 'The lease is deleted.', now)
    return Change(after.with_events(end.due_now(lease, now)))
