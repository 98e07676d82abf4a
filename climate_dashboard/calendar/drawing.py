# SPDX-License-Identifier: Apache-2.0
"""Draw a calendar as rows of bars, in percent of the width."""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib import parse

from django import urls
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from climate_dashboard import amounts, times, words
from climate_dashboard.calendar.window import Window, percent
from climateclient.calendar import Bar, Capacity, HostBars, Step

#: What a bar must have of the width for its name to be in it and not beside it.
_ROOM: Final = 12.0
#: With so much of it behind a bar its name is there.
_WIDE: Final = 30.0
#: The statuses of leases whose end can be moved.
_MOVABLE: Final = ('PENDING', 'STARTING', 'ACTIVE')
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
    project: str = ''
    #: From its end on, until when it can be extended.
    more_left: str = ''
    more_width: str = ''
    until: str = ''


@dataclass(slots=True)
class Row:
    """A line of the calendar: a lease, a resource, a host, or capacity."""

    label: str
    note: str = ''
    bars: list[DrawnBar] = field(default_factory=list)


def lease_rows(
    bars: Iterable[Bar], window: Window, by_lease: bool, wanted: str = ''
) -> Iterator[Row]:
    """Yield a row for each lease, or for each resource, in which a text is.

    A row is drawn when it is needed: there may be more than are.
    """
    found: dict[Any, list[Bar]] = {}
    for bar in bars:
        resource = bar.resource_id or bar.reservation_id
        key = bar.lease_id if by_lease else (bar.resource_type, resource)
        found.setdefault(key, []).append(bar)
    for same in found.values():
        first = same[0]
        label = first.lease_name
        if not by_lease:
            kind = words.word(words.RESOURCE_TYPES, first.resource_type)
            label = f'{kind} {_resource(first)}'
        if _has(wanted, label, *(each.lease_name for each in same)):
            # Of a lease all of whose resources have the same time one bar is enough.
            whole = _as_wholes(same) if by_lease else same
            drawn = dict.fromkeys(_bar(each, window) for each in whole)
            yield Row(label, bars=[*drawn])


def _as_wholes(bars: Iterable[Bar]) -> list[Bar]:
    """Say of each bar of a lease until when all that ends with it can be extended."""
    until: dict[datetime.datetime | None, datetime.datetime] = {}
    for bar in bars:
        if bar.free_until is not None:
            until[bar.end_date] = min(bar.free_until, until.get(bar.end_date, bar.free_until))
    return [replace(bar, free_until=until.get(bar.end_date)) for bar in bars]


def host_rows(
    hosts: Iterable[HostBars], window: Window, projects: Mapping[str, str], wanted: str = ''
) -> Iterator[Row]:
    """Yield a row for each host in which a text is; its bars say which project each is of.

    :param projects: their names by their ids, as far as they are known
    """
    for host in hosts:
        note = host.pool if host.reservable else f'{host.pool}, {_("no new leases")}'
        owners = [projects.get(each.project_id, each.project_id) for each in host.bars]
        names = [each.lease_name for each in host.bars]
        if _has(wanted, host.hypervisor_hostname, note, *names, *owners):
            of = zip(host.bars, owners, strict=True)
            drawn = [_bar(bar, window, owner) for bar, owner in of]
            yield Row(host.hypervisor_hostname, note, drawn)


def _has(wanted: str, *texts: str) -> bool:
    return not wanted or any(wanted.lower() in text.lower() for text in texts)


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
        drawn = [_step(each.unit, *step, window, may_create) for step in steps]
        rows.append(Row(title, each.pool, drawn))
    return rows


def _resource(bar: Bar) -> str:
    """Return in short what users know a resource by, in their language."""
    if len(bar.resource_names) < 2:
        return bar.resource
    first, *more = bar.resource_names
    told = ngettext('%(first)s and %(count)d more', '%(first)s and %(count)d more', len(more))
    return told % {'first': first, 'count': len(more)}


def _bar(bar: Bar, window: Window, project: str = '') -> DrawnBar:
    start, end = bar.start_date or window.start, bar.end_date or window.end
    left, right = window.place(start), window.place(end)
    status = words.word(words.LEASE_STATUSES, bar.status)
    shown = (times.show(bar.start_date), times.show(bar.end_date))
    told = _('%(name)s, %(status)s, from %(start)s to %(end)s') % {
        'name': bar.lease_name,
        'status': status,
        'start': shown[0],
        'end': shown[1],
    }
    until = times.show(bar.free_until) if bar.status in _MOVABLE else ''
    more = ('', '')
    if bar.free_until and until:
        more = percent(right), percent(max(0.0, window.place(bar.free_until) - right))
        told = _('%(text)s, can be extended until %(until)s') % {'text': told, 'until': until}
    if project:
        told = _('%(text)s, of the project %(project)s') % {'text': told, 'project': project}
    return DrawnBar(
        percent(left),
        percent(right - left),
        f'{bar.lease_name} ({status})',
        told,
        urls.reverse('horizon:project:climate_leases:detail', args=[bar.lease_id]),
        bar.status.lower(),
        _side(left, right),
        status,
        bar.lease_name,
        *shown,
        project,
        *more,
        until,
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
    unit: str,
    start: datetime.datetime,
    end: datetime.datetime,
    step: Step,
    window: Window,
    may_create: bool,
) -> DrawnBar:
    left, right = window.place(start), window.place(end)
    free, total, own = (amounts.show(unit, each) for each in (step.free, step.total, step.own))
    told = _('%(free)s of %(total)s free, %(own)s are yours, from %(start)s to %(end)s') % {
        'free': free,
        'total': total,
        'own': own,
        'start': times.show(start),
        'end': times.show(end),
    }
    is_past = end <= window.now
    is_open = may_create and step.free > 0 and not is_past
    label = f'{free}/{total}' if right - left >= _NARROW else ''
    return DrawnBar(
        percent(left),
        percent(right - left),
        label,
        told,
        _create(max(start, window.now), end) if is_open else '',
        f'free-{_fifths(step)}',
        'inside',
        name=f'{free}/{total}',
        start=times.show(start),
        end=times.show(end),
    )


def _fifths(step: Step) -> int:
    """Return how much is free in fifths: 0 only if nothing is."""
    if step.free <= 0 or step.total <= 0:
        return 0
    return max(1, min(5, 5 * step.free // step.total))


def _create(start: datetime.datetime, end: datetime.datetime) -> str:
    # In whole minutes, all of which are free.
    query = parse.urlencode({'start': times.write(times.round_up(start)), 'end': times.write(end)})
    return f'{urls.reverse("horizon:project:climate_leases:create")}?{query}'
