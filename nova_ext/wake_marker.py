# SPDX-License-Identifier: Apache-2.0
"""The mark that nova-api leaves on a server that it wakes: which request it was.

In ``instance.system_metadata``. It tells nova-compute that a build is the second half of a
reservation, tells a build that was overtaken by a later wake_up, and after a crash tells a
half-started server from one that failed its first build.
"""

from typing import Any

KEY = 'climate_wake_up'


def put(instance: Any, request_id: str) -> None:
    """Mark the server as being woken by this request."""
    instance.system_metadata[KEY] = request_id


def get(instance: Any) -> str | None:
    """Give the request that wakes the server, if any."""
    return instance.system_metadata.get(KEY)


def clear(instance: Any) -> None:
    """Take the mark away; the instance is not saved."""
    instance.system_metadata.pop(KEY, None)
