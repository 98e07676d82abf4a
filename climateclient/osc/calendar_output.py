# SPDX-License-Identifier: Apache-2.0
"""Draw bars of a calendar as text, in the local time zone."""

import dataclasses
import datetime
import itertools
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from cliff import columns

from climate_common import dates
from climate_common.words import escape
from climateclient.calendar import Bar, HostBars
from climateclient.osc.host_output import LinesColumn
from climateclient.osc.output import TimeColumn

LEASES: Final = ('Resource', 'Lease', 'Status', 'Calendar')
LEASES_LONG: Final = (
    'Resource Type',
    'Resource ID',
    'Lease ID',
    'Lease',
    'Project',
    'Status',
    'Kind',
    'Reservation',
    'Start',
    'End',
    'Resource Names',
)
HOSTS: Final = ('ID', 'Host', 'Pool', 'Calendar')
HOSTS_LONG: Final = ('ID', 'Host', 'Pool', 'Reservable', 'Bars')

#: How many characters bars have at least and at most.
_LEAST, _MOST = 28, 112
#: How many characters show a day, and how many the label of a day has.
_DAY, _LABEL = 8, len('|12-31')
_TAKEN, _ASKED, _FREE = '#', '~', '.'
#: How they are drawn on a terminal, and in which colour.
_DRAWN: Final = {
    _TAKEN: ('\u2588', 'green'),
    _ASKED: ('\u2592', 'yellow'),
    _FREE: ('\u00b7', 'dim'),
}
#: The status of leases that are not granted yet.
_UNGRANTED: Final = frozenset(('WAITING', 'IN_PROGRESS'))

Row = tuple[Any, ...]


class BarsColumn(columns.FormattableColumn[Any]):
    """The bars of a host."""

    def human_readable(self) -> str:
        return ', '.join(each.lease_name for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        names = ('lease_id', 'lease_name', 'project_id', 'status', 'reservation_id')
        return [
            {
                **{
                    name: value
                    for name, value in dataclasses.asdict(each).items()
                    if name in names
                },
                'start_date': dates.isoformat(each.start_date),
                'end_date': dates.isoformat(each.end_date),
            }
            for each in self._value
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """The time that is drawn."""

    since: datetime.datetime
    until: datetime.datetime

    def place(self, time: datetime.datetime, width: int) -> float:
        """Return where a time is in this number of characters."""
        return width * ((time - self.since) / (self.until - self.since))

    @property
    def zone(self) -> str:
        """Return the name of the local time zone; in summer and in winter if it has both."""
        names = (each.astimezone().tzname() or '' for each in (self.since, self.until))
        return '/'.join(dict.fromkeys(names))


def bar(times: Iterable[Bar], span: Span, width: int) -> str:
    """Draw the times of bars; each has one character at least."""
    drawn = [_FREE] * width
    for each in times:
        if each.start_date is None or each.end_date is None:
            continue
        first = int(max(0.0, span.place(each.start_date, width)))
        last = min(float(width), span.place(each.end_date, width))
        for place in range(first, width):
            if place < last:
                drawn[place] = _ASKED if each.status in _UNGRANTED else _TAKEN
    return ''.join(drawn)


def legend(bars: Iterable[Bar], on_terminal: bool) -> str | None:
    """Return what the sign of what is not granted yet means; None where it is not drawn."""
    if all(each.status not in _UNGRANTED for each in bars):
        return None
    sign = _DRAWN[_ASKED][0] if on_terminal else _ASKED
    return f'{sign} is asked for and not granted yet.'


def ruler(span: Span, width: int) -> str:
    """Write the days, each at its local midnight.

    Days are left out where there is no room, which is at less than ``_DAY`` characters a day. The
    label of the last day has its room behind the bars.
    """
    text = ''
    since = span.since.astimezone()
    day = since.date() + datetime.timedelta(days=since.time() > datetime.time())
    while True:
        midnight = datetime.datetime.combine(day, datetime.time()).astimezone()
        place, label = int(span.place(midnight, width)), f'|{day:%m-%d}'
        if midnight >= span.until:
            return text.ljust(width + _LABEL - 1)
        if not text or place > len(text):
            text = text.ljust(place) + label
        day += datetime.timedelta(days=1)


def leases(bars: Sequence[Bar], span: Span, on_terminal: bool) -> list[Row]:
    """Return the rows of a table of leases, below those of the days."""
    rows = [
        (f'{each.resource_type} {each.resource}', each.lease_name, each.status) for each in bars
    ]
    return _rows(('', '', span.zone), rows, [[each] for each in bars], span, on_terminal)


def leases_long(bars: Iterable[Bar]) -> list[Row]:
    """Return the rows of leases for programs."""
    return [
        (
            each.resource_type,
            each.resource_id,
            each.lease_id,
            each.lease_name,
            each.project_id,
            each.status,
            each.kind,
            each.reservation_id,
            TimeColumn(each.start_date),
            TimeColumn(each.end_date),
            LinesColumn(each.resource_names),
        )
        for each in bars
    ]


def draw(names: Sequence[str], rows: Iterable[Row], stream: TextIO) -> None:
    """Draw a table of bars on a terminal."""
    from rich import box, console, table, text  # costs a tenth of a second

    drawn = table.Table(box=box.SIMPLE_HEAD)
    for name in names:
        drawn.add_column(name, no_wrap=True)
    head, *others = rows
    drawn.add_row(*map(text.Text, map(str, head)), style='bold')
    for *beside, times in others:
        bar_ = text.Text()
        for sign, of_sign in itertools.groupby(times):
            shape, style = _DRAWN[sign]
            bar_.append(shape * len(list(of_sign)), style)
        drawn.add_row(*(text.Text(str(each)) for each in beside), bar_)
    console.Console(file=stream).print(drawn)


def hosts(found: Sequence[HostBars], span: Span, on_terminal: bool) -> list[Row]:
    """Return the rows of a table of hosts, below those of the days."""
    rows = [(each.id, each.hypervisor_hostname, each.pool) for each in found]
    return _rows(('', '', span.zone), rows, [each.bars for each in found], span, on_terminal)


def hosts_long(found: Iterable[HostBars]) -> list[Row]:
    """Return the rows of hosts for programs."""
    return [
        (each.id, each.hypervisor_hostname, each.pool, each.reservable, BarsColumn(each.bars))
        for each in found
    ]


def _rows(
    head: Row, rows: Sequence[Row], bars: Sequence[Sequence[Bar]], span: Span, on_terminal: bool
) -> list[Row]:
    rows = [tuple(escape(str(each)) for each in row) for row in rows]
    beside = sum(max(len(each) for each in column) for column in zip(head, *rows, strict=True))
    # Each column has a blank on both sides and a line, and one line is at the end.
    room = shutil.get_terminal_size((120, 24)).columns - beside - 3 * (len(head) + 1) - _LABEL
    # As in all tables, nothing is left out where no terminal limits the lines.
    least = _LEAST if on_terminal else _DAY * (span.until - span.since).days
    width = max(least, min(_MOST, room))
    drawn = [(*row, bar(times, span, width)) for row, times in zip(rows, bars, strict=True)]
    return [(*head, ruler(span, width)), *drawn]
