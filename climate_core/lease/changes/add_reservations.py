# SPDX-License-Identifier: Apache-2.0
"""Let resources join a lease. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.changes import wait
from climate_core.lease.events import prepare
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.results import Change


def apply(
    lease: Lease,
    reservations: Sequence[Reservation],
    now: datetime,
    preparing: Mapping[str, timedelta | None] | None = None,
) -> Change:
    """Return a lease with more reservations; if it has started, they are woken at once.

    A lease in ERROR takes more as well: what failed does not keep the others from being woken.

    :param preparing: those that are to be prepared, see :func:`.events.prepare.add`
    :returns: the lease as it is if nothing joins it
    :raises climate_core.exceptions.InvalidState: it is over, or about to be, or waits
    """
    if not reservations:
        return Change(lease)
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: nothing can be added to it. Make another lease.'
        )
    if lease.status in states.UNGRANTED:
        raise exceptions.InvalidState(
            f'Lease {lease.id} waits until there is enough for it: nothing can be added to it '
            'before. Make another lease.'
        )
    wait.check_not_given_up(lease)
    joining = model.in_order(lease.reservations, reservations)
    after = dataclasses.replace(lease, reservations=(*lease.reservations, *joining))
    start = lease.event(model.START)
    if start is not None and not start.open:
        after = after.with_events(schedule.reschedule(start, now, now))
    return Change(prepare.add(after, preparing or {}, now), {'lease.update': None})
