# SPDX-License-Identifier: Apache-2.0
"""The time that a calendar shows: read from its address, moved, and divided into days. Pure."""

import datetime
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib import parse

from django.utils import dateformat

from climate_common import dates

HOUR: Final = datetime.timedelta(hours=1)
DAY: Final = datetime.timedelta(days=1)
#: The lengths of time that can be shown, by their names in an address.
SPANS: Final = {
    '1h': HOUR,
    '6h': 6 * HOUR,
    '1d': DAY,
    '3d': 3 * DAY,
    '7d': 7 * DAY,
    '14d': 14 * DAY,
    '28d': 28 * DAY,
}
_USUAL: Final = '7d'
#: What an address says about the rows, which stays as it is when the time is changed.
_KEPT: Final = ('group_by', 'q')
#: So much of the time is before now, if nothing else is asked for.
_PAST: Final = 4
#: The length of time -> the hours between two lines; days, where none is named.
_HOURS: Final = {'1h': 1, '6h': 1, '1d': 3}
_SATURDAY: Final = 5
#: Between whole hours on all clocks of the world lie multiples of this.
_QUARTER: Final = datetime.timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Tick:
    """A line at the beginning of a day or an hour, and the time until the next one."""

    left: str
    width: str
    label: str
    is_weekend: bool
    start: datetime.datetime
    end: datetime.datetime


@dataclass(frozen=True, slots=True)
class Window:
    """A time, in the zone of the user who looks at it.

    Days are as long as they are: of 23 and of 25 hours where the clocks change.
    """

    start: datetime.datetime
    span: str
    now: datetime.datetime
    kept: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, query: Mapping[str, str], now: datetime.datetime) -> Self:
        """Read the ``span`` and the ``start`` of an address; what cannot be read is left out.

        :param now: the present in the zone of the user
        """
        span = query.get('span', '')
        span = span if span in SPANS else _USUAL
        usual = (now - SPANS[span] / _PAST).replace(minute=0)
        try:
            start = dates.parse(query['start'], now, now.tzinfo).astimezone(now.tzinfo)
        except (KeyError, dates.DateError):
            start = usual
        kept = tuple((name, query[name]) for name in _KEPT if query.get(name))
        return cls(start, span, now, kept)

    @property
    def end(self) -> datetime.datetime:
        return self._after(self.start, SPANS[self.span])

    def place(self, time: datetime.datetime) -> float:
        """Return where a time is, in percent of the width; within 0 and 100."""
        passed = _utc(time) - _utc(self.start)
        return min(100.0, max(0.0, 100 * (passed / SPANS[self.span])))

    @property
    def now_place(self) -> str | None:
        """Return where the present is; None if it is not in this time."""
        is_here = _utc(self.start) <= _utc(self.now) < _utc(self.end)
        return percent(self.place(self.now)) if is_here else None

    def moved(self, times: int) -> str:
        """Return the query of the address of a time that is this number of lengths later."""
        start = self._after(self.start, times * SPANS[self.span])
        return self.query(start=start)

    def query(self, start: datetime.datetime | None = None, span: str | None = None) -> str:
        """Return the query of an address, without a start for one around the present."""
        values = {'span': span or self.span}
        if start is not None:
            values['start'] = start.isoformat(' ', 'minutes')
        return parse.urlencode([*values.items(), *self.kept])

    def spans(self) -> list[tuple[str, str, bool]]:
        """Return the lengths that can be chosen: name, query, whether it is this one."""
        return [
            (name, self.query(start=self.start, span=name), name == self.span) for name in SPANS
        ]

    def ticks(self) -> list[Tick]:
        """Return the days, or the hours if it is short; the first may have begun before."""
        times = [self.start, *self._lines(), self.end]
        made = []
        for time, following in itertools.pairwise(times):
            left, right = self.place(time), self.place(following)
            is_weekend = time.weekday() >= _SATURDAY
            width = percent(right - left)
            label = self._label(time)
            made.append(Tick(percent(left), width, label, is_weekend, time, following))
        return made

    def _label(self, time: datetime.datetime) -> str:
        if self.span not in _HOURS:
            return dateformat.format(time, 'D j M')
        # Where the clocks change an hour may come twice: then zones have their names.
        is_changed = self.start.utcoffset() != self.end.utcoffset()
        return f'{time:%H:%M %Z}' if is_changed else f'{time:%H:%M}'

    def _lines(self) -> Iterator[datetime.datetime]:
        times = self._hours(_HOURS[self.span]) if self.span in _HOURS else self._midnights()
        yield from itertools.takewhile(lambda time: _utc(time) < _utc(self.end), times)

    def _midnights(self) -> Iterator[datetime.datetime]:
        """Yield the beginnings of days; where the clocks skip midnight, when they do."""
        for number in itertools.count(1):
            day = self.start.date() + number * DAY
            time = datetime.datetime.combine(day, datetime.time(), self.start.tzinfo)
            yield _utc(time).astimezone(self.start.tzinfo)

    def _hours(self, every: int) -> Iterator[datetime.datetime]:
        """Yield whole hours of the clock as they come: one twice, or never, if it is changed."""
        time = _utc(self.start).replace(second=0, microsecond=0)
        time -= datetime.timedelta(minutes=time.minute % 15)
        while True:
            time += _QUARTER
            shown = time.astimezone(self.start.tzinfo)
            if shown.minute == 0 and shown.hour % every == 0:
                yield shown

    def _after(self, time: datetime.datetime, length: datetime.timedelta) -> datetime.datetime:
        return (_utc(time) + length).astimezone(self.now.tzinfo)


def percent(value: float) -> str:
    """Write a number for a style sheet: with a point, whatever the language."""
    return f'{value:.3f}'


def _utc(time: datetime.datetime) -> datetime.datetime:
    # Differences of times of one zone would count what its clocks show.
    return time.astimezone(datetime.UTC)
