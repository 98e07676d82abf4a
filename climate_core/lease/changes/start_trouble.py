# SPDX-License-Identifier: Apache-2.0
"""Record before the start of a lease why it will fail, and that it will not any more. Pure.

The start is tried in any case, and says itself what became of it.
"""

import dataclasses
from typing import Final

from climate_core.lease import model, results, states
from climate_core.lease.events import start
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

#: What the reason of a lease has if it is told.
TOLD: Final = 'The start will fail: '
#: What is told when it is well again.
ACCEPTED: Final = 'Keystone accepts the trust of the owner again.'


def apply(lease: Lease, reason: str | None) -> Change:
    """Return a lease that says why its start will fail, which its user is told once.

    :param reason: a sentence; None if nothing is wrong
    """
    waits = any(e.status == states.EventStatus.UNDONE for e in lease.events_of(model.START))
    is_told = TOLD in (lease.status_reason or '')
    is_over = lease.status != states.LeaseStatus.PENDING or lease.deleted_at is not None
    if is_over or not waits or is_told == (reason is not None):
        return Change(lease)
    known = results.permanent_errors(lease)
    if reason is None:
        after = dataclasses.replace(lease, status_reason=known)
        return Change(after, {'lease.update': ACCEPTED})
    told = TOLD + reason
    after = dataclasses.replace(lease, status_reason=f'{told} {known}' if known else told)
    return Change(after, {start.WARNING: told})
