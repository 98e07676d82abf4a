# SPDX-License-Identifier: Apache-2.0
"""Compute reserved, used and planned resource-hours. Pure.

A reservation is reserved from the moment it is made until its resource is freed, and used from the
moment its resource is awake until then. What the calendar promises, or is made at the start of its
lease, is reserved from that start on, though: until then others can have it. What is held or
promised is planned from now on until it is to end. All is cut to the period that is asked about. A
resource whose amounts are not known, as of those that the first release reserved, counts as
nothing. What a preemptible lease gave up is preempted from then on, until the lease has it again
or is to end: it is not reserved meanwhile.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from climate_common import amounts

HOUR: Final = datetime.timedelta(hours=1)
DAY: Final = datetime.timedelta(days=1)
WEEK: Final = datetime.timedelta(days=7)
#: Seconds after the end of a period in which what happened in it may still be written: a lease
#: carries the time at which its request came, and cloud services are asked before it is written.
GRACE: Final = datetime.timedelta(seconds=120)

#: What is answered -> the unit of the amounts, and how many of them are one.
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
    """A stretch of time, UTC; the end does not belong to it."""

    begin: datetime.datetime
    end: datetime.datetime

    @property
    def hours(self) -> float:
        """Return how many hours it lasts."""
        return (self.end - self.begin) / HOUR

    def within(self, period: 'Span') -> 'Span | None':
        """Return the part that lies in the period; None if there is none."""
        begin, end = max(self.begin, period.begin), min(self.end, period.end)
        return Span(begin, end) if begin < end else None


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationUse:
    """One reservation, and whose it is.

    :param held_at: when it began to keep something from others, or will
    :param freed_at: None while it holds its resource
    :param ends_at: when what is held or promised is to end; None: nothing is, or it is not asked
    :param lost_until: of what was given up to another lease: until when its lease lacks that
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
        """Return when in the period its lease lacked what it gave up."""
        if self.freed_at is None or self.lost_until is None:
            return None
        return Span(self.freed_at, self.lost_until).within(period)

    def counts(self, period: Span) -> bool:
        """Tell whether it was reserved in the period, or given up."""
        return (self.reserved(period) or self.preempted(period)) is not None

    def planned(self, period: Span, now: datetime.datetime) -> Span | None:
        """Return when in the period it is to be reserved from now on."""
        if self.ends_at is None:
            return None
        return Span(max(self.held_at, now), self.ends_at).within(period)

    def reserved(self, period: Span) -> Span | None:
        """Return when in the period it was reserved."""
        return Span(self.held_at, self.freed_at or period.end).within(period)

    def used(self, period: Span) -> Span | None:
        """Return when in the period it was used."""
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
        """Add the hours of a reservation that lie in the period."""
        self.leases.add(use.lease_id)
        _add_hours(self.reserved, use, use.reserved(period))
        _add_hours(self.used, use, use.used(period))
        _add_hours(self.preempted, use, use.preempted(period))

    def add_planned(self, use: ReservationUse, span: Span) -> None:
        """Add the hours of a reservation that are still to come."""
        self.leases.add(use.lease_id)
        _add_hours(self.planned, use, span)


def _add_hours(total: dict[str, float], use: ReservationUse, span: Span | None) -> None:
    for name, (unit, per) in HOURS.items():
        total[name] += use.amounts.get(unit, 0) / per * (span.hours if span else 0)


def round_hours(hours: Mapping[str, float]) -> dict[str, float]:
    """Return hours with the digits that mean something: a millionth is some milliseconds."""
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
    """Add up reservations by week and the id of their project: what was, and what is planned.

    :returns: only weeks and projects that have something, with the part of each week that is in
        the period
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
    """Return the first moment of the week."""
    return _midnight(time) - time.weekday() * DAY


def sum_lease(uses: Iterable[ReservationUse], period: Span) -> Total:
    """Add up the reservations of one lease."""
    total = Total()
    for use in uses:
        total.add(use, period)
    return total


def month_start(now: datetime.datetime) -> datetime.datetime:
    """Return the first moment of the month."""
    return _midnight(now).replace(day=1)


def next_period(
    told: datetime.datetime | None, length: datetime.timedelta, now: datetime.datetime
) -> Span:
    """Return the next period to report; it is due :data:`GRACE` after its end.

    Periods end at full hours, or at midnight. The first one ever is the last that is due. After a
    change of the length, :data:`HOUR` or :data:`DAY`, the first period is a shorter one.

    :param told: the end of the last one that was told
    """
    if told is None:
        told = _floor(now - GRACE, length) - length
    return Span(told, _floor(told, length) + length)


def _midnight(time: datetime.datetime) -> datetime.datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _floor(time: datetime.datetime, length: datetime.timedelta) -> datetime.datetime:
    return _midnight(time) + (time - _midnight(time)) // length * length
