# SPDX-License-Identifier: Apache-2.0
"""Create the notifications of hosts that are powered off and on."""

import datetime
from collections.abc import Mapping
from typing import Any, Final

from climate_common import dates
from climate_core import notifications
from climate_core.notifications import schemas
from climate_hosts.domain import power
from climate_hosts.domain.hosts import Host

PREFIX: Final = 'host.power.'
#: The event type of a host that did not wake.
FAILED: Final = f'{PREFIX}failed'


def state_changed(
    host: Host, state: power.PowerState | None, now: datetime.datetime
) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that enters a power state; None: it is on."""
    name = str(state or power.AWAKE)
    return f'{PREFIX}{name}', _payload(host, name, None, now)


def wake_failed(host: Host, reason: str, now: datetime.datetime) -> tuple[str, dict[str, Any]]:
    """Create the notification of a host that did not wake in time."""
    return FAILED, _payload(host, str(power.PowerState.WAKING), reason, now)


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
        enum=[power.AWAKE, *(str(each) for each in power.PowerState)],
    ),
    'time': schemas.date_schema('When.'),
    'reason': schemas.value_schema(
        schemas.NULLABLE, 'The reason of a host that was not powered on.'
    ),
}
_SENT: Mapping[str, str] = {
    str(power.PowerState.FALLING_ASLEEP): 'a host that no lease needs is to be powered off',
    str(power.PowerState.ASLEEP): 'a host is powered off',
    str(power.PowerState.WAKING): 'a host is to be powered on',
    power.AWAKE: 'a host accepts servers again, or was not powered off after all',
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
