# SPDX-License-Identifier: Apache-2.0
"""Notify the usage of leases, period by period, and sleep until the next period has ended.

The manager that inserts the row of a period in ``usage_periods`` notifies its usage, through the
outbox and in the same transaction. Periods in which no manager ran follow later, in order.

The hours that a resource counts as:

- A reservation is reserved from its creation until its resource is freed. What the calendar
  allocates, or is created at the start of its lease, is reserved from the start on, because other
  leases can use it before.
- It is used from the start of its resource until that is freed.
- It is planned from now on until its end, while it is held or allocated.
- What a preemptible lease lost to preemption is preempted, and not reserved, until the lease has
it again or
  its end.

A resource whose amounts are not known counts as nothing.
"""

import dataclasses
import datetime
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import dates, resource_types
from climate_core import notifications as notice
from climate_core.conf import delivery as conf_group
from climate_core.db import outbox
from climate_core.db import usage as db
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.db.sql import Clock
from climate_core.db.usage import ReservationUse, Span
from climate_core.threads import Worker

HOUR: Final = datetime.timedelta(hours=1)
DAY: Final = datetime.timedelta(days=1)
WEEK: Final = datetime.timedelta(days=7)
#: The time after a period in which its leases may still be stored: a lease has the time of its
#: request, and is stored after calls to other services.
GRACE: Final = datetime.timedelta(seconds=120)
#: Number of leases whose usage is added to the outbox in one statement.
_LEASES_PER_TRANSACTION = 500
#: Seconds by which the polls of managers differ at most.
_JITTER = 5.0
_LENGTHS = {conf_group.HOUR: HOUR, conf_group.DAY: DAY}


class UsageReporter(Worker):
    """Notify usage in its own thread.

    :param every: ``hour`` or ``day``
    """

    name = 'usage'
    expected_errors = DATABASE_ERRORS
    failure_message = 'Could not notify the usage of leases; it is retried'

    def __init__(self, database: Database, clock: Clock, every: str) -> None:
        super().__init__(HOUR.total_seconds(), random.uniform(0, _JITTER))  # nosec B311 # spreads load, no secret
        self._database = database
        self._clock = clock
        self._length = _LENGTHS[every]

    def poll(self) -> float:
        seconds = self.report_period()
        return seconds and seconds + random.uniform(0, _JITTER)  # nosec B311 # spreads load, no secret

    def report_period(self) -> float:
        """Notify the usage of the next period if that has ended.

        :returns: seconds until the next period is due; 0 if another one may be due now
        """
        try:
            return self._database.write(self._write_period)
        except db_exc.DBDuplicateEntry:
            return 0.0

    def _write_period(self, session: orm.Session) -> float:
        now = self._clock.now()
        period = next_period(db.reported_until(session), self._length, now)
        early = (period.end + GRACE - now).total_seconds()
        if early > 0:
            return early
        db.mark_reported(session, period)
        uses = itertools.groupby(db.read_uses_by_lease(session, period), lambda use: use.lease_id)
        notices = ((notice.USAGE, usage_payload(list(each), period)) for _, each in uses)
        while batch := list(itertools.islice(notices, _LEASES_PER_TRANSACTION)):
            outbox.add_notifications(session, batch, now, are_many=True)
        return 0.0


def usage_payload(uses: Sequence[ReservationUse], period: Span) -> dict[str, Any]:
    """Return the usage of one lease in a period as JSON types.

    :param uses: its reservations, at least one
    """
    first, total = uses[0], sum_lease(uses, period)
    return {
        'schema_version': notice.VERSION,
        'lease_id': first.lease_id,
        'name': first.lease_name,
        'project_id': first.project_id,
        'user_id': first.user_id,
        'begin': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'reserved': round_hours(total.reserved),
        'used': round_hours(total.used),
        'preempted': round_hours(total.preempted),
        'resources': [
            {
                'reservation_id': each.id,
                'resource_type': resource_types.api_name(each.resource_type),
                'resource_id': each.resource_id,
                'units': dict(each.amounts),
                'reserved': _span(each.reserved(period)),
                'used': _span(each.used(period)),
                'preempted': _span(each.preempted(period)),
            }
            for each in uses
        ],
    }


def _span(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    begin, end = dates.serialize(span.begin), dates.serialize(span.end)
    return {'begin': begin, 'end': end, 'hours': round(span.hours, 6)}


def _no_hours() -> dict[str, float]:
    return dict.fromkeys(resource_types.UNIT_HOURS, 0.0)


@dataclasses.dataclass(slots=True)
class Total:
    """The resource-hours of a project, or of a lease, in a period."""

    leases: set[str] = dataclasses.field(default_factory=set)
    reserved: dict[str, float] = dataclasses.field(default_factory=_no_hours)
    used: dict[str, float] = dataclasses.field(default_factory=_no_hours)
    preempted: dict[str, float] = dataclasses.field(default_factory=_no_hours)
    planned: dict[str, float] = dataclasses.field(default_factory=_no_hours)

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
    for name, (unit, per) in resource_types.UNIT_HOURS.items():
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
