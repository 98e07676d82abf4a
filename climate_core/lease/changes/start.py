# SPDX-License-Identifier: Apache-2.0
"""Start a lease that waits for its user. Pure."""

import dataclasses
import datetime

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.results import Change

_L = states.LeaseStatus


def apply(lease: model.Lease, now: datetime.datetime) -> Change:
    """Return a lease whose start is due now.

    :raises climate_core.exceptions.InvalidState: it starts by itself, or it is not the time
    """
    _check(lease, now)
    if lease.has_started(now):
        return Change(lease)
    if now < lease.start_date:
        raise exceptions.InvalidState(
            f'Lease {lease.id} cannot be started before {dates.serialize(lease.start_date)} '
            '(UTC). Move its start if it shall be earlier.'
        )
    after = lease
    if lease.status == _L.PENDING:
        status = states.check(states.LEASE, lease.status, _L.STARTING)
        after = dataclasses.replace(lease, status=status, status_reason=None)
    cancelled = (
        schedule.cancel_event(event, 'Its user started the lease.', now)
        for event in lease.events_of(model.READY)
    )
    start = lease.event(model.START)
    if start is None:
        start = model.new_event(lease.id, model.START, now, now)
    else:
        start = schedule.reschedule(start, now, now)
    return Change(after.with_events(*cancelled, start), {'lease.update': None})


def _check(lease: model.Lease, now: datetime.datetime) -> None:
    if lease.start_policy != states.StartPolicy.MANUAL:
        raise exceptions.InvalidState(f'Lease {lease.id} starts by itself.')
    if lease.status in states.ENDING or now >= lease.end_date:
        raise exceptions.InvalidState(f'Lease {lease.id} is over and cannot be started.')
