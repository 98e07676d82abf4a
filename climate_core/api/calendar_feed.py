# SPDX-License-Identifier: Apache-2.0
"""The feed of leases for calendars: rendered as iCalendar (RFC 5545), and cached."""

import collections
import contextlib
import datetime
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from climate_common import resource_types
from climate_core import exceptions
from climate_core.db.reservations import Count
from climate_core.lease import model
from climate_core.lease.events import end
from climate_core.lease.states import LIVE, LeaseStatus, ReservationStatus

#: How often calendars ask at most, as far as they heed it.
_REFRESH: Final = datetime.timedelta(minutes=15)
#: What calendars know of a lease that is not granted; one in ERROR may still hold something.
_STATUSES: Final[Mapping[str, str]] = {
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
_NEVER_STARTED: Final = frozenset({end.CANCELLED, end.NEVER_ENOUGH})


def render_calendar(name: str, leases: Iterable[tuple[model.Lease, Sequence[Count]]]) -> bytes:
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
    if lease.status_reason in _NEVER_STARTED:
        return 'CANCELLED'
    return _STATUSES.get(lease.status, 'CONFIRMED')


def _description(lease: model.Lease, counts: Sequence[Count]) -> str:
    # What is given back is in it no more; a lease that ends or is over is shown with all it had.
    kept = [each for each in counts if each.status in _KEPT]
    types: Counter[str] = Counter()
    for each in kept or counts:
        types[resource_types.api_name(each.resource_type)] += each.number
    lines = [f'Lease {lease.id}', f'Status: {lease.status}', f'Kind: {lease.kind}']
    lines += [f'{count} x {name}' for name, count in sorted(types.items())]
    return '\n'.join(lines)


#: Bounds of one process.
MAX_FEEDS: Final = 1000
MAX_BYTES: Final = 32 << 20

#: A feed as it is sent, or why its user may not see it.
Rendered = bytes | exceptions.Forbidden


class FeedCache:
    """The feeds that this process rendered last; the least recently read is removed first.

    :param seconds: how long a rendered feed is used; 0: not at all
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._rendered: collections.OrderedDict[str, tuple[float, Rendered]] = (
            collections.OrderedDict()
        )
        self._bytes = 0
        self._busy: set[str] = set()

    def get(self, feed_id: str, render: Callable[[], bytes]) -> bytes:
        """Return a feed as it was rendered a short time ago, or render it.

        :raises climate_core.exceptions.FeedBusy: another request is rendering it
        :raises climate_core.exceptions.Forbidden: ``render`` raised it, now or a short time ago
        """
        with self._lock:
            found = self._find(feed_id)
        if found is None:
            with self._alone(feed_id):
                try:
                    found = render()
                except exceptions.Forbidden as exc:
                    found = exc
                with self._lock:
                    self._put(feed_id, found)
        if isinstance(found, exceptions.Forbidden):
            raise exceptions.Forbidden(found.message, found.field)
        return found

    def _find(self, feed_id: str) -> Rendered | None:
        made, found = self._rendered.get(feed_id, (0.0, None))
        if found is None or self._clock() >= made + self._seconds:
            return None
        self._rendered.move_to_end(feed_id)
        return found

    def _put(self, feed_id: str, rendered: Rendered) -> None:
        self._remove(feed_id)
        if not self._seconds:
            return
        self._rendered[feed_id] = self._clock(), rendered
        self._bytes += _size(rendered)
        while self._bytes > MAX_BYTES or len(self._rendered) > MAX_FEEDS:
            self._remove(next(iter(self._rendered)))

    def _remove(self, feed_id: str) -> None:
        _, rendered = self._rendered.pop(feed_id, (0.0, b''))
        self._bytes -= _size(rendered)

    @contextlib.contextmanager
    def _alone(self, feed_id: str) -> Iterator[None]:
        with self._lock:
            if feed_id in self._busy:
                raise exceptions.FeedBusy(
                    'The feed is being rendered for another request. Try again.'
                )
            self._busy.add(feed_id)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(feed_id)


def _size(rendered: Rendered) -> int:
    return len(rendered) if isinstance(rendered, bytes) else 0
