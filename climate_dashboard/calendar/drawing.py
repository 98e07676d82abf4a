# SPDX-License-Identifier: Apache-2.0
"""Draw a calendar as rows of bars, in percent of the width."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib import parse

from django import urls
from django.utils.translation import gettext as _

from climate_dashboard import times, words
from climate_dashboard.calendar.window import Window, percent
from climateclient.calendar import Bar, Capacity, HostBars, Step

#: What a bar must have of the width for its name to be in it and not beside it.
_ROOM: Final = 12.0
#: With so much of it behind a bar its name is there.
_WIDE: Final = 30.0
#: Of so many steps a row is drawn at most.
STEPS: Final = 200
_NARROW: Final = 6.0


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar: where it is, what is written in it, and where it leads."""

    left: str
    width: str
    label: str
    told: str
    url: str
    look: str
    side: str
    status: str = ''
    name: str = ''
    start: str = ''
    end: str = ''


@dataclass(slots=True)
class Row:
    """A line of the calendar: a lease, a resource, a host, or capacity."""

    label: str
    note: str = ''
    bars: list[DrawnBar] = field(default_factory=list)


def lease_rows(bars: Iterable[Bar], window: Window, by_lease: bool) -> list[Row]:
    """Return a row for each lease, or for each resource."""
    rows: dict[Any, Row] = {}
    for bar in bars:
        kind = words.word(words.RESOURCE_TYPES, bar.resource_type)
        resource = bar.resource_id or bar.reservation_id
        key = bar.lease_id if by_lease else (bar.resource_type, resource)
        row = rows.setdefault(key, Row(bar.lease_name if by_lease else f'{kind} {bar.resource}'))
        drawn = _bar(bar, window)
        # Of a lease all of whose resources have the same time one bar is enough.
        if drawn not in row.bars:
            row.bars.append(drawn)
    return [*rows.values()]


def host_rows(hosts: Iterable[HostBars], window: Window) -> list[Row]:
    """Return a row for each host."""
    return [
        Row(
            each.hypervisor_hostname,
            each.pool if each.reservable else f'{each.pool}, {_("no new leases")}',
            [_bar(bar, window) for bar in each.bars],
        )
        for each in hosts
    ]


def capacity_rows(found: Iterable[Capacity], window: Window, may_create: bool = True) -> list[Row]:
    """Return a row for each kind of capacity, those of what is counted whole first.

    :param may_create: what is free leads to the form of a lease
    """
    rows = []
    for each in sorted(found, key=lambda each: (each.kind, each.pool, each.unit != each.kind)):
        title = words.word(words.CAPACITY_KINDS, each.kind)
        if each.unit != each.kind:
            title = f'{title}: {words.word(words.UNITS, each.unit)}'
        steps = _merged(each.steps, window)
        rows.append(Row(title, each.pool, [_step(*step, window, may_create) for step in steps]))
    return rows


def _bar(bar: Bar, window: Window) -> DrawnBar:
    start, end = bar.start_date or window.start, bar.end_date or window.end
    left, right = window.place(start), window.place(end)
    status = words.word(words.LEASE_STATUSES, bar.status)
    shown = (times.show(bar.start_date), times.show(bar.end_date))
    return DrawnBar(
        percent(left),
        percent(right - left),
        f'{bar.lease_name} ({status})',
        _('%(name)s, %(status)s, from %(start)s to %(end)s')
        % {'name': bar.lease_name, 'status': status, 'start': shown[0], 'end': shown[1]},
        urls.reverse('horizon:project:climate_leases:detail', args=[bar.lease_id]),
        bar.status.lower(),
        _side(left, right),
        status,
        bar.lease_name,
        *shown,
    )


def _side(left: float, right: float) -> str:
    """Return where the name of a bar stands: in it, behind it, or where there is more room."""
    if right - left >= _ROOM:
        return 'inside'
    room = 100 - right
    return 'after' if room >= min(_WIDE, left) else 'before'


Interval = tuple[datetime.datetime, datetime.datetime, Step]


def _merged(steps: Sequence[Step], window: Window) -> list[Interval]:
    """Return the steps with their ends; of too many the worst of each part of the time."""
    ends = [each.time for each in steps[1:]] + [window.end]
    found = [
        (max(each.time, window.start), end, each)
        for each, end in zip(steps, ends, strict=False)
        if each.time is not None and end is not None and end > window.start
    ]
    if len(found) <= STEPS:
        return found
    return [_worst(part) for part in _parts(found)]


def _parts(found: list[Interval]) -> list[list[Interval]]:
    size = -(-len(found) // STEPS)
    return [found[first : first + size] for first in range(0, len(found), size)]


def _worst(part: list[Interval]) -> Interval:
    def most(of: Callable[[Step], int]) -> int:
        return max(of(each[2]) for each in part)

    step = Step(
        part[0][2].time,
        most(lambda each: each.total),
        most(lambda each: each.promised),
        most(lambda each: each.own),
        min(each[2].free for each in part),
    )
    return part[0][0], part[-1][1], step


def _step(
    start: datetime.datetime,
    end: datetime.datetime,
    step: Step,
    window: Window,
    may_create: bool,
) -> DrawnBar:
    left, right = window.place(start), window.place(end)
    told = _('%(free)s of %(total)s free, %(own)s are yours, from %(start)s to %(end)s') % {
        'free': step.free,
        'total': step.total,
        'own': step.own,
        'start': times.show(start),
        'end': times.show(end),
    }
    is_past = end <= window.now
    is_open = may_create and step.free > 0 and not is_past
    label = f'{step.free}/{step.total}' if right - left >= _NARROW else ''
    return DrawnBar(
        percent(left),
        percent(right - left),
        label,
        told,
        _create(max(start, window.now), end) if is_open else '',
        f'free-{_fifths(step)}',
        'inside',
        name=f'{step.free}/{step.total}',
        start=times.show(start),
        end=times.show(end),
    )


def _fifths(step: Step) -> int:
    """Return how much is free in fifths: 0 only if nothing is."""
    if step.free <= 0 or step.total <= 0:
        return 0
    return max(1, min(5, 5 * step.free // step.total))


def _create(start: datetime.datetime, end: datetime.datetime) -> str:
    query = parse.urlencode({'start': times.write(start), 'end': times.write(end)})
    return f'{urls.reverse("horizon:project:climate_leases:create")}?{query}'
