# SPDX-License-Identifier: Apache-2.0
"""Delete a lease. Pure."""

import dataclasses
from datetime import datetime

from climate_core.lease import events, states
from climate_core.lease.events import end
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

_L = states.LeaseStatus


def apply(lease: Lease, now: datetime) -> Change:
    """Return a lease that is deleted: at once if it holds nothing, otherwise by an end due now."""
    status = lease.status if lease.status == _L.TERMINATED else _L.DELETING
    deleting = lease.moved_to(status, lease.status_reason)
    if not lease.live:
        gone = events.terminate(deleting, now, lease.status_reason)
        return Change(dataclasses.replace(gone, deleted_at=now), {'lease.delete': None})
    if lease.status == _L.DELETING:
        return Change(lease)
    stage = events.Stage.END_REQUESTED
    after = events.cancel_events(deleting, stage, 'The lease is deleted.', now)
    return Change(after.with_events(end.due_now(lease, now)))
