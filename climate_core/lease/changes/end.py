# SPDX-License-Identifier: Apache-2.0
"""End a lease now, or cancel it before its start. Pure."""

import dataclasses
from datetime import datetime

from climate_core.lease import events, states
from climate_core.lease.events import end
from climate_core.lease.model import END, Lease
from climate_core.lease.results import Change


def apply(lease: Lease, now: datetime) -> Change:
    """Return a lease that ends now and frees what it holds.

    The lease keeps its dates if it is cancelled; otherwise it ends now. What was to happen to it
    until its end does not happen any more. One that is ending already is left as it is.
    """
    if lease.status in states.ENDING:
        return Change(lease)
    has_started = now > lease.start_date and lease.status not in states.UNGRANTED
    after = _until(lease, min(lease.end_date, now)) if has_started else lease
    reason = 'Its user ended the lease.' if has_started else end.CANCELLED
    after = events.cancel_events(after, events.Stage.END_REQUESTED, reason, now)
    if not lease.live:
        told = {'lease.update': None, end.DONE: None}
        return Change(events.terminate(after, now, end.end_reason(after)), told)
    ending = after.moved_to(states.LeaseStatus.TERMINATING, end.end_reason(after))
    return Change(ending.with_events(end.due_now(ending, now)), {'lease.update': None})


def _until(lease: Lease, time: datetime) -> Lease:
    """Return a lease with an earlier end."""
    before_end = None if lease.before_end_date is None else min(lease.before_end_date, time)
    after = dataclasses.replace(lease, end_date=time, before_end_date=before_end)
    ends = lease.events_of(END)[:1]
    return after.with_events(*(dataclasses.replace(each, time=time) for each in ends))
