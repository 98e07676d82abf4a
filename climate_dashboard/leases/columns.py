# SPDX-License-Identifier: Apache-2.0
"""Parts of tables that several panels have."""

import datetime
from typing import Any, Final

from django.utils.html import format_html
from horizon import tables

from climate_dashboard import times, words
from climateclient.models import Lease

#: A row is asked for again and again while something of it is about to change.
_SOON: Final = datetime.timedelta(minutes=5)
_SETTLED, _MOVING, _BROKEN = 'settled', 'moving', 'broken'
MOVEMENTS: Final = ((_SETTLED, True), (_MOVING, None), (_BROKEN, False))


def status(lease: Lease) -> Any:
    """Return the status of a lease, with its reason below it."""
    status = words.word(words.LEASE_STATUSES, lease.status)
    if reason := words.reason(lease):
        return format_html('{}<div class="climate-reason">{}</div>', status, reason)
    return status


def movement(lease: Lease) -> str:
    """Tell whether a lease is settled, about to change, or broken."""
    if lease.status in ('ERROR', 'TIMEDOUT'):
        return _BROKEN
    dates = {
        'WAITING': lease.next_retry_at,
        'PENDING': lease.start_date,
        'ACTIVE': lease.end_date,
    }
    next_date = dates.get(lease.status or '')
    is_soon = next_date is not None and next_date - times.now() < _SOON
    if lease.status in ('IN_PROGRESS', 'STARTING', 'TERMINATING', 'DELETING'):
        return _MOVING
    return _MOVING if is_soon and not lease.waits_for_user else _SETTLED


class TimeColumn(tables.Column):
    """A column of times, in the zone of the user."""

    def __init__(self, transform: str, **kwargs: Any) -> None:
        super().__init__(transform, filters=(times.show,), empty_value='-', **kwargs)
