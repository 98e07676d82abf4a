# SPDX-License-Identifier: Apache-2.0
"""End a lease now, or cancel it before its start. Pure."""

import dataclasses
import datetime

from climate_core.lease import events, model, states
from climate_core.lease.events import end
from climate_core.lease.results import Change


def apply(lease: model.Lease, now: datetime.datetime) -> Change:
    """Return a lease that ends now and frees what it holds.

    The lease keeps its dates if it is cancelled; otherwise it ends now. What was to happen to it
    until its end does not happen any more. One that is ending already is left as it is.
    """
    if lease.status in states.ENDING:
        return Change(lease)
    begun = now > lease.start_date
    after = _until(lease, now) if begun else lease
    reason = 'Its user ended the lease.' if begun else end.CANCELLED
    after = events.cancel_events(after, events.Stage.END_REQUESTED, reason, now)
    if not lease.live:
        told = {'lease.update': None, end.DONE: None}
        return Change(events.terminate(after, now, end.end_reason(after)), told)
    ending = dataclasses.replace(
        after,
        status=states.check(states.LEASE, lease.status, states.LeaseStatus.TERMINATING),
        status_reason=end.end_reason(after),
    )
    return Change(ending.with_events(end.due_now(ending, now)), {'lease.update': None})


def _until(lease: model.Lease, now: datetime.datetime) -> model.Lease:
    """Have a lease end now, unless its end is past."""
    until = min(lease.end_date, now)
    before_end = lease.before_end_date
    after = dataclasses.replace(
        lease,
        end_date=until,
        before_end_date=None if before_end is None else min(before_end, until),
    )
    event = lease.event(model.END)
    moved = [] if event is None else [dataclasses.replace(event, time=until)]
    return after.with_events(*moved)
