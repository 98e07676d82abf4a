# SPDX-License-Identifier: Apache-2.0
"""Power hosts off and on, step by step: each step is a transaction and a notification.

Each step is written before it is done, with the row of the host locked. A change of a host
increments the generation of its unit, so that no allocation relies on an outdated unit: either the
step sees an allocation, or the transaction that allocates sees the step.
"""

import contextlib
import datetime
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import orm

from climate_common import dates
from climate_core import exceptions, notifications
from climate_core.db import outbox, sql
from climate_core.db.engine import signal
from climate_core.notifications import schemas
from climate_hosts import hosts
from climate_hosts.db import hosts as db
from climate_hosts.hosts import Host
from climate_hosts.power import db as db_power
from climate_hosts.power import states
from climate_hosts.power.states import PowerState
from climate_hosts.watch import failures

PREFIX: Final = 'host.power.'
#: The event type of a host that did not wake.
FAILED: Final = f'{PREFIX}failed'


def state_changed(
    host: Host, state: states.PowerState | None, now: datetime.datetime
) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that enters a power state; None: it is on."""
    name = str(state or states.AWAKE)
    return f'{PREFIX}{name}', _payload(host, name, None, now)


def wake_failed(host: Host, reason: str, now: datetime.datetime) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that did not wake in time."""
    return FAILED, _payload(host, str(states.PowerState.WAKING), reason, now)


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
        enum=[states.AWAKE, *(str(each) for each in states.PowerState)],
    ),
    'time': schemas.date_schema('When.'),
    'reason': schemas.value_schema(
        schemas.NULLABLE, 'The reason of a host that was not powered on.'
    ),
}
_SENT: Mapping[str, str] = {
    str(states.PowerState.FALLING_ASLEEP): 'a host that no lease needs is to be powered off',
    str(states.PowerState.ASLEEP): 'a host is powered off',
    str(states.PowerState.WAKING): 'a host is to be powered on',
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
    if not states.is_idle(db_power.read_need(session, host_id), idle, now):
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
        measured = states.smooth_wake_seconds(host.wake_seconds, seconds)
    _change(session, host, None, now, wake_seconds=measured)
    return seconds


def mark_wake_failed(session: orm.Session, host_id: int, reason: str) -> bool:
    """Write that a host did not wake, so that other hosts are allocated in its place.

    :returns: whether anything was written
    """
    host = _lock(session, host_id)
    if host is None or host.power is not PowerState.WAKING:
        return False
    if not failures.mark_failed(session, host_id, reason):
        return False
    now = sql.read_time(session)
    outbox.add_notifications(session, [wake_failed(host, reason, now)], now)
    signal(session, states.WAKE_FAILED)
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
    outbox.add_notifications(session, [state_changed(host, state, now)], now)
