# SPDX-License-Identifier: Apache-2.0
"""Read the power states of the hosts of the pools, change them, and record when hosts were off.

Each step is written before it is done, with the row of the host locked, and with a notification. A
change of a host increments the generation of its unit, so that no allocation relies on an outdated
unit: either the step sees an allocation, or the transaction that allocates sees the step.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import dates
from climate_core import notifications
from climate_core.db import calendar, outbox, sql, tables
from climate_core.db.engine import signal
from climate_core.db.sql import microseconds
from climate_core.db.usage import Span
from climate_core.notifications import schemas
from climate_hosts.db import hosts as db
from climate_hosts.db.hosts import HOST_SLEEPS, HOSTS
from climate_hosts.hosts import Host, State
from climate_hosts.power import states
from climate_hosts.power.states import PowerHost, PowerState

_UNIT, _HOST, _SLEEP = tables.UNITS, HOSTS.table, HOST_SLEEPS
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
    is_open = sa.and_(_SLEEP.c.unit_id == host_id, _SLEEP.c.end.is_(None))
    sql.change(session, sa.update(_SLEEP).where(is_open).values(end=now))


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


PREFIX: Final = 'host.power.'
#: The event type of a host that was not up in time.
FAILED: Final = f'{PREFIX}failed'


def state_changed(
    host: Host, state: PowerState | None, now: datetime.datetime
) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that enters a power state; None: it is on."""
    name = str(state or states.AWAKE)
    return f'{PREFIX}{name}', _payload(host, name, None, now)


def wake_failed(host: Host, reason: str, now: datetime.datetime) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that was not up in time."""
    return FAILED, _payload(host, str(PowerState.WAKING), reason, now)


def _payload(host: Host, state: str, reason: str | None, now: datetime.datetime) -> dict[str, Any]:
    return {
        'schema_version': notifications.VERSION,
        'host_id': str(host.id),
        'hypervisor_hostname': host.hypervisor_hostname,
        'service_name': host.service_name,
        'pool': host.pool,
        'power': state,
        'time': dates.serialize(now),
        'reason': reason,
    }


_PAYLOAD: dict[str, Any] = {
    'event_id': schemas.EVENT_ID,
    'schema_version': schemas.value_schema('integer', const=notifications.VERSION),
    'host_id': schemas.value_schema('string', 'Of the host in Climate.'),
    'hypervisor_hostname': schemas.TEXT,
    'service_name': schemas.value_schema('string', 'Of its nova-compute.'),
    'pool': schemas.TEXT,
    'power': schemas.value_schema(
        'string',
        'After the change.',
        enum=[states.AWAKE, *(str(each) for each in PowerState)],
    ),
    'time': schemas.date_schema('When.'),
    'reason': schemas.value_schema(
        schemas.NULLABLE, 'The reason of a host that was not powered on.'
    ),
}
_SENT: Mapping[str, str] = {
    str(PowerState.FALLING_ASLEEP): 'a host that no lease needs is to be powered off',
    str(PowerState.ASLEEP): 'a host is powered off',
    str(PowerState.WAKING): 'a host is to be powered on',
    states.AWAKE: 'a host accepts servers again, or was not powered off after all',
}


def list_types() -> list[schemas.NotificationType]:
    """Return the types of notifications of the power of hosts."""
    changes = [
        schemas.create_type(f'{PREFIX}{state}', sent, _PAYLOAD) for state, sent in _SENT.items()
    ]
    failed = schemas.create_type(
        FAILED,
        'a host was not powered on in time: other hosts are allocated in its place if possible',
        _PAYLOAD,
    )
    return [*changes, failed]


#: The reason of a host that was not up in time.
WAKE_TIMED_OUT: Final = 'It was switched on at {}, and its nova-compute is not up.'


def start_sleep(session: orm.Session, host_id: int, idle: datetime.timedelta) -> bool:
    """Start to power a host off, unless it is needed; return whether that was written.

    :param idle: for how long nothing must be allocated of it
    """
    host = db.lock(session, host_id)
    if host is None or not host.can_power_off():
        return False
    now = sql.read_time(session)
    if not states.is_idle(read_need(session, host_id), idle, now):
        return False
    _change(session, host, PowerState.FALLING_ASLEEP, now, slept_at=now)
    return True


def cancel_sleep(session: orm.Session, host_id: int) -> None:
    """Write that a host is on that cannot be powered off."""
    host = db.lock(session, host_id)
    if host is not None and host.power is PowerState.FALLING_ASLEEP:
        _change(session, host, None, sql.read_time(session))


def mark_asleep(session: orm.Session, host_id: int) -> bool:
    """Write that a host is powered off; return whether it was not before."""
    host = db.lock(session, host_id)
    if host is None or host.power is not PowerState.FALLING_ASLEEP:
        return False
    now = sql.read_time(session)
    _change(session, host, PowerState.ASLEEP, now)
    begin_sleep(session, host, now)
    return True


def mark_waking(session: orm.Session, host_id: int, kept_on: bool = False) -> bool:
    """Start to power a host on; return whether that was not written before.

    :param kept_on: whether it stays on from now on, because an operator switched it on
    """
    host = db.lock(session, host_id)
    if host is None or host.power in (None, PowerState.WAKING):
        return False
    now = sql.read_time(session)
    _change(session, host, PowerState.WAKING, now, kept_on=host.kept_on or kept_on)
    end_sleep(session, host_id, now)
    return True


def mark_awake(session: orm.Session, host_id: int) -> float | None:
    """Write that a host is on, and how long that took if it was off; return the seconds.

    :returns: None if it was not being powered on
    """
    host = db.lock(session, host_id)
    if host is None or host.power is not PowerState.WAKING or host.power_since is None:
        return None
    now = sql.read_time(session)
    seconds = (now - host.power_since).total_seconds()
    measured = host.wake_seconds
    # A host that was powered on before it was off is no measure of how long it takes.
    if has_slept_until(session, host_id, host.power_since):
        measured = states.smooth_wake_seconds(host.wake_seconds, seconds)
    _change(session, host, None, now, wake_seconds=measured)
    return seconds


def mark_wake_failed(session: orm.Session, host_id: int, reason: str) -> bool:
    """Write that a host was not up in time, so that other hosts are allocated in its place.

    :returns: whether anything was written
    """
    host = db.lock(session, host_id)
    if host is None or host.power is not PowerState.WAKING:
        return False
    if not db.mark_failed(session, host_id, reason):
        return False
    now = sql.read_time(session)
    outbox.add_notifications(session, [wake_failed(host, reason, now)], now)
    signal(session, states.WAKE_FAILED)
    return True


def _change(
    session: orm.Session,
    host: Host,
    state: PowerState | None,
    now: datetime.datetime,
    **more: Any,
) -> None:
    asleep = {'asleep': state is not None}
    db.HOSTS.update(session, host.id, asleep, {'power': state, 'power_since': now, **more})
    outbox.add_notifications(session, [state_changed(host, state, now)], now)
