# SPDX-License-Identifier: Apache-2.0
"""Record that hosts of a lease are missing, were replaced, or are there again. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from climate_core.lease import results, states
from climate_core.lease.events import reallocate
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

#: What is told when nothing is missing any more.
COMPLETE: Final = 'All of its hosts are there again.'


def apply(
    lease: Lease,
    reservation_id: str,
    replaced: Mapping[str, Sequence[str]],
    missing: Mapping[str, str],
    now: datetime,
) -> Change:
    """Return a lease one of whose reservations has other hosts, or lacks some.

    :param replaced: the name of a host that it cannot keep -> the names of those that it was
        replaced by
    :param missing: the name of a host that has no replacement -> what is the matter with it, as
        the rest of a sentence; empty if all are there
    """
    before = lease.get_reservation(reservation_id)
    told = [
        f'Host {name} was replaced by {", ".join(new)}.' for name, new in sorted(replaced.items())
    ]
    told += [f'Host {name} {why}' for name, why in sorted(missing.items())]
    reason = ' '.join(told) or None
    is_known = before.missing_resources == bool(missing)
    if not replaced and is_known and (not missing or before.status_reason == reason):
        return Change(lease)
    after = lease.with_reservations(
        dataclasses.replace(
            before,
            missing_resources=bool(missing),
            resources_changed=before.resources_changed or bool(replaced),
            status_reason=reason,
            updated_at=now,
        )
    )
    if missing or before.missing_resources:
        after = _judged(after)
    if replaced and lease.has_started(now):
        after = reallocate.add(after, [reservation_id], now)
    # What was missing already was notified then.
    is_news = bool(replaced) or not is_known
    return Change(after, {'lease.update': reason or COMPLETE} if is_news else {})


def _judged(lease: Lease) -> Lease:
    """Return a lease that says whether something of it is missing."""
    degraded = any(each.missing_resources for each in lease.reservations)
    lease = dataclasses.replace(lease, degraded=degraded)
    # What a start waits for is told by the start.
    if lease.status == states.LeaseStatus.STARTING:
        return lease
    reason = results.permanent_errors(lease) or results.waits_for_user(lease)
    return dataclasses.replace(lease, status_reason=reason)
