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
#: Maximum number of steps of a row.
STEPS: Final = 200
_NARROW: Final = 6.0
_MINUTE: Final = datetime.timedelta(minutes=1)
_DETAIL: Final = 'horizon:project:climate_leases:detail'
#: Number of resources that a bar of several names.
_NAMED: Final = 3
#: Percent of the width beyond which the text over a bar extends to the left.
_MIDDLE: Final = 50.0


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar: where it is, what is written in it, and where it leads."""

    left: str
    width: str
    label: str
    text: str
    url: str
    look: str
    side: str
    status: str = ''
    name: str = ''
    start: str = ''
    end: str = ''
    project: str = ''
    resources: str = ''
    #: From its end on, until when it can be extended.
    more_left: str = ''
    more_width: str = ''
    until: str = ''

    @property
    def is_late(self) -> bool:
        """Tell whether the text over the bar extends to the left, as there is no place."""
        return float(self.left) > _MIDDLE


@dataclass(frozen=True, slots=True)
class Slot:
    """A time without a lease, which leads to the form of one.

    :ivar sign: where its plus sign is: ``middle``, ``left`` or ``right``, beside the names of bars
    """

    left: str
    width: str
    text: str
    url: str
    sign: str = 'middle'


@dataclass(slots=True)
class Row:
    """A line of the calendar: a lease, a resource, a host, or capacity."""

    label: str
    note: str = ''
    bars: list[DrawnBar] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class May:
    """The rights of a user in the calendar of hosts.

    :ivar see: whether the user may read the leases of a project, by its id
    :ivar create: whether the user may create leases
    """

    see: Callable[[str], bool] = lambda _project_id: True
    create: bool = True


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
            whole = _as_wholes(same) if by_lease else same
            yield Row(
                label, bars=[_bar(bar, window, resources) for bar, resources in _joined(whole)]
            )


def _as_wholes(bars: Iterable[Bar]) -> list[Bar]:
    """Say of each bar of a lease until when all that ends with it can be extended."""
    until: dict[datetime.datetime | None, datetime.datetime] = {}
    for bar in bars:
        if bar.free_until is not None:
            until[bar.end_date] = min(bar.free_until, until.get(bar.end_date, bar.free_until))
    return [replace(bar, free_until=until.get(bar.end_date)) for bar in bars]


def _joined(bars: Iterable[Bar]) -> list[tuple[Bar, str]]:
    """Return one bar for all resources of a lease with the same time, with their names."""
    found: dict[Any, list[Bar]] = {}
    for bar in bars:
        found.setdefault((bar.start_date, bar.end_date, bar.status, bar.free_until), []).append(
            bar
        )
    return [(same[0], _resources(same)) for same in found.values()]


def _resources(bars: Iterable[Bar]) -> str:
    names = [*dict.fromkeys(_typed(bar) for bar in bars if bar.resource_type)]
    text = ', '.join(names[:_NAMED])
    more = len(names) - _NAMED
    if more <= 0:
        return text
    return _and_more(text, more)


def _and_more(first: str, count: int) -> str:
    text = ngettext('%(first)s and %(count)d more', '%(first)s and %(count)d more', count)
    return text % {'first': first, 'count': count}


def _typed(bar: Bar) -> str:
    kind = words.word(words.RESOURCE_TYPES, bar.resource_type)
    return f'{kind} {_resource(bar)}'.strip()


def host_rows(
    hosts: Iterable[HostBars],
    window: Window,
    projects: Mapping[str, str],
    wanted: str = '',
    may: May | None = None,
) -> Iterator[Row]:
    """Yield a row for each host that has a text, with the project of each bar.

    :param projects: their names by their ids, as far as they are known
    :param may: rights of the user; all, if none are given
    """
    may = may or May()
    for host in hosts:
        note = host.pool if host.reservable else f'{host.pool}, {_("no new leases")}'
        owners = [projects.get(each.project_id, each.project_id) for each in host.bars]
        names = [each.lease_name for each in host.bars]
        if _has(wanted, host.hypervisor_hostname, note, *names, *owners):
            of = zip(host.bars, owners, strict=True)
            drawn = [
                _bar(bar, window, host.hypervisor_hostname, owner, may.see(bar.project_id))
                for bar, owner in of
            ]
            gaps = _gaps(host.bars, window) if may.create and host.reservable else ()
            yield Row(host.hypervisor_hostname, note, drawn, [*gaps])


def slots(window: Window) -> list[Slot]:
    """Return a link to the form of a lease for each day, or hour, that has not ended."""
    return [
        _slot(max(tick.start, window.now), tick.end, window, _('Create a lease'))
        for tick in window.ticks()
        if tick.end > window.now
    ]


def _gaps(bars: Iterable[Bar], window: Window) -> Iterator[Slot]:
    """Yield a link to the form of a lease for each time in which a host has none."""
    free = times.round_up(max(window.start, window.now))
    taken = (
        (bar.start_date or window.start, bar.end_date or window.end)
        for bar in bars
        # One that was cancelled before its start keeps its times.
        if bar.status != 'TERMINATED'
    )
    for start, end in [*sorted(taken), (window.end, window.end)]:
        if start - free >= _MINUTE:
            slot = _slot(free, min(start, window.end), window, _('Free: create a lease'))
            # The name of the bar before it may be at its left, that of the next one at its right.
            is_left = start < window.end and _side(*map(window.place, (start, end))) == 'before'
            yield replace(slot, sign='left' if is_left else 'right')
        free = max(free, times.round_up(end))


def _slot(start: datetime.datetime, end: datetime.datetime, window: Window, title: str) -> Slot:
    left = window.place(start)
    text = _('%(text)s, from %(start)s to %(end)s') % {
        'text': title,
        'start': times.show(times.round_up(start)),
        'end': times.show(end),
    }
    width = percent(window.place(end) - left)
    return Slot(percent(left), width, text, _create(start, end))


def _has(wanted: str, *texts: str) -> bool:
    return not wanted or any(wanted.lower() in text.lower() for text in texts)


def capacity_rows(
    found: Iterable[Capacity],
    window: Window,
    may_create: bool,
    networks: Mapping[str, str],
) -> list[Row]:
    """Return a row for each kind of capacity, those of what is counted whole first.

    :param may_create: free capacity leads to the form of a lease
    :param networks: their names by their ids, which are the pools of floating IPs
    """
    rows = []
    for each in sorted(found, key=lambda each: (each.kind, each.pool, each.unit != each.kind)):
        title = words.word(words.CAPACITY_KINDS, each.kind)
        if each.unit != each.kind:
            title = f'{title}: {words.word(words.UNITS, each.unit)}'
        steps = _merged(each.steps, window)
        drawn = [_step(each.unit, *step, window, may_create) for step in steps]
        rows.append(Row(title, networks.get(each.pool, each.pool), drawn))
    return rows


def _resource(bar: Bar) -> str:
    """Return in short what users know a resource by, in their language."""
    if len(bar.resource_names) < 2:
        return bar.resource
    first, *more = bar.resource_names
    return _and_more(first, len(more))


def _bar(
    bar: Bar, window: Window, resources: str, project: str = '', may_see: bool = True
) -> DrawnBar:
    start, end = bar.start_date or window.start, bar.end_date or window.end
    left, right = window.place(start), window.place(end)
    status = words.word(words.LEASE_STATUSES, bar.status)
    shown = (times.show(bar.start_date), times.show(bar.end_date))
    text = _('%(name)s, %(status)s, from %(start)s to %(end)s') % {
        'name': bar.lease_name,
        'status': status,
        'start': shown[0],
        'end': shown[1],
    }
    if resources:
        text = _('%(text)s, for %(resources)s') % {'text': text, 'resources': resources}
    until = times.show(bar.free_until) if bar.status in _MOVABLE else ''
    more = ('', '')
    if bar.free_until and until:
        more = percent(right), percent(max(0.0, window.place(bar.free_until) - right))
        text = _('%(text)s, can be extended until %(until)s') % {'text': text, 'until': until}
    if project:
        text = _('%(text)s, of the project %(project)s') % {'text': text, 'project': project}
    return DrawnBar(
        percent(left),
        percent(right - left),
        f'{bar.lease_name} ({status})',
        text,
        urls.reverse(_DETAIL, args=[bar.lease_id]) if may_see else '',
        bar.status.lower(),
        _side(left, right),
        status,
        bar.lease_name,
        *shown,
        project,
        resources,
        *more,
        until,
    )


def _side(left: float, right: float) -> str:
    """Return where the name of a bar stands: in it, behind it, or where there is more space."""
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
    text = _('%(free)s of %(total)s free, %(own)s are yours, from %(start)s to %(end)s') % {
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
        text,
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
