# SPDX-License-Identifier: Apache-2.0
"""Read the forms of requests that only clients of Blazar send. Pure."""

import json
from collections.abc import Mapping
from typing import Any

#: Fields of Blazar's reservations that its command line always sends, with what it sends if the
#: user gives nothing (python-blazarclient 4.6.0, v1/shell_commands/leases.py).
_NOTHING = {
    'vcpus': '',
    'memory_mb': '',
    'disk_gb': '',
    'amount': '',
    'affinity': 'None',
    'resource_properties': '',
}


def reservation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give a reservation with the ``resource_id`` that Blazar's command line has no word for.

    It sends a filter of resources, ``resource_properties``; the one that names a resource,
    ``["==", "$id", "<id>"]``, is understood. Everything else stays, to be judged as it is.
    """
    wanted = _wanted_id(values.get('resource_properties'))
    if wanted is None or 'resource_id' in values:
        return dict(values)
    rest = {
        name: value
        for name, value in values.items()
        if name != 'resource_properties' and (name not in _NOTHING or value != _NOTHING[name])
    }
    return {**rest, 'resource_id': wanted}


def _wanted_id(text: Any) -> str | None:
    try:
        filtered = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    match filtered:
        case ['=' | '==', '$id', str(wanted)]:
            return wanted
    return None
