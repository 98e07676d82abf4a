# SPDX-License-Identifier: Apache-2.0
"""Render leases as iCalendar (RFC 5545), with the library of that name. Pure."""

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from climate_common import resource_types
from climate_core.db.reservations import Count
from climate_core.lease import model
from climate_core.lease.events import end
from climate_core.lease.states import LIVE, LeaseStatus, ReservationStatus

#: How often calendars ask at most, as far as they heed it.
_REFRESH: Final = datetime.timedelta(minutes=15)
#: What calendars know of a lease that is not granted; one in ERROR may still hold something.
_STATUS: Final[Mapping[str, str]] = {
    LeaseStatus.WAITING: 'TENTATIVE',
    LeaseStatus.IN_PROGRESS: 'TENTATIVE',
    LeaseStatus.TIMEDOUT: 'CANCELLED',
}
_KEPT: Final = LIVE - {ReservationStatus.DELETING}
#: A calendar must have a component. Programs show nothing of this one.
_UTC: Final = """\
BEGIN:VTIMEZONE
TZID:UTC
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0000
TZOFFSETTO:+0000
END:STANDARD
END:VTIMEZONE
"""
#: What RFC 5545 forbids in a text, and what else ends a line for some programs.
_CONTROL: Final = re.compile(r'[\x00-\x1f\x7f-\x9f]')
#: Why leases that are over never began. They keep their dates, at which nothing happens any more.
_NEVER_BEGAN: Final = frozenset({end.CANCELLED, end.NEVER_ENOUGH})


def render(name: str, leases: Iterable[tuple[model.Lease, Sequence[Count]]]) -> bytes:
    """Return a calendar with an event for each lease.

    It is the same as long as the leases are, so that it can have an ETag.

    :param name: of the calendar
    :param leases: each with its reservations, counted
    """
    import icalendar

    calendar = icalendar.Calendar()
    calendar.add('prodid', '-//OpenStack//Climate//EN')
    calendar.add('version', '2.0')
    calendar.add('x-wr-calname', _text(name))
    calendar.add('refresh-interval', _REFRESH, parameters={'VALUE': 'DURATION'})
    # The library does not know the type of this property, and would write 0:15:00.
    calendar.add('x-published-ttl', icalendar.vDuration(_REFRESH))
    for lease, counts in leases:
        event = icalendar.Event()
        changed = (lease.updated_at or lease.created_at).replace(microsecond=0)
        event.add('uid', f'{lease.id}@climate')
        event.add('dtstamp', changed)
        event.add('last-modified', changed)
        event.add('sequence', lease.generation)
        start, end = (each.replace(microsecond=0) for each in (lease.start_date, lease.end_date))
        event.add('dtstart', start)
        # An end must be later. Without it the event ends when it starts.
        if end > start:
            event.add('dtend', end)
        event.add('summary', _text(lease.name))
        event.add('status', _status(lease))
        event.add('description', _description(lease, counts))
        # Others in the calendar are as free as before.
        event.add('transp', 'TRANSPARENT')
        calendar.add_component(event)
    if not calendar.subcomponents:
        calendar.add_component(icalendar.Timezone.from_ical(_UTC))
    return bytes(calendar.to_ical())


def _text(value: str) -> str:
    return _CONTROL.sub(' ', value)


def _status(lease: model.Lease) -> str:
    if lease.status_reason in _NEVER_BEGAN:
        return 'CANCELLED'
    return _STATUS.get(lease.status, 'CONFIRMED')


def _description(lease: model.Lease, counts: Sequence[Count]) -> str:
    # What is given back is in it no more; a lease that ends or is over is shown with all it had.
    kept = [each for each in counts if each.status in _KEPT]
    types: Counter[str] = Counter()
    for each in kept or counts:
        types[resource_types.api_name(each.resource_type)] += each.number
    lines = [f'Lease {lease.id}', f'Status: {lease.status}', f'Kind: {lease.kind}']
    lines += [f'{count} x {name}' for name, count in sorted(types.items())]
    return '\n'.join(lines)
