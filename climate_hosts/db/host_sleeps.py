# SPDX-License-Identifier: Apache-2.0
"""Read for how long hosts slept, and how many are in which power state."""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_core.db.sql import microseconds
from climate_core.lease import usage
from climate_hosts.domain import power

_UNIT, _HOST, _SLEEP = tables.UNITS, tables.HOSTS, tables.HOST_SLEEPS

_SECOND: Final = 1_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class PowerCounts:
    """The numbers that the metrics show of the power of hosts.

    :param hosts: how many are in each power state
    :param asleep_seconds: how long all hosts slept together, since ever
    """

    hosts: Mapping[str, int]
    asleep_seconds: float


def hours(session: orm.Session, period: usage.Span) -> dict[str, float]:
    """Add up for how many hours of a period each host slept, by its name; one statement."""
    query = sa.select(_SLEEP.c.hypervisor_hostname, _SLEEP.c.start, _SLEEP.c.end).where(
        _SLEEP.c.start < period.end,
        sa.or_(_SLEEP.c.end.is_(None), _SLEEP.c.end > period.begin),
    )
    found: dict[str, float] = defaultdict(float)
    for name, start, end in session.execute(query):
        within = usage.Span(start, end or period.end).within(period)
        found[name] += within.hours if within else 0.0
    return dict(sorted(found.items()))


def count(session: orm.Session) -> PowerCounts:
    """Count hosts and their sleep, in three statements."""
    by_state = sa.select(_HOST.c.power, sa.func.count()).group_by(_HOST.c.power)
    hosts = {state or power.AWAKE: number for state, number in session.execute(by_state)}
    start, end = microseconds(_SLEEP.c.start), microseconds(_SLEEP.c.end)
    is_open = _SLEEP.c.end.is_(None)
    ended, begun, sleeping = session.execute(
        sa.select(
            sa.func.sum(end - start),
            sa.func.sum(sa.case((is_open, start))),
            sa.func.count(sa.case((is_open, 1))),
        )
    ).one()
    now = (sql.read_time(session) - _EPOCH) // datetime.timedelta(microseconds=1)
    total = int(ended or 0) + sleeping * now - int(begun or 0)
    return PowerCounts(hosts, total / _SECOND)
