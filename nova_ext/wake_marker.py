# SPDX-License-Identifier: Apache-2.0
"""The marker that nova-api writes to a server that it wakes: the id of the request.

It lies in ``instance.system_metadata``. By it nova-compute knows that a build is the second half
of a reservation, ignores a message of an older wake_up, and after a crash tells a server that was
starting from one that failed its first build. A repeated wake_up for the same host keeps the
marker, so that whichever of its messages arrives first starts the server.
"""

from typing import Any

KEY = 'climate_wake_up'
#: The host whose nova-compute has begun: of one that was rescheduled, nova keeps the old host
#: until the claim.
_HOST = 'climate_wake_up_host'


def put(instance: Any, request_id: str) -> None:
    """Mark the server as woken by this request; the instance is not saved."""
    instance.system_metadata[KEY] = request_id
    instance.system_metadata.pop(_HOST, None)


def get(instance: Any) -> str | None:
    """Return the id of the request that wakes the server; None if none does."""
    return instance.system_metadata.get(KEY)


def put_host(instance: Any, host: str) -> None:
    """Note which host starts the server; the instance is not saved."""
    instance.system_metadata[_HOST] = host


def get_host(instance: Any) -> str | None:
    """Return the host that starts the server; None if no host has begun."""
    host = instance.system_metadata.get(_HOST)
    # A nova-compute of before this note starts what is on its host.
    return host or (instance.host if get(instance) else None)


def clear(instance: Any) -> None:
    """Remove the marker; the instance is not saved."""
    instance.system_metadata.pop(KEY, None)
    instance.system_metadata.pop(_HOST, None)
