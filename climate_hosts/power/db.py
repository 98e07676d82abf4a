# SPDX-License-Identifier: Apache-2.0
"""Read the power states of the hosts of the pools, and record for how long they were off."""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import calendar, sql, tables
from climate_core.db.sql import microseconds
from climate_core.db.usage import Span
from climate_hosts.db.tables import HOST_SLEEPS, HOSTS
from climate_hosts.hosts import Host, State
from climate_hosts.power import states
from climate_hosts.power.states import PowerHost, PowerState

_UNIT, _HOST, _SLEEP = tables.UNITS, HOSTS, HOST_SLEEPS
_ALLOCATION, _RESERVATION = tables.ALLOCATIONS, tables.RESERVATIONS

#: When the first allocation of a host starts, or started.
_NEED = (
    sa.select(sa.func.min(_ALLOCATION.c.start))
    .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
    .where(
        _ALLOCATION.c.unit_id == _UNIT.c.id,
        _RESERVATION.c.hold == 1,
        sa.not_(calendar.is_released()),
    )
    .scalar_subquery()
)
_SECOND: Final = 1_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def list_all(session: orm.Session) -> tuple[list[PowerHost], datetime.datetime]:
    """Read all hosts, and the time; one statement if there is a host."""
    query = sa.select(
        _UNIT.c.id,
        _UNIT.c.pool,
        _UNIT.c.available,
        *(_HOST.c[name] for name in ('hypervisor_hostname', 'service_name', 'provider_id')),
        *(_HOST.c[name] for name in ('power', 'power_since', 'slept_at', 'kept_on')),
        *(_HOST.c[name] for name in ('wake_seconds', 'state', 'open_to_unreserved')),
        _NEED.label('need'),
        sql.now(session).label('now'),
    ).join_from(_HOST, _UNIT, _HOST.c.unit_id == _UNIT.c.id)
    found = session.execute(query.order_by(_UNIT.c.id)).mappings().all()
    now = found[0]['now'] if found else sql.read_time(session)
    return [_read(row) for row in found], now


def _read(row: sa.RowMapping) -> PowerHost:
    is_ordinary = row['open_to_unreserved'] is None and row['state'] == State.ENROLLED
    return PowerHost(
        id=row['id'],
        name=row['hypervisor_hostname'],
        service_name=row['service_name'],
        provider_id=row['provider_id'],
        pool=row['pool'],
        state=PowerState(row['power']) if row['power'] else None,
        since=row['power_since'],
        slept_at=row['slept_at'],
        kept_on=bool(row['kept_on']),
        wake_seconds=row['wake_seconds'],
        usable=bool(row['available']) and is_ordinary,
        failed=row['state'] == State.FAILED,
        need=row['need'],
    )


def has_state(session: orm.Session, host_id: int, state: PowerState | None) -> bool:
    """Return whether a host is in a state; None: whether it is on."""
    query = sa.select(_HOST.c.power).where(_HOST.c.unit_id == host_id)
    return session.scalar(query) == state


def read_need(session: orm.Session, host_id: int) -> datetime.datetime | None:
    """Return when the first allocation of a host starts, or started; None: it has none."""
    need: datetime.datetime | None = session.scalar(sa.select(_NEED).where(_UNIT.c.id == host_id))
    return need


def begin_sleep(session: orm.Session, host: Host, now: datetime.datetime) -> None:
    """Record that a host is off from now on."""
    new = {'unit_id': host.id, 'hypervisor_hostname': host.hypervisor_hostname, 'start': now}
    sql.insert(session, _SLEEP, [new])


def end_sleep(session: orm.Session, host_id: int, now: datetime.datetime) -> None:
    """Record that a host is powered on, if it was off."""
    mine = sa.and_(_SLEEP.c.unit_id == host_id, _SLEEP.c.end.is_(None))
    sql.change(session, sa.update(_SLEEP).where(mine).values(end=now))


def has_slept_until(session: orm.Session, host_id: int, end: datetime.datetime) -> bool:
    """Return whether a host was off until a time."""
    query = sa.select(_SLEEP.c.start).where(_SLEEP.c.unit_id == host_id, _SLEEP.c.end == end)
    return session.scalar(query.limit(1)) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class PowerCounts:
    """The numbers for the metrics of the power of hosts.

    :param hosts: the number of hosts in each power state
    :param asleep_seconds: the total time for which hosts were off
    """

    hosts: Mapping[str, int]
    asleep_seconds: float


def read_sleep_hours(session: orm.Session, period: Span) -> dict[str, float]:
    """Return the hours of a period for which hosts were off, by their names; one statement."""
    query = sa.select(_SLEEP.c.hypervisor_hostname, _SLEEP.c.start, _SLEEP.c.end).where(
        _SLEEP.c.start < period.end,
        sa.or_(_SLEEP.c.end.is_(None), _SLEEP.c.end > period.begin),
    )
    found: dict[str, float] = defaultdict(float)
    for name, start, end in session.execute(query):
        within = Span(start, end or period.end).within(period)
        found[name] += within.hours if within else 0.0
    return dict(sorted(found.items()))


def count_states(session: orm.Session) -> PowerCounts:
    """Count hosts by power state, and the time for which they were off; three statements."""
    by_state = sa.select(_HOST.c.power, sa.func.count()).group_by(_HOST.c.power)
    hosts = {state or states.AWAKE: number for state, number in session.execute(by_state)}
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
