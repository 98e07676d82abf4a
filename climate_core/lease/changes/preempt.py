# SPDX-License-Identifier: Apache-2.0
"""Let a preemptible lease give up what another lease needs. Pure."""

from datetime import datetime

from climate_common import dates
from climate_core.lease import model, states
from climate_core.lease.events import preempt
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

_L = states.LeaseStatus
_R = states.ReservationStatus


def apply(lease: Lease, time: datetime, earliest: datetime, now: datetime) -> Change | None:
    """Return a lease that waits, or one that runs as one that gives up what it has.

    :param time: when one that runs gives it up
    :param earliest: when it may do so
    :returns: None if it cannot be preempted: it is about to begin, or has too little time
    """
    if not lease.preemptible or lease.preempted_at is not None:
        return None
    if lease.status == _L.PENDING and not _is_prepared(lease) and not _holds(lease):
        return Change(preempt.wait(lease, now), {'lease.update': preempt.REASON})
    asleep = any(each.status != _R.ACTIVE for each in lease.live)
    if lease.status != _L.ACTIVE or asleep or time < earliest:
        return None
    event = model.new_event(lease.id, model.PREEMPT, time, now)
    shelved = 'its servers' if _holds(lease) else 'servers that are on its hosts by then'
    told = (
        f'Another lease needs what it has: it is given up on {dates.sentence(time)}, and '
        f'{shelved} are shelved.'
    )
    after = lease.with_events(event).moved_to(_L.ACTIVE, told)
    return Change(after, {'lease.update': told})


def _is_prepared(lease: Lease) -> bool:
    """Tell whether what it is promised is being prepared."""
    events = lease.events_of(model.PREPARE)
    return any(each.status != states.EventStatus.UNDONE for each in events)


def _holds(lease: Lease) -> bool:
    """Tell whether it has a resource that is there, as a server."""
    return any(each.unit_kind is None and each.is_made for each in lease.live)
