# SPDX-License-Identifier: Apache-2.0
"""Start a lease that waits for its user. Pure."""

from datetime import datetime

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.changes import wait
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

_L = states.LeaseStatus


def apply(lease: Lease, now: datetime) -> Change:
    """Return a lease whose start is due now; InvalidState if it starts by itself, or not now."""
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(
            f'Lease {lease.id} starts by itself at {dates.sentence(lease.start_date)}: only one '
            'whose start_policy is manual is started by its user.'
        )
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is over and cannot be started. Make another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waits until there is enough for it and cannot be started before.'
        )
    wait.check_not_given_up(lease)
    if lease.has_started(now):
        return Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.sentence(lease.start_date)}. '
            'Move its start_date if it shall be earlier.'
        )
    after = lease.moved_to(_L.STARTING, None) if lease.status == _L.PENDING else lease
    ready = lease.events_of(model.READY)
    after = schedule.cancel_events(after, ready, 'Its user started the lease.', now)
    start = lease.event(model.START)
    new = model.new_event(lease.id, model.START, now, now)
    due = new if start is None else schedule.reschedule(start, now, now)
    return Change(after.with_events(due), {'lease.update': None})
