# SPDX-License-Identifier: Apache-2.0
"""The marker that nova-api writes to a server that it wakes: the id of the request.

It lies in ``instance.system_metadata``. By it nova-compute knows that a build is the second half
of a reservation, ignores a message of an older wake_up, and after a crash tells a server that was
starting from one that failed its first build. A repeated wake_up for the same host keeps the
marker, so that whichever of its messages arrives first starts the server.
"""

from typing import Any

KEY = 'climate_wake_up'


def put(instance: Any, request_id: str) -> None:
    """Mark the server as woken by this request; the instance is not saved."""
    instance.system_metadata[KEY] = request_id


def get(instance: Any) -> str | None:
    """Return the id of the request that wakes the server; None if none does."""
    return instance.system_metadata.get(KEY)


def clear(instance: Any) -> None:
    """Remove the marker; the instance is not saved."""
    instance.system_metadata.pop(KEY, None)
