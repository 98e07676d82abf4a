# SPDX-License-Identifier: Apache-2.0
"""Compute reserved, used, planned and preempted resource-hours in a period. Pure.

- A reservation is reserved from its creation until its resource is freed. What the calendar
  allocates, or is created at the start of its lease, is reserved from the start on, because other
  leases can use it before.
- It is used from the start of its resource until that is freed.
- It is planned from now on until its end, while it is held or allocated.
- What a preemptible lease gave up is preempted, and not reserved, until the lease has it again or
  its end.

A resource whose amounts are not known counts as nothing.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from climate_common import amounts

HOUR: Final = datetime.timedelta(hours=1)
DAY: Final = datetime.timedelta(days=1)
WEEK: Final = datetime.timedelta(days=7)
#: The time after a period in which its leases may still be stored: a lease has the time of its
#: request, and is stored after calls to other services.
GRACE: Final = datetime.timedelta(seconds=120)

#: The name of the hours -> the unit of the amounts, and the number of them that counts as one.
HOURS: Final[Mapping[str, tuple[str, int]]] = {
    'server_hours': (amounts.SERVERS, 1),
    'vcpu_hours': (amounts.VCPUS, 1),
    'memory_gib_hours': (amounts.MEMORY_MB, 1024),
    'disk_gb_hours': (amounts.DISK_GB, 1),
    'volume_hours': (amounts.VOLUMES, 1),
    'volume_gb_hours': (amounts.GIGABYTES, 1),
    'stack_hours': (amounts.STACKS, 1),
    'host_hours': (amounts.HOSTS, 1),
    'floatingip_hours': (amounts.FLOATING_IPS, 1),
    'network_hours': (amounts.NETWORKS, 1),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A time span in UTC; its end does not belong to it."""

    begin: datetime.datetime
    end: datetime.datetime

    @property
    def hours(self) -> float:
        """Return its length in hours."""
        return (self.end - self.begin) / HOUR

    def within(self, period: 'Span') -> 'Span | None':
        """Return the part that lies in the period; None if there is none."""
        begin, end = max(self.begin, period.begin), min(self.end, period.end)
        return Span(begin, end) if begin < end else None


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationUse:
    """A reservation with its owner and its times.

    :param held_at: the start of its reserved time
    :param freed_at: None while it holds its resource
    :param ends_at: its planned end; None: nothing is planned, or the caller does not need it
    :param lost_until: the end of the preemption of a reservation that was given up
    """

    id: str
    lease_id: str
    lease_name: str
    project_id: str
    user_id: str
    resource_type: str
    resource_id: str
    amounts: Mapping[str, int]
    held_at: datetime.datetime
    woken_at: datetime.datetime | None
    freed_at: datetime.datetime | None
    ends_at: datetime.datetime | None = None
    lost_until: datetime.datetime | None = None

    def preempted(self, period: Span) -> Span | None:
        """Return its preempted span in the period."""
        if self.freed_at is None or self.lost_until is None:
            return None
        return Span(self.freed_at, self.lost_until).within(period)

    def counts(self, period: Span) -> bool:
        """Tell whether it was reserved or preempted in the period."""
        return (self.reserved(period) or self.preempted(period)) is not None

    def planned(self, period: Span, now: datetime.datetime) -> Span | None:
        """Return its planned span in the period."""
        if self.ends_at is None:
            return None
        return Span(max(self.held_at, now), self.ends_at).within(period)

    def reserved(self, period: Span) -> Span | None:
        """Return its reserved span in the period."""
        return Span(self.held_at, self.freed_at or period.end).within(period)

    def used(self, period: Span) -> Span | None:
        """Return its used span in the period."""
        if self.woken_at is None:
            return None
        return Span(self.woken_at, self.freed_at or period.end).within(period)


@dataclasses.dataclass(slots=True)
class Total:
    """The resource-hours of a project, or of a lease, in a period."""

    leases: set[str] = dataclasses.field(default_factory=set)
    reserved: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(HOURS, 0))
    used: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(HOURS, 0))
    preempted: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(HOURS, 0)
    )
    planned: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(HOURS, 0))

    def add(self, use: ReservationUse, period: Span) -> None:
        """Add the hours of a reservation in the period."""
        self.leases.add(use.lease_id)
        _add_hours(self.reserved, use, use.reserved(period))
        _add_hours(self.used, use, use.used(period))
        _add_hours(self.preempted, use, use.preempted(period))

    def add_planned(self, use: ReservationUse, span: Span) -> None:
        """Add the planned hours of a reservation."""
        self.leases.add(use.lease_id)
        _add_hours(self.planned, use, span)


def _add_hours(total: dict[str, float], use: ReservationUse, span: Span | None) -> None:
    for name, (unit, per) in HOURS.items():
        total[name] += use.amounts.get(unit, 0) / per * (span.hours if span else 0)


def round_hours(hours: Mapping[str, float]) -> dict[str, float]:
    """Round hours to millionths, which are a few milliseconds."""
    return {name: round(value, 6) for name, value in hours.items()}


def sum_by_project(uses: Iterable[ReservationUse], period: Span) -> dict[str, Total]:
    """Add up reservations by the id of their project."""
    totals: dict[str, Total] = {}
    for use in uses:
        if use.counts(period):
            totals.setdefault(use.project_id, Total()).add(use, period)
    return totals


def sum_by_week(
    uses: Iterable[ReservationUse], period: Span, now: datetime.datetime
) -> dict[tuple[Span, str], Total]:
    """Add up past and planned hours by week and the id of the project.

    :returns: only weeks and projects with reservations; weeks are cut to the period
    """
    parts = list(split_weeks(period))
    totals: dict[tuple[Span, str], Total] = {}
    for use in uses:
        for week in parts:
            past = Span(week.begin, min(week.end, now))
            planned = use.planned(week, now)
            is_past = past.begin < past.end and use.counts(past)
            if not (is_past or planned):
                continue
            total = totals.setdefault((week, use.project_id), Total())
            if is_past:
                total.add(use, past)
            if planned:
                total.add_planned(use, planned)
    return totals


def split_weeks(period: Span) -> Iterator[Span]:
    """Yield the weeks of a period, from Monday to Monday in UTC; the outer ones may be shorter."""
    begin = period.begin
    while begin < period.end:
        end = min(week_start(begin) + WEEK, period.end)
        yield Span(begin, end)
        begin = end


def week_start(time: datetime.datetime) -> datetime.datetime:
    """Return the start of the week: Monday, in UTC."""
    return _midnight(time) - time.weekday() * DAY


def sum_lease(uses: Iterable[ReservationUse], period: Span) -> Total:
    """Add up the reservations of one lease."""
    total = Total()
    for use in uses:
        total.add(use, period)
    return total


def month_start(now: datetime.datetime) -> datetime.datetime:
    """Return the start of the month."""
    return _midnight(now).replace(day=1)


def next_period(
    reported: datetime.datetime | None, length: datetime.timedelta, now: datetime.datetime
) -> Span:
    """Return the next period to report; it is due :data:`GRACE` after its end.

    Periods end at full hours, or at midnight. The first period ever is the last one that is due.
    After a change of the length, :data:`HOUR` or :data:`DAY`, the first period is shorter.

    :param reported: the end of the last reported period
    """
    if reported is None:
        reported = _floor(now - GRACE, length) - length
    return Span(reported, _floor(reported, length) + length)


def _midnight(time: datetime.datetime) -> datetime.datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _floor(time: datetime.datetime, length: datetime.timedelta) -> datetime.datetime:
    return _midnight(time) + (time - _midnight(time)) // length * length
