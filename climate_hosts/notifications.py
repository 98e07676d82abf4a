# SPDX-License-Identifier: Apache-2.0
"""Create the notifications of hosts that are powered off and on."""

import datetime
from typing import Any, Final

from climate_common import dates
from climate_core import notifications
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
