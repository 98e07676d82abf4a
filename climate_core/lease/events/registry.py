# SPDX-License-Identifier: Apache-2.0
"""Find the handler of a type of event. The package fills the table from its rows."""

import dataclasses
import datetime
from collections.abc import Iterable

from climate_core.lease import model, schedule, states
from climate_core.lease.events import base

_TABLE: dict[str, base.EventHandler] = {}


def register(handlers: Iterable[base.EventHandler]) -> None:
    """Add rows to the table."""
    _TABLE.update({handler.event_type: handler for handler in handlers})


def of(event_type: str) -> base.EventHandler:
    """Return the handler of a type; one without a row of its own was named by a user."""
    return _TABLE.get(event_type, _TABLE[base.BY_USER])


def cancel_events(
    lease: model.Lease, stage: base.Stage, reason: str, now: datetime.datetime
) -> model.Lease:
    """Cancel the open events of a lease that have no place after a stage of its end."""
    return lease.with_events(
        *(
            schedule.cancel_event(event, reason, now)
            for event in lease.events
            if of(event.event_type).cancelled_by <= stage
        )
    )


def terminate(lease: model.Lease, now: datetime.datetime, reason: str | None) -> model.Lease:
    """Return a lease that holds nothing as TERMINATED; hide it if it is being deleted."""
    deleting = lease.status == states.LeaseStatus.DELETING
    after = dataclasses.replace(
        lease,
        status=states.check(states.LEASE, lease.status, states.LeaseStatus.TERMINATED),
        status_reason=reason,
        deleted_at=now if deleting else lease.deleted_at,
    )
    after = cancel_events(after, base.Stage.TERMINATED, 'The lease is over.', now)
    for handler in _TABLE.values():
        after = handler.after_termination(after, now)
    return after
