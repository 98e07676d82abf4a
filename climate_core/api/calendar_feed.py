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
from climate_core.db.leases import ReservationCount
from climate_core.lease import model
from climate_core.lease.events import end
from climate_core.lease.states import LIVE, LeaseStatus, ReservationStatus

#: How often calendars should refresh the feed at most.
_REFRESH: Final = datetime.timedelta(minutes=15)
#: The status in iCalendar of leases that are not CONFIRMED. A lease in ERROR may have claims.
_STATUSES: Final[Mapping[str, str]] = {
    LeaseStatus.WAITING: 'TENTATIVE',
    LeaseStatus.IN_PROGRESS: 'TENTATIVE',
    LeaseStatus.TIMEDOUT: 'CANCELLED',
}
#: The status of reservations that have something allocated or claimed.
_HOLDING: Final = LIVE - {ReservationStatus.DELETING}
#: A calendar must have a component; programs do not show this one.
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
#: Characters that RFC 5545 forbids in a text, or that end a line for some programs.
_CONTROL: Final = re.compile(r'[\x00-\x1f\x7f-\x9f]')
#: Reasons of ended leases that never started. They keep dates at which nothing happened.
_NEVER_STARTED: Final = frozenset({end.CANCELLED, end.NEVER_ENOUGH})


def render_calendar(
    name: str, leases: Iterable[tuple[model.Lease, Sequence[ReservationCount]]]
) -> bytes:
    """Render an iCalendar with an event for each lease.

    The same leases give the same bytes, so that the feed has an ETag.

    :param name: the name of the calendar
    :param leases: the leases with the numbers of their reservations
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
        start = lease.start_date.replace(microsecond=0)
        end = lease.end_date.replace(microsecond=0)
        event.add('dtstart', start)
        # The end must be later than the start. An event without one ends when it starts.
        if end > start:
            event.add('dtend', end)
        event.add('summary', _text(lease.name))
        event.add('status', _status(lease))
        event.add('description', _description(lease, counts))
        # The owner of the calendar is not busy because of a lease.
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


def _description(lease: model.Lease, counts: Sequence[ReservationCount]) -> str:
    # Without released reservations; a lease that has none left is shown with all its reservations.
    holding = [count for count in counts if count.status in _HOLDING]
    types: Counter[str] = Counter()
    for count in holding or counts:
        types[resource_types.api_name(count.resource_type)] += count.number
    lines = [f'Lease {lease.id}', f'Status: {lease.status}', f'Kind: {lease.kind}']
    lines += [f'{number} x {name}' for name, number in sorted(types.items())]
    return '\n'.join(lines)


#: Bounds of the cache of one process.
MAX_FEEDS: Final = 1000
MAX_BYTES: Final = 32 << 20

#: The rendered feed, or the error that rejects its user.
Rendered = bytes | exceptions.Forbidden


class FeedCache:
    """Cache the rendered feeds of one process; the least recently read is removed first.

    :param seconds: how long a rendered feed is valid; 0 disables the cache
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
        """Return the cached feed, or render it.

        :raises climate_core.exceptions.FeedBusy: another request is rendering it
        :raises climate_core.exceptions.Forbidden: ``render`` raised it, or the cache has it
        """
        with self._lock:
            rendered = self._find(feed_id)
        if rendered is None:
            with self._exclusive(feed_id):
                try:
                    rendered = render()
                except exceptions.Forbidden as exc:
                    rendered = exc
                with self._lock:
                    self._put(feed_id, rendered)
        if isinstance(rendered, exceptions.Forbidden):
            raise exceptions.Forbidden(rendered.message, rendered.field)
        return rendered

    def _find(self, feed_id: str) -> Rendered | None:
        rendered_at, rendered = self._rendered.get(feed_id, (0.0, None))
        if rendered is None or self._clock() >= rendered_at + self._seconds:
            return None
        self._rendered.move_to_end(feed_id)
        return rendered

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
    def _exclusive(self, feed_id: str) -> Iterator[None]:
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
