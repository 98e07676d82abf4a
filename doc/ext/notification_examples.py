# SPDX-License-Identifier: Apache-2.0
"""An example of the payload of each notification, built by the code that sends them."""

import dataclasses
import datetime
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from climate_common import resource_types
from climate_core import notifications
from climate_core.db.outbox import Delivery
from climate_core.db.usage import ReservationUse
from climate_core.delivery import usage, webhooks
from climate_core.lease import model, states
from climate_core.lease.events import preemption, schedule, start
from climate_core.notifications import schemas
from climate_hosts import hosts
from climate_hosts.power import db as power
from climate_hosts.power import states as power_states

START = datetime.datetime(2030, 12, 1, 9, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
#: The URL and the secret of the webhook in the example.
WEBHOOK = 'https://receiver.example.org/leases'
SECRET = 'correct horse battery staple'
#: The type whose example is shown whole; of the others with a lease, the fields that differ.
WHOLE = start.STARTED
_STATUS = states.LeaseStatus
#: Type -> the status of the lease. Not listed: PENDING.
_STATUSES: Mapping[str, str] = {
    'lease.delete': _STATUS.TERMINATED,
    'lease.event.retry_lease.error': _STATUS.ERROR,
    'lease.event.make_room.error': _STATUS.TIMEDOUT,
    start.STARTED: _STATUS.ACTIVE,
    start.START_FAILED: _STATUS.TERMINATING,
    preemption.PREEMPTED: _STATUS.WAITING,
    'lease.event.before_end_lease': _STATUS.ACTIVE,
    start.END_MOVED: _STATUS.ACTIVE,
    'lease.event.end_lease': _STATUS.TERMINATED,
    'lease.event.half_time': _STATUS.ACTIVE,
}
_REASONS: Mapping[str, str] = {
    start.START_FAILED: start.TOO_LATE,
    start.START_WARNING: f'{start.START_WILL_FAIL}Keystone rejects the trust of its owner.',
    preemption.PREEMPTED: preemption.PREEMPTED_REASON,
}
#: The statuses of the reservations of an active lease, and of one whose resources are freed.
_RESERVATIONS: Mapping[str, str] = {
    _STATUS.ACTIVE: states.ReservationStatus.ACTIVE,
    _STATUS.TERMINATED: states.ReservationStatus.DELETED,
}


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}.climate.example'))


def _lease(status: str) -> model.Lease:
    created = START - HOUR
    server = model.new_reservation(
        _id('lease'), resource_types.SERVER, _id('server'), {'on_end': 'delete'}, created
    )
    held = _RESERVATIONS.get(status, states.ReservationStatus.PENDING)
    new = model.Lease(
        id=_id('lease'),
        name='course',
        project_id=uuid.UUID(_id('project')).hex,
        user_id=uuid.UUID(_id('user')).hex,
        start_date=START,
        end_date=START + 8 * HOUR,
        before_end_date=START + 7 * HOUR,
        status=status,
        created_at=created,
        reservations=(dataclasses.replace(server, id=_id('reservation'), status=held),),
    )
    events = schedule.first_events(new, (), created)
    done = states.EventStatus.DONE if status == _STATUS.ACTIVE else states.EventStatus.UNDONE
    return dataclasses.replace(
        new,
        events=tuple(
            dataclasses.replace(
                event,
                id=_id(event.event_type),
                status=done if event.event_type == model.START else states.EventStatus.UNDONE,
            )
            for event in events
        ),
    )


def _of_lease(event_type: str) -> dict[str, Any]:
    lease = _lease(_STATUSES.get(event_type, _STATUS.PENDING))
    return notifications.build(event_type, lease, START - HOUR, _REASONS.get(event_type))[1]


def _usage() -> dict[str, Any]:
    lease = _lease(_STATUS.ACTIVE)
    use = ReservationUse(
        id=_id('reservation'),
        lease_id=lease.id,
        lease_name=lease.name,
        project_id=lease.project_id,
        user_id=lease.user_id,
        resource_type=resource_types.SERVER,
        resource_id=_id('server'),
        amounts={'servers': 1, 'vcpus': 2, 'memory_mb': 4096, 'disk_gb': 20},
        held_at=lease.created_at,
        woken_at=START + HOUR / 2,
        freed_at=None,
    )
    return usage.usage_payload([use], usage.Span(START, START + HOUR))


def _power(event_type: str) -> dict[str, Any]:
    host = hosts.Host(
        id=1,
        pool=hosts.DEFAULT_POOL,
        available=True,
        provider_id='',
        lane_ids=(),
        extra={},
        hypervisor_hostname='compute4',
        service_name='compute4',
        capacity={},
        details={},
        created_at=START,
    )
    if event_type == power.FAILED:
        reason = power.WAKE_TIMED_OUT.format(START.isoformat(' ', 'minutes'))
        return power.wake_failed(host, reason, START)[1]
    name = event_type.removeprefix(power.PREFIX)
    state = None if name == power_states.AWAKE else power_states.PowerState(name)
    return power.state_changed(host, state, START)[1]


def build() -> dict[str, dict[str, Any]]:
    """Return an example of the payload of each type, by the type."""
    payloads = {}
    for kind in schemas.list_types():
        event_type = kind.event_type.replace('<name>', 'half_time')
        make: Callable[[str], dict[str, Any]] = (
            _power if event_type.startswith(power.PREFIX) else _of_lease
        )
        payload = _usage() if event_type == notifications.USAGE else make(event_type)
        payloads[event_type] = {'event_id': _id(f'event-{event_type}'), **payload}
    return payloads


def build_webhook_request() -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a call of a webhook, signed with :data:`SECRET`."""
    payload = build()[WHOLE]
    delivery = Delivery(
        id=1,
        lease_id=payload['lease_id'],
        project_id=payload['project_id'],
        target=urllib.parse.urlsplit(WEBHOOK).netloc,
        event_id=payload['event_id'],
        event_type=WHOLE,
        payload=payload,
        url=WEBHOOK,
        secret=SECRET,
        attempts=0,
        created_at=START,
        claim='',
    )
    return webhooks.build_request(delivery, START)


def differences() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each other type of a lease with the fields in which its example differs."""
    payloads = build()
    whole = payloads[WHOLE]
    for event_type, payload in payloads.items():
        if event_type != WHOLE and 'reservations' in payload:
            yield (
                event_type,
                {
                    name: value
                    for name, value in payload.items()
                    if (
                        name not in ('event_id', 'reservations', 'events')
                        and whole.get(name, value) != value
                    )
                    or name not in whole
                },
            )
