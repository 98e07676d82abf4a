# SPDX-License-Identifier: Apache-2.0
"""Power hosts off and on, step by step: each step is a transaction and a notification.

Each step is written before it is done, with the row of the host locked. A change of a host
increments the generation of its unit, so that no allocation relies on an outdated unit:
either the step sees an allocation, or the transaction that allocates sees the step.
"""

import contextlib
import datetime
from typing import Any, Final

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import outbox, sql
from climate_hosts import notifications as notices
from climate_hosts.db import host_power as db_power
from climate_hosts.db import hosts as db
from climate_hosts.domain import hosts, power
from climate_hosts.domain.power import PowerState

#: The reason of a host that did not wake.
WAKE_TIMED_OUT: Final = 'It was switched on at {}, and its nova-compute is not up.'


def start_sleep(session: orm.Session, host_id: int, idle: datetime.timedelta) -> bool:
    """Start to power a host off, unless it is needed; return whether that was written.

    :param idle: for how long nothing must be allocated of it
    """
    host = _lock(session, host_id)
    if host is None or not host.can_power_off():
        return False
    now = sql.read_time(session)
    if not power.is_idle(db_power.read_need(session, host_id), idle, now):
        return False
    _change(session, host, PowerState.FALLING_ASLEEP, now, slept_at=now)
    return True


def cancel_sleep(session: orm.Session, host_id: int) -> None:
    """Write that a host is awake that cannot be powered off."""
    host = _lock(session, host_id)
    if host is not None and host.power is PowerState.FALLING_ASLEEP:
        _change(session, host, None, sql.read_time(session))


def mark_asleep(session: orm.Session, host_id: int) -> bool:
    """Write that a host is powered off; return whether it was not before."""
    host = _lock(session, host_id)
    if host is None or host.power is not PowerState.FALLING_ASLEEP:
        return False
    now = sql.read_time(session)
    _change(session, host, PowerState.ASLEEP, now)
    db_power.begin_sleep(session, host, now)
    return True


def mark_waking(session: orm.Session, host_id: int, kept_on: bool = False) -> bool:
    """Start to power a host on; return whether that was not written before.

    :param kept_on: whether it stays on from now on, because an operator switched it on
    """
    host = _lock(session, host_id)
    if host is None or host.power in (None, PowerState.WAKING):
        return False
    now = sql.read_time(session)
    _change(session, host, PowerState.WAKING, now, kept_on=host.kept_on or kept_on)
    db_power.end_sleep(session, host_id, now)
    return True


def mark_awake(session: orm.Session, host_id: int) -> float | None:
    """Write that a host is awake, and how long that took if it was off; return the seconds.

    :returns: None if it was not being powered on
    """
    host = _lock(session, host_id)
    if host is None or host.power is not PowerState.WAKING or host.power_since is None:
        return None
    now = sql.read_time(session)
    seconds = (now - host.power_since).total_seconds()
    measured = host.wake_seconds
    # A host that was woken before it was off is no measure of how long it takes.
    if db_power.has_slept_until(session, host_id, host.power_since):
        measured = power.smooth_wake_seconds(host.wake_seconds, seconds)
    _change(session, host, None, now, wake_seconds=measured)
    return seconds


def mark_wake_failed(session: orm.Session, host_id: int, reason: str) -> bool:
    """Write that a host did not wake, so that other hosts are allocated in its place.

    :returns: whether anything was written
    """
    host = _lock(session, host_id)
    if host is None or host.power is not PowerState.WAKING:
        return False
    if not db.mark_failed(session, host_id, reason):
        return False
    now = sql.read_time(session)
    outbox.add_notifications(session, [notices.wake_failed(host, reason, now)], now)
    return True


def _lock(session: orm.Session, host_id: int) -> hosts.Host | None:
    with contextlib.suppress(exceptions.HostNotFound):
        return db.HOSTS.get(session, host_id, lock=True)
    return None


def _change(
    session: orm.Session,
    host: hosts.Host,
    state: PowerState | None,
    now: datetime.datetime,
    **more: Any,
) -> None:
    asleep = {'asleep': state is not None}
    db.HOSTS.update(session, host.id, asleep, {'power': state, 'power_since': now, **more})
    outbox.add_notifications(session, [notices.state_changed(host, state, now)], now)
